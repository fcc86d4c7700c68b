"""How fairseq's commands end: with one line for errors that the user can fix."""

import contextlib
import logging
import os
import re
import sys
from types import TracebackType
from typing import Any

from omegaconf.errors import MissingMandatoryValue

from resmlp_mt.common.errors import UserError, end_by_sigint, end_without_reader

NO_MEMORY = "not enough memory: lower --max-tokens, --batch-size or --beam, or make the model smaller"
NO_TRANSLATION = (
    "no translation was found: the model's scores are nan or infinite, as its training has diverged (take an earlier "
    "checkpoint, or train with a lower --lr), or the options of searching allow none"
)
MISTAKES: list[tuple[type[Exception], str, str]] = [
    (MemoryError, "", NO_MEMORY),
    (Exception, "(can't|annot) allocate memory|out of memory", f"{NO_MEMORY} ({{text}})"),
    (OSError, "", "{text}: check the path, its permissions and the room on the disk"),
    (Exception, "^Could not infer language pair", "{text}: give a folder of binarized data, and both languages"),
    (AssertionError, "same number of examples", "one side of the data has more sentences: make the data again"),
    (AssertionError, "^Could not infer (model|task) type", "{text}: give the --user-dir of the checkpoint's training"),
    (Exception, "^Cannot load model parameters", "{text}: give the options of its training, or another --save-dir"),
    (Exception, "^The dataset is empty", "{text} Or give --required-batch-size-multiple 1"),
    (AssertionError, "exceeds? max_tokens", "{text}: raise --max-tokens"),
    (AssertionError, "^min_len cannot be larger", "{text}: lower --min-len, or raise --max-len-a or --max-len-b"),
    (AssertionError, "multiple of block sizes", "{text}: lower --quant-noise-pq-block-size"),
    (AssertionError, r"^\d+ < \d+$", NO_TRANSLATION),
    (ValueError, "^DistributedDataParallel device_ids", "--ddp-backend pytorch_ddp needs GPUs: give legacy_ddp"),
    (Exception, "'interpolation'", "--num-batch-buckets needs NumPy 1: leave it out"),
    (Exception, "numpy' has no .* 'compat'", "--num-batch-buckets or --sample-break-mode eos needs NumPy 1"),
    (ValueError, "group that doesn't match", "the optimizer's state has other sizes: give the training's options"),
    (KeyError, "^'model'$", "--store-ema: the checkpoint has no moving average: leave the option out"),
    (MissingMandatoryValue, "", "{text}: give that option too"),
    (ImportError, "install", "{text}"),
    (Exception, r"(^|[\s`(])--[a-z]", "{text}"),  # fairseq's messages about options name them
]
"""Errors of fairseq that a user can fix: the type, a pattern that the message contains, and what is printed instead.

The first row that fits is used; an error that fits none keeps its traceback.
"""


def explanation(error: BaseException) -> str | None:
    """Return what to print for an error that ended one of fairseq's commands, or None if the user cannot fix it."""
    if type(error).__name__ == "ProcessRaisedException":  # of torch.multiprocessing: a traceback as text
        found = re.search(r"^(?:([\w.]+)\.)?(\w+)(?:: (.*))?\s*\Z", str(error), re.M)
        kind = getattr(sys.modules.get(found[1] or "builtins"), found[2], None) if found else None
        if not (found and isinstance(kind, type) and issubclass(kind, Exception)):
            return None
        with contextlib.suppress(TypeError):  # some types need more than a text
            said = found[3] or ""
            error = kind(said.strip("'") if kind is KeyError else said)
    if isinstance(error, UserError):
        return str(error)
    text = " ".join(str(error).split())
    for kind, pattern, advice in MISTAKES:
        if isinstance(error, kind) and re.search(pattern, text):
            return advice.format(text=f"{text:.500}")
    return None


def loaded(name: str) -> list[Any]:
    """Return the loaded modules of a command: under its own name, or as ``__main__``."""
    specs = ((module, getattr(module, "__spec__", None)) for module in list(sys.modules.values()))
    return [module for module, spec in specs if getattr(spec, "name", None) == name]


def install() -> None:
    """Change how this process ends: by errors, by Ctrl-C and, in fairseq's commands, by a closed output pipe."""
    sys.excepthook, sys.unraisablehook = _excepthook, _unraisablehook
    if _runs_fairseq:
        os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # so fairseq-hydra-train leaves errors to the hook
        logging.StreamHandler.handleError = _handle_error_of_log  # type: ignore[method-assign]


_main: Any = sys.modules["__main__"]
_module = getattr(_main.__spec__, "name", None) or getattr(getattr(_main, "cli_main", None), "__module__", "")
_runs_fairseq = str(_module).startswith("fairseq_cli.")  # whether this process is one of fairseq's commands
_hook, _unraisable, _handle_error = sys.excepthook, sys.unraisablehook, logging.StreamHandler.handleError


def _ends_process(kind: type[BaseException]) -> bool:
    """Return whether this was Ctrl-C, except at Python's prompt, where it ends one statement."""
    return issubclass(kind, KeyboardInterrupt) and not hasattr(sys, "ps1")


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if _ends_process(kind):
        end_by_sigint()
    if _runs_fairseq and isinstance(error, BrokenPipeError):
        end_without_reader()
    message = explanation(error) if _runs_fairseq or isinstance(error, UserError) else None
    if message is None:
        _hook(kind, error, trace)
        return
    with contextlib.suppress(OSError):
        sys.stdout.flush()  # so that the line is the last
    print(message, file=sys.stderr)


def _unraisablehook(unraisable: Any) -> None:
    if _ends_process(unraisable.exc_type):  # while an object was deleted: Python would ignore it
        end_by_sigint()
    _unraisable(unraisable)


def _handle_error_of_log(self: logging.Handler, record: logging.LogRecord) -> None:
    if isinstance(sys.exc_info()[1], BrokenPipeError):
        end_without_reader()  # logging would go on, with a traceback for each line
    _handle_error(self, record)
