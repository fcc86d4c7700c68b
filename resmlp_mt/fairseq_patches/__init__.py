"""Every change to fairseq's behaviour: a function each, installed as this plugin's models are registered.

function                                  what changes, and what happens without it

errors.tell_uncaught                      a user's mistake, Ctrl-C and a closed pipe end a command in one line;
                                          without: a traceback
checkpoints.allow_fairseq_checkpoints     PyTorch's safe loading knows the types in fairseq's checkpoints;
                                          without: no checkpoint loads
checkpoints.refuse_bad_checkpoints        a bad checkpoint is one line, options that would run as code are refused;
                                          without: a checkpoint can run commands
checkpoints.write_checkpoints_whole       checkpoints and their copies appear whole, or nothing of them stays;
                                          without: a kill leaves half a checkpoint_last.pt, a full disk a temporary
commands.end_commands_in_one_line         what a user's options, files and machine make fairseq raise is told, closed
                                          pipes end it, --results-path holds whole files; without: tracebacks
data.check_data                           broken and mismatched data, too long sentences and empty data are one line;
                                          without: tracebacks, or the wrong sentences
options.check_options                     options that no model can have are refused before any work;
                                          without: tracebacks, or something else than asked for
training.begin_trainings_in_one_line      a --save-dir that cannot be written and a bad optimizer are one line;
                                          without: tracebacks, and a user's file named dummy there is deleted
training.end_diverged_trainings           nan and infinity end a training of our models before a checkpoint has them;
                                          without: crash.pt and a traceback, or a checkpoint of nan
help.show_model_options                   --help --arch shows this model's options;
                                          without: no model's options are ever shown
messages.tell_mistakes_in_one_line        missing data and checkpoints end a command in one line;
                                          without: a traceback
"""


def install() -> None:
    """Install all of them."""
    from resmlp_mt.checkpoints.loading import allow_fairseq_checkpoints
    from resmlp_mt.errors import tell_uncaught
    from resmlp_mt.fairseq_patches import checkpoints, commands, data, help, messages, options, training

    tell_uncaught()
    allow_fairseq_checkpoints()
    checkpoints.refuse_bad_checkpoints()
    checkpoints.write_checkpoints_whole()
    commands.end_commands_in_one_line()
    data.check_data()
    help.show_model_options()
    messages.tell_mistakes_in_one_line()
    options.check_options()
    training.begin_trainings_in_one_line()
    training.end_diverged_trainings()
