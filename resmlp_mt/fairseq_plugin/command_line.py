"""Checks of fairseq's options: those with which fairseq would silently do something else are refused."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints import evaluate
from resmlp_mt.fairseq_plugin.raw_text import choose_prepared_for_command
from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.task import check_ngrams, complete_languages
from resmlp_mt.nn.config import spelled

_parse_args_and_arch = options.parse_args_and_arch

LEAST = {
    **dict.fromkeys(("batch_size", "beam", "max_tokens", "nbest", "update_freq"), 1),
    **dict.fromkeys(("log_interval", "save_interval", "validate_interval"), 1),
    **dict.fromkeys(("clip_norm", "lr", "max_epoch", "max_update", "num_workers", "seed", "warmup_updates"), 0),
}
"""The smallest possible values of options; below them, fairseq waits for ever, increases the loss, and so on."""


def parse_args_and_arch(
    parser: argparse.ArgumentParser, input_args: list[str] | None = None, *args: Any, **kwargs: Any
) -> Any:
    """fairseq's function, but the help shows the model's options, and parsed options are completed and checked."""
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
    stands_alone = not kwargs.get("suppress_defaults")  # else: options that override those of fairseq-validate's model
    if stands_alone and hasattr(given, "data") and getattr(given, "task", None) == "translation":
        complete_languages(given)
    choose_prepared_for_command(given)
    for problem in _problems(given):
        raise UserError(problem)
    return parsed


def _add_model_options_to_help(parser: argparse.ArgumentParser, words: list[str]) -> None:
    # fairseq adds a model's options after a first parse, in which --help already prints and exits
    named = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    named.add_argument("--arch", "-a")
    if not {"-h", "--help"} & set(words):
        return
    if ARCH_MODEL_REGISTRY.get(named.parse_known_args(words)[0].arch) is ResMLPTransformerModel:
        group = parser.add_argument_group("Model-specific configuration", argument_default=argparse.SUPPRESS)
        ResMLPTransformerModel.add_args(group)


def _problems(given: argparse.Namespace) -> Iterator[str]:
    """Yield a message for each option that fairseq would ignore, or with which it would silently do something else."""
    get = vars(given).get
    for name, least in LEAST.items():
        value = get(name)
        for number in value if isinstance(value, list) else [value]:
            if number is not None and not number >= least:
                yield f"{spelled(name)} is {number}: give {least} or more"
    for name in "model_overrides", "optimizer_overrides", "eval_bleu_args", "eval_bleu_detok_args":
        text = get(name)
        if text is None:
            continue
        with contextlib.suppress(ValueError):
            overrides = evaluate(text) if name.endswith("overrides") else json.loads(text)
            if isinstance(overrides, dict) and all(str(each).isidentifier() for each in overrides):
                continue
        yield f"{spelled(name)} {text}: give a dictionary of options, such as '{{\"dropout\": 0}}'"
    if not get("path", "given"):
        yield "--path is missing: give a checkpoint, or several with : between them"
    has_gpu = torch.cuda.is_available()
    if get("distributed_init_method") and not given.distributed_no_spawn and not has_gpu:
        yield "--distributed-init-method without a GPU would start no process: start each with --distributed-no-spawn"
    if "beam" in given:
        interactive = "buffer_size" in given
        other = "fairseq-generate" if interactive else "fairseq-interactive"
        unread = "lm_path", "lm_weight", "prefix_size", "score_reference", "truncate_source"
        for name in unread if interactive else ("constraints",):
            if get(name):
                yield f"{spelled(name)}: this command ignores it: use {other}"
        if given.print_alignment == "soft" and (interactive or get("score_reference")):
            yield "--print-alignment soft: this command prints hard alignments only: give hard"
        if given.num_shards != 1:
            yield f"--num-shards {given.num_shards}: fairseq ignores it and would translate all: leave it out"
        for name in ("replace_unk", "print_step", "retain_iter_history") if given.task == "translation" else ():
            if get(name) not in (None, False):
                yield f"{spelled(name)}: fairseq would end with an error: leave it out"
        check_ngrams(given)  # here for all tasks
        if get("lm_weight") and not get("lm_path"):
            yield "--lm-weight: give --lm-path too"
        if get("lm_path") and get("score_reference"):
            yield "--lm-path: --score-reference ignores it: leave it out"
        if get("left_pad_target") and (get("score_reference") or get("prefix_size")):
            yield "--left-pad-target: fairseq would take padding for the target's first symbols: leave it out"
        if get("retain_dropout_modules") and not get("retain_dropout"):
            yield "--retain-dropout-modules: give --retain-dropout too"
    elif "arch" in given:
        if given.bf16:
            yield "--bf16: fairseq trains in bf16 on TPUs only: leave it out, or give --amp"
        if given.fp16 and (given.cpu or not has_gpu):
            yield "--fp16 with --cpu, or no GPU that PyTorch sees: fairseq trains in 16 bits on a GPU only: give --amp"
        if given.lr_scheduler == "inverse_sqrt" and given.warmup_updates == 0:
            yield "--lr-scheduler inverse_sqrt: give --warmup-updates, 1 or more"
        if given.lr_scheduler == "polynomial_decay" and given.total_num_update is None:
            yield "--lr-scheduler polynomial_decay: give --total-num-update"
        metric, highest = given.best_checkpoint_metric, given.maximize_best_checkpoint_metric
        if metric == "bleu" and not get("eval_bleu"):
            yield "--best-checkpoint-metric bleu: give --eval-bleu too"
        if metric == "accuracy" and get("report_accuracy") is False:
            yield "--best-checkpoint-metric accuracy: give --report-accuracy too"
        if metric in ("bleu", "accuracy") and not highest:
            yield f"--best-checkpoint-metric {metric}: give --maximize-best-checkpoint-metric too"
        if metric in ("loss", "nll_loss", "ppl") and highest:
            yield f"--maximize-best-checkpoint-metric: the highest {metric} is the worst: give --best-checkpoint-metric"
        if get("quant_noise_pq") and (not given.fp16 or given.memory_efficient_fp16 or max(given.update_freq) > 1):
            yield "--quant-noise-pq: fairseq would zero the weights for good: give --fp16, and no --update-freq"
        single = given.distributed_world_size == 1 and not given.distributed_init_method
        if single and int(os.environ.get("WORLD_SIZE") or 1) > 1:
            yield "torchrun: each process would train a model of its own: give --distributed-world-size $WORLD_SIZE"
