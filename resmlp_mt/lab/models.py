"""fairseq's options and models, for planning and measuring."""

import contextlib
import io
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import torch
from fairseq import options
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask

import resmlp_mt.fairseq_plugin  # noqa: F401  (registers the models)
from resmlp_mt.common.errors import UserError


def training_args(words: Sequence[str], name: str) -> Namespace:
    """Parse options of fairseq-train and add the architecture's defaults; error messages begin with ``name``."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return options.parse_args_and_arch(options.get_training_parser(), list(words))
    except (SystemExit, ValueError, AssertionError) as error:
        reason = complaint.getvalue().strip().rpartition("\n")[2].partition("error: ")[2] or error
        raise UserError(f"{name}: {reason}") from error


def build_model(config: Any, task: TranslationTask) -> BaseFairseqModel:
    torch.manual_seed(1)
    try:
        return task.build_model(config.model)
    except (AssertionError, RuntimeError, ValueError) as error:
        reason, *_ = str(error).split("\n")
        raise UserError(f"{config.model.arch}: {reason}") from error
