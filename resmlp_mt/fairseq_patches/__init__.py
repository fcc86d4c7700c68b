"""Every change to fairseq's behaviour: a function each, installed as this plugin's models are registered.

function                                  what changes, and what happens without it

errors.tell_uncaught                      a user's mistake, Ctrl-C and a closed pipe end a command in one line;
                                          without: a traceback
checkpoints.allow_fairseq_checkpoints     PyTorch's safe loading knows the types in fairseq's checkpoints;
                                          without: no checkpoint loads
checkpoints.refuse_bad_checkpoints        a bad checkpoint is one line, options that would run as code are refused;
                                          without: a checkpoint can run commands
checkpoints.copy_checkpoints_atomically   copies of checkpoints appear whole;
                                          without: a kill leaves half a checkpoint_last.pt
help.show_model_options                   --help --arch shows this model's options;
                                          without: no model's options are ever shown
messages.tell_mistakes_in_one_line        missing data and over-long sentences end a command in one line;
                                          without: a traceback
"""


def install() -> None:
    """Install all of them."""
    from resmlp_mt.checkpoints.loading import allow_fairseq_checkpoints
    from resmlp_mt.errors import tell_uncaught
    from resmlp_mt.fairseq_patches import checkpoints, help, messages

    tell_uncaught()
    allow_fairseq_checkpoints()
    checkpoints.refuse_bad_checkpoints()
    checkpoints.copy_checkpoints_atomically()
    help.show_model_options()
    messages.tell_mistakes_in_one_line()
