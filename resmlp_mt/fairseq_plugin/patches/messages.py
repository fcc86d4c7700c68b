"""What fairseq says of a user's mistakes, in one line."""

import functools
from collections.abc import Callable
from typing import Any

from fairseq import checkpoint_utils
from fairseq.tasks.translation import TranslationTask

from resmlp_mt.common.errors import UserError


def tell_mistakes_in_one_line() -> None:
    """Let missing data and missing checkpoints end fairseq's commands without a traceback.

    fairseq raises a bare ``Exception`` or a ``FileNotFoundError`` for them, with a message that says what is wrong: no
    data-bin, no languages in its file names, no such split; and for a checkpoint an ``OSError`` without a number.
    """
    setup_task = TranslationTask.__dict__["setup_task"].__func__
    advice = (
        ": give fairseq's folder of binarized data, with --source-lang and --target-lang where its names do not tell"
    )
    TranslationTask.setup_task = classmethod(_in_one_line(setup_task, _is_bare, advice))
    TranslationTask.load_dataset = _in_one_line(
        TranslationTask.load_dataset,
        _is_bare,
        ": give a split that the data has, made by prepare_text.py or fairseq-preprocess",
    )
    checkpoint_utils.load_model_ensemble_and_task = _in_one_line(
        checkpoint_utils.load_model_ensemble_and_task,
        lambda error: isinstance(error, OSError) and error.errno is None,
        ": give a file that fairseq-train or average_checkpoints.py wrote",
    )


def _is_bare(error: Exception) -> bool:
    return type(error) in (Exception, FileNotFoundError)


def _in_one_line(
    function: Callable[..., Any], is_message: Callable[[Exception], bool] = _is_bare, advice: str = ""
) -> Callable[..., Any]:
    @functools.wraps(function)
    def telling(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if not is_message(error):  # anything else is nothing for a user
                raise
            message = " ".join(str(error).split())
            if isinstance(error, OSError) and error.filename:
                message = f"{error.filename}: {error.strerror}"
            raise UserError(message + advice) from error

    return telling
