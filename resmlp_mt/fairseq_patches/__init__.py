"""Every change to fairseq's behaviour: a function each, installed as this plugin's models are registered.

function                                  what changes, and what happens without it

errors.tell_uncaught                      a user's mistake, Ctrl-C and a closed pipe end a command in one line;
                                          without: a traceback
checkpoints.load_checkpoints_as_data      checkpoints are loaded by ``resmlp_mt.checkpoints``, a bad one is one line;
                                          without: PyTorch loads none, or a checkpoint opens files
checkpoints.check_overrides               overrides that are no dictionary are refused by the option's name;
                                          without: a traceback, or the checkpoint is blamed
checkpoints.copy_checkpoints_atomically   copies of checkpoints appear whole;
                                          without: a kill leaves half a checkpoint_last.pt
evaluation.evaluate_data_alone            options that fairseq evaluates as Python are read as data;
                                          without: a checkpoint can run commands
resuming.begin_with_the_right_checkpoint  a training's checkpoint that is missing or does not fit is one line, and many
                                          processes resume; without: it begins anew, or a traceback
help.show_model_options                   --help --arch shows this model's options;
                                          without: no model's options are ever shown
messages.tell_mistakes_in_one_line        missing data and over-long sentences end a command in one line;
                                          without: a traceback
"""


def install() -> None:
    """Install all of them."""
    from resmlp_mt.errors import tell_uncaught
    from resmlp_mt.fairseq_patches import checkpoints, evaluation, help, messages, resuming

    tell_uncaught()
    checkpoints.load_checkpoints_as_data()
    checkpoints.check_overrides()
    checkpoints.copy_checkpoints_atomically()
    evaluation.evaluate_data_alone()
    resuming.begin_with_the_right_checkpoint()
    help.show_model_options()
    messages.tell_mistakes_in_one_line()
