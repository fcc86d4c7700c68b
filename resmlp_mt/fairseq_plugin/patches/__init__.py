"""Every change to fairseq's behaviour: a function each, installed as this plugin's models are registered.

function                                  what changes, and what happens without it

errors.tell_uncaught                      a user's mistake, Ctrl-C and a closed pipe end a command in one line;
                                          without: a traceback
checkpoints.load_checkpoints_as_data      checkpoints are loaded as data, a bad one is one line;
                                          without: PyTorch loads none, or a checkpoint opens files
checkpoints.check_overrides               overrides that are no dictionary are refused by the option's name;
                                          without: a traceback, or the checkpoint is blamed
checkpoints.write_checkpoints_whole       checkpoints and their copies appear whole, or nothing of them stays;
                                          without: a kill leaves half a checkpoint_last.pt, a full disk a temporary
commands.end_commands_in_one_line         what a user's options, files and machine make fairseq raise is told, closed
                                          pipes end it, --results-path holds whole files; without: tracebacks
data.check_data                           broken and mismatched data, too long sentences and empty data are one line;
                                          without: tracebacks, or the wrong sentences
evaluation.evaluate_data_alone            options that fairseq evaluates as Python are read as data;
                                          without: a checkpoint can run commands
options.check_options                     options that no model can have are refused before any work;
                                          without: tracebacks, or something else than asked for
resuming.begin_with_the_right_checkpoint  a training's checkpoint that is missing or does not fit is one line, and many
                                          processes resume; without: it begins anew, or a traceback
training.begin_trainings                  a --save-dir that cannot be written and a bad optimizer are one line, what is
                                          trained to its end stays so; without: tracebacks, a user's file named dummy is
                                          deleted, a training that is done gets an update more
training.end_diverged_trainings           nan and infinity end a training of our models before a checkpoint has them;
                                          without: crash.pt and a traceback, or a checkpoint of nan
training.mix_precisions_on_a_cpu          --amp on a CPU computes products in bfloat16;
                                          without: CUDA's is asked for, and fp32 trained, with a warning
help.show_model_options                   --help --arch shows this model's options;
                                          without: no model's options are ever shown
interactive.take_lines_one_by_one         fairseq-interactive numbers lines as they are, translates the others where
                                          one is bad, and tells what lacks before it loads a model;
                                          without: tracebacks, lines too many, all lost for one that is too long
languages.complete_languages              of two languages the missing ones come from the data, for all that needs them;
                                          without: tracebacks of tokenizers, and --source-lang de alone counts for none
messages.tell_mistakes_in_one_line        missing data and checkpoints end a command in one line;
                                          without: a traceback
raw_text.treat_raw_text_as_prepared       raw text is treated as data-bin's text.json says, where no option says how;
                                          mistakes in its options are one line;
                                          without: unknown symbols for all that preparing cleaned or normalized
sentences.translate_nothing_to_nothing    a sentence without a word has an empty translation;
                                          without: an invented one
"""

import torch

from resmlp_mt.common.errors import UserError, tell_uncaught

OLDEST_TORCH = 2, 6


def check_torch(version: str) -> None:
    """See that PyTorch is new enough: from 2.6 on it loads checkpoints as data.

    Raises:
        UserError: it is not
    """
    if tuple(map(int, version.split(".")[:2])) < OLDEST_TORCH:
        raise UserError(f"torch {version} is too old for resmlp_mt: pip install 'torch>=2.6', or use scripts/setup.sh")


def install() -> None:
    """Install all of them.

    Raises:
        UserError: PyTorch is too old
    """
    from resmlp_mt.fairseq_plugin.patches import (
        checkpoints,
        commands,
        data,
        evaluation,
        help,
        interactive,
        languages,
        messages,
        options,
        raw_text,
        resuming,
        sentences,
        training,
    )

    tell_uncaught()
    check_torch(torch.__version__)
    checkpoints.load_checkpoints_as_data()
    checkpoints.check_overrides()
    checkpoints.write_checkpoints_whole()
    commands.end_commands_in_one_line()
    data.check_data()
    evaluation.evaluate_data_alone()
    resuming.begin_with_the_right_checkpoint()
    help.show_model_options()
    interactive.take_lines_one_by_one()
    languages.complete_languages()
    messages.tell_mistakes_in_one_line()
    options.check_options()
    training.begin_trainings()
    training.end_diverged_trainings()
    training.mix_precisions_on_a_cpu()
    raw_text.treat_raw_text_as_prepared()
    sentences.translate_nothing_to_nothing()
