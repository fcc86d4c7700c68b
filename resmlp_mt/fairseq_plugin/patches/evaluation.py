"""What fairseq evaluates as Python."""

import importlib

from resmlp_mt.fairseq_plugin.checkpoints.options import EVALUATED, evaluate


def evaluate_data_alone() -> None:
    """Let fairseq's ``eval`` read data and run nothing.

    Some models, tasks and criterions evaluate options, and a checkpoint chooses them and their options: a subscript or
    an attribute in one would run code. Python looks for ``eval`` among a module's own names first.
    """
    for name in EVALUATED:
        importlib.import_module(name).eval = evaluate  # type: ignore[attr-defined]
