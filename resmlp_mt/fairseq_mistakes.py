"""What fairseq says of a user's mistakes, in one line."""

import functools
from collections.abc import Callable
from typing import Any

from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.tasks.translation import TranslationTask

from resmlp_mt.errors import UserError


def tell_mistakes_in_one_line() -> None:
    """Let missing data and over-long sentences end fairseq's commands without a traceback.

    fairseq raises a bare ``Exception`` or a ``FileNotFoundError`` for them, with a message that says what is wrong: no
    data-bin or no dictionary, no languages in its file names, a sentence with more positions than the model.
    """
    setup_task = TranslationTask.__dict__["setup_task"].__func__
    TranslationTask.setup_task = classmethod(_in_one_line(setup_task))
    TranslationTask.load_dataset = _in_one_line(TranslationTask.load_dataset)
    FairseqTask.filter_indices_by_size = _in_one_line(FairseqTask.filter_indices_by_size)


def _in_one_line(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def telling(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if type(error) not in (Exception, FileNotFoundError):  # anything else is no message for a user
                raise
            raise UserError(" ".join(str(error).split())) from error

    return telling
