"""The options of fairseq's commands: refused where fairseq would silently do something else than they say."""

import argparse
import ast
import sys
from collections.abc import Callable
from typing import Any

import torch
from fairseq import options

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.options import PRESETS
from resmlp_mt.fairseq_plugin.raw_text import choose_prepared_for_command
from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.task import complete_languages

_parse_args_and_arch = options.parse_args_and_arch

LEAST = {
    **dict.fromkeys(("batch_size", "beam", "max_tokens", "nbest", "update_freq"), 1),
    **dict.fromkeys(("clip_norm", "lr", "max_epoch", "max_update", "warmup_updates"), 0),
}
"""The least numbers that options can have; below, fairseq waits for ever, climbs instead of descending, ..."""


def parse_args_and_arch(
    parser: argparse.ArgumentParser, input_args: list[str] | None = None, *args: Any, **kwargs: Any
) -> Any:
    """fairseq's function; help has the model's options, and what is parsed is completed and checked."""
    _add_model_options_to_help(parser, sys.argv[1:] if input_args is None else input_args)
    if any(action.dest == "task" for action in parser._actions) and parser.get_default("task") is None:
        parser.set_defaults(task="translation")  # fairseq-validate has no default, and dies without --task
    try:
        parsed = _parse_args_and_arch(parser, input_args, *args, **kwargs)
    except RuntimeError as error:
        if str(error):
            raise
        raise UserError("--arch is missing: give one, as in --arch resmlp_transformer") from error
    given: argparse.Namespace = parsed[0] if isinstance(parsed, tuple) else parsed
    if hasattr(given, "data") and getattr(given, "task", None) == "translation":
        complete_languages(given)
    choose_prepared_for_command(given)
    for check in CHECKS:
        check(given)
    return parsed


def _add_model_options_to_help(parser: argparse.ArgumentParser, words: list[str]) -> None:
    # fairseq adds a model's options after a first parse, in which --help already prints and exits
    named = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    named.add_argument("--arch", "-a")
    if {"-h", "--help"} & set(words) and named.parse_known_args(words)[0].arch in PRESETS:
        group = parser.add_argument_group("Model-specific configuration", argument_default=argparse.SUPPRESS)
        ResMLPTransformerModel.add_args(group)


def _check_numbers(given: argparse.Namespace) -> None:
    for name, least in LEAST.items():
        value = getattr(given, name, None)
        for number in value if isinstance(value, list) else [value]:
            if number is not None and not number >= least:
                raise UserError(f"--{name.replace('_', '-')} is {number}: give {least} or more")


def _check_overrides(given: argparse.Namespace) -> None:
    for name in "model_overrides", "optimizer_overrides":
        text = getattr(given, name, "{}")
        try:
            is_dictionary = isinstance(ast.literal_eval(text), dict)
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            is_dictionary = False
        if not is_dictionary:
            raise UserError(
                f"--{name.replace('_', '-')} {text}: give a dictionary of options, such as \"{{'dropout': 0}}\""
            )


def _check_path(given: argparse.Namespace) -> None:
    if not getattr(given, "path", "given"):
        raise UserError("--path is missing: give a checkpoint, or several with : between them")


def _check_machine(given: argparse.Namespace) -> None:
    spawns = getattr(given, "distributed_init_method", None) and not given.distributed_no_spawn
    if spawns and not torch.cuda.is_available():
        raise UserError(
            "--distributed-init-method with no GPU that PyTorch sees: fairseq starts a process a GPU, and would do "
            "nothing: start each process yourself, with --distributed-no-spawn and its --distributed-rank"
        )


def _check_training(given: argparse.Namespace) -> None:
    if not hasattr(given, "arch") or hasattr(given, "beam"):  # fairseq-generate has both
        return
    if given.bf16:
        raise UserError("--bf16: fairseq trains so on TPUs alone: leave it out, or give --amp")
    if given.fp16 and (given.cpu or not torch.cuda.is_available()):
        raise UserError(
            "--fp16 with --cpu, or no GPU that PyTorch sees: fairseq trains in 16 bits on a GPU alone: give --amp"
        )
    if given.lr_scheduler == "inverse_sqrt" and given.warmup_updates == 0:
        raise UserError("--lr-scheduler inverse_sqrt: give --warmup-updates, 1 or more")
    if given.best_checkpoint_metric == "bleu" and not getattr(given, "eval_bleu", False):
        raise UserError("--best-checkpoint-metric bleu: give --eval-bleu too")


def _check_ignored(given: argparse.Namespace) -> None:
    """Refuse options of which fairseq-generate or fairseq-interactive takes no notice."""
    if not hasattr(given, "beam"):
        return
    interactive = hasattr(given, "buffer_size")
    ignored = ("lm_path", "prefix_size", "score_reference") if interactive else ("constraints",)
    other = "fairseq-generate" if interactive else "fairseq-interactive"
    for name in ignored:
        if getattr(given, name):
            raise UserError(f"--{name.replace('_', '-')}: this command takes no notice of it: use {other}")
    if given.num_shards != 1:
        raise UserError(f"--num-shards {given.num_shards}: fairseq would translate all: leave it out")


CHECKS: list[Callable[[argparse.Namespace], None]] = [
    _check_numbers,
    _check_overrides,
    _check_path,
    _check_machine,
    _check_training,
    _check_ignored,
]
