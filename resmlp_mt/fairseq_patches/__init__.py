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
interactive.take_lines_one_by_one         fairseq-interactive numbers lines as they are, translates the others where
                                          one is bad, and tells what lacks before it loads a model;
                                          without: tracebacks, lines too many, all lost for one that is too long
languages.complete_languages              of two languages the missing ones come from the data, for all that needs them;
                                          without: tracebacks of tokenizers, and --source-lang de alone counts for none
messages.tell_mistakes_in_one_line        missing data and over-long sentences end a command in one line;
                                          without: a traceback
raw_text.treat_raw_text_as_prepared       raw text is treated as data-bin's text.json says, where no option says how;
                                          mistakes in its options are one line;
                                          without: unknown symbols for all that preparing settled or normalised
sentences.translate_nothing_to_nothing    a sentence without a word has an empty translation;
                                          without: an invented one
"""


def install() -> None:
    """Install all of them."""
    from resmlp_mt.checkpoints.loading import allow_fairseq_checkpoints
    from resmlp_mt.errors import tell_uncaught
    from resmlp_mt.fairseq_patches import checkpoints, help, interactive, languages, messages, raw_text, sentences

    tell_uncaught()
    allow_fairseq_checkpoints()
    checkpoints.refuse_bad_checkpoints()
    checkpoints.copy_checkpoints_atomically()
    help.show_model_options()
    interactive.take_lines_one_by_one()
    languages.complete_languages()
    messages.tell_mistakes_in_one_line()
    raw_text.treat_raw_text_as_prepared()
    sentences.translate_nothing_to_nothing()
