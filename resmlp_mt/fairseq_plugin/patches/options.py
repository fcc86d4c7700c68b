"""The options of fairseq's commands: each refused in one line, before any work, where no model can have its value."""

import argparse
import ast
import difflib
import functools
import importlib.util
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from fairseq import options
from fairseq.data.encoders import TOKENIZER_REGISTRY
from fairseq.dataclass.configs import FairseqConfig, GenerationConfig
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.transformer import TransformerConfig
from fairseq.registry import REGISTRIES
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from fairseq.tasks.fairseq_task import FairseqTask

from resmlp_mt.common.errors import UserError

Limit = tuple[Callable[[float], bool], str]
"""Whether a number is possible (nan is nowhere), and which numbers are, in words."""

FROM_0: Limit = (lambda value: value >= 0, "0 or more")
FROM_1: Limit = (lambda value: value >= 1, "1 or more")
POSITIVE: Limit = (lambda value: 0 < value < math.inf, "a number above 0")
FINITE: Limit = (math.isfinite, "a finite number")
SHARE: Limit = (lambda value: 0 <= value < 1, "a share from 0 to below 1")
SEED: Limit = (lambda value: 0 <= value < 2**32 - 10**6, "a number from 0 to 4293967295")  # fairseq adds the epoch

LIMITS: dict[str, Limit] = {
    "adam_eps": FROM_0,
    "batch_size": FROM_1,
    "batch_size_valid": FROM_1,
    "buffer_size": FROM_0,
    "clip_norm": FROM_0,
    "curriculum": FROM_0,
    "data_buffer_size": FROM_0,
    "distributed_world_size": FROM_1,
    "ema_decay": (lambda value: 0 <= value <= 1, "a number from 0 to 1"),
    "empty_cache_freq": FROM_0,
    "end_learning_rate": FROM_0,
    "fixed_validation_seed": SEED,
    "fp16_init_scale": POSITIVE,
    "fp16_scale_window": FROM_1,
    "ignore_prefix_size": FROM_0,
    "keep_interval_updates_pattern": (lambda value: value == -1 or value >= 1, "-1 or 1 or more"),
    "label_smoothing": SHARE,
    "log_interval": FROM_1,
    "lr": POSITIVE,
    "max_epoch": FROM_0,
    "max_source_positions": FROM_1,
    "max_target_positions": FROM_1,
    "max_tokens": FROM_1,
    "max_tokens_valid": FROM_1,
    "max_update": FROM_0,
    "max_valid_steps": FROM_0,
    "min_loss_scale": FROM_0,
    "momentum": SHARE,
    "num_batch_buckets": FROM_0,
    "num_workers": FROM_0,
    "quant_noise_pq": SHARE,
    "quant_noise_scalar": SHARE,
    "required_batch_size_multiple": FROM_1,
    "required_seq_len_multiple": FROM_1,
    "save_interval": FROM_1,
    "save_interval_updates": FROM_0,
    "seed": SEED,
    "stop_time_hours": FROM_0,
    "update_freq": FROM_1,
    "validate_after_updates": FROM_0,
    "validate_interval": FROM_1,
    "validate_interval_updates": FROM_0,
    "warmup_updates": FROM_0,
    "weight_decay": FROM_0,
}
"""Of all commands but searching, as far as fairseq does not check them itself in one line."""

SEARCH_LIMITS: dict[str, Limit] = {
    "beam": FROM_1,
    "diverse_beam_groups": (lambda value: value == -1 or value >= 1, "-1 for none, or 1 or more"),
    "diverse_beam_strength": FINITE,
    "diversity_rate": (lambda value: value == -1 or 0 <= value < math.inf, "-1 for none, or 0 or more"),
    "lenpen": (lambda value: -50 <= value <= 50, "a number from -50 to 50"),  # lengths are raised to that power
    "lm_weight": FINITE,
    "max_len_a": (lambda value: 0 <= value < math.inf, "0 or more"),
    "max_len_b": FROM_0,
    "min_len": FROM_0,
    "nbest": FROM_1,
    "no_repeat_ngram_size": FROM_0,
    "prefix_size": FROM_0,
    "sampling_topk": (lambda value: value == -1 or value >= 1, "-1 for all, or 1 or more"),
    "sampling_topp": (lambda value: value == -1 or 0 < value <= 1, "-1 for all, or a probability above 0 up to 1"),
    "temperature": POSITIVE,
    "unkpen": (lambda value: value > -math.inf, "a number"),  # inf: never
}


def check_options() -> None:
    """Refuse options with which fairseq's commands would end in a traceback, or do something else than they say.

    Those of searching are checked as the generator is built: Python and ``--eval-bleu`` have no other place.
    """
    options.parse_args_and_arch = _checked(options.parse_args_and_arch)
    FairseqTask.build_generator = _search_checked(FairseqTask.build_generator)
    for kind in SequenceGenerator, SequenceGeneratorWithAlignment:
        kind.generate = _explained(kind.generate)


def _checked(parse_args_and_arch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(parse_args_and_arch)
    def checked(parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        if any(action.dest == "task" for action in parser._actions) and parser.get_default("task") is None:
            parser.set_defaults(task="translation")  # fairseq-validate has no default, and dies without --task
        try:
            parsed = parse_args_and_arch(parser, *args, **kwargs)
        except RuntimeError as error:
            if str(error):
                raise
            raise UserError("--arch is missing: give one, as in --arch resmlp_transformer") from error
        check_command_line(parsed[0] if isinstance(parsed, tuple) else parsed)
        return parsed

    return checked


def check_command_line(args: argparse.Namespace) -> None:
    """Refuse what no model can be trained, evaluated or run with.

    Args:
        args: the options of one of fairseq's commands; those that it does not have are missing

    Raises:
        UserError: with the option, its value and what to give
    """
    given = vars(args)
    _check_limits(given, LIMITS)
    if "path" in given and not args.path:
        raise UserError("--path is missing: give a checkpoint, or several with : between them")
    spawned = given.get("distributed_init_method") and not given.get("distributed_no_spawn")
    if spawned and not torch.cuda.is_available():
        raise UserError(
            "--distributed-init-method with no GPU that PyTorch sees: fairseq starts a process a GPU, and would do "
            "nothing: start each process yourself, with --distributed-no-spawn and its --distributed-rank"
        )
    if given.get("constraints") and "buffer_size" not in given:
        raise UserError("--constraints: fairseq-generate's data has none: use fairseq-interactive")
    if "restore_file" in given and "lr_scheduler" in given and "beam" not in given:
        _check_training(args)


def _check_training(args: argparse.Namespace) -> None:
    if args.tpu and importlib.util.find_spec("torch_xla") is None:
        option = "--bf16" if args.bf16 else "--tpu"
        raise UserError(f"{option}: fairseq trains so on TPUs alone: leave it out, or give --fp16 or --amp on a GPU")
    if args.fp16 and (args.cpu or not torch.cuda.is_available()):
        why = "--cpu" if args.cpu else "no GPU that PyTorch sees"
        raise UserError(f"--fp16 with {why}: fairseq trains in 16 bits on a GPU alone: leave it out")
    if args.profile and not torch.cuda.is_available():
        raise UserError("--profile with no GPU that PyTorch sees: fairseq profiles a GPU alone: leave it out")
    if args.optimizer == "composite":
        raise UserError("--optimizer composite: takes its groups from a file of fairseq-hydra-train: give another")
    warmup, total = getattr(args, "warmup_updates", 0), getattr(args, "total_num_update", None)
    if args.lr_scheduler == "inverse_sqrt" and warmup < 1:
        raise UserError("--lr-scheduler inverse_sqrt: give --warmup-updates, 1 or more")
    if args.lr_scheduler == "polynomial_decay" and not (total and float(total) >= 1):
        raise UserError("--lr-scheduler polynomial_decay: give --total-num-update, 1 or more")
    if str(args.update_epoch_batch_itr) not in ("True", "False"):
        raise UserError(f"--update-epoch-batch-itr {args.update_epoch_batch_itr}: give True or False")
    betas = getattr(args, "adam_betas", None)
    if betas is not None and not _is_pair_of_shares(betas):
        raise UserError(f'--adam-betas "{betas}": give two numbers from 0 to below 1, as in "(0.9, 0.98)"')
    if getattr(args, "eval_bleu", False):
        _check_eval_bleu(args)
    known = _METRICS | ({"accuracy"} if getattr(args, "report_accuracy", False) else set())
    known |= {"bleu"} if getattr(args, "eval_bleu", False) else set()
    usual = args.task == "translation" and args.criterion in ("cross_entropy", "label_smoothed_cross_entropy")
    if usual and args.best_checkpoint_metric not in known:
        raise UserError(
            f"--best-checkpoint-metric {args.best_checkpoint_metric}: validation has {', '.join(sorted(known))} "
            "(bleu with --eval-bleu, accuracy with --report-accuracy)"
        )


_METRICS = {"loss", "nll_loss", "ppl", "wps", "wpb", "bsz"}
"""What fairseq's usual criterions report of a validation; anything else is missed after the first epoch only."""


def _is_pair_of_shares(text: str) -> bool:
    try:
        first, second = ast.literal_eval(str(text))
        return 0 <= first < 1 and 0 <= second < 1
    except (SyntaxError, TypeError, ValueError):
        return False


def _check_eval_bleu(args: argparse.Namespace) -> None:
    for name in "eval_bleu_args", "eval_bleu_detok_args":
        option, text = f"--{name.replace('_', '-')}", getattr(args, name) or "{}"
        try:
            value = json.loads(text)
        except ValueError as error:
            raise UserError(f"{option} {text}: not JSON ({error}): give it as '{{\"beam\": 4}}'") from error
        if not isinstance(value, dict):
            raise UserError(f"{option} {text}: give a JSON object, as '{{\"beam\": 4}}'")
        unknown = value.keys() - GenerationConfig.__dataclass_fields__.keys()
        if unknown and name == "eval_bleu_args":
            raise UserError(f"{option}: {', '.join(sorted(unknown))}: no option of fairseq-generate")
    if args.eval_bleu_detok not in TOKENIZER_REGISTRY:
        names = ", ".join(sorted(TOKENIZER_REGISTRY))
        raise UserError(f"--eval-bleu-detok {args.eval_bleu_detok}: give one of {names}")


def _check_limits(given: Mapping[str, Any], limits: Mapping[str, Limit]) -> None:
    for name, (possible, expected) in limits.items():
        value = given.get(name)
        if value is not None:
            values = list(value) if isinstance(value, list) else [value]
            if not values or not all(possible(_number(each)) for each in values):
                said = ",".join(map(str, values))
                raise UserError(f"--{name.replace('_', '-')} is {said or 'empty'}: give {expected}")


def _number(value: Any) -> float:
    try:
        return float(value)  # some options of fairseq stay text until later
    except (TypeError, ValueError):
        return math.nan


def _search_checked(build_generator: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(build_generator)
    def checked(
        self: FairseqTask,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: dict[str, Any] | None = None,
        *more: Any,
        **kwargs: Any,
    ) -> Any:
        check_search(args, len(self.target_dictionary))
        language_model = (extra_gen_cls_kwargs or {}).get("lm_model")
        if isinstance(language_model, FairseqEncoderDecoderModel):
            raise UserError(f"--lm-path {args.lm_path}: a translation model: give a language model of the target side")
        if language_model is not None and language_model.decoder.dictionary != self.target_dictionary:
            raise UserError(f"--lm-path {args.lm_path}: its dictionary, dict.txt of the data, is not the target's")
        return build_generator(self, models, args, seq_gen_cls, extra_gen_cls_kwargs, *more, **kwargs)

    return checked


def check_search(args: Any, target_symbols: int) -> None:
    """Refuse a search that finds nothing, or something else than asked for.

    Args:
        args: the options of searching, some of which may be missing
        target_symbols: entries of the target dictionary

    Raises:
        UserError: with the option, its value and what to give
    """
    given = {name: getattr(args, name, None) for name in SEARCH_LIMITS}
    _check_limits(given, SEARCH_LIMITS)
    beam, nbest, groups = given["beam"] or 5, given["nbest"] or 1, given["diverse_beam_groups"] or -1
    if nbest > beam:
        raise UserError(f"--nbest is {nbest}: give no more than --beam, which is {beam}")
    if groups > 0 and beam % groups:
        raise UserError(f"--beam {beam} is not a multiple of --diverse-beam-groups {groups}")
    if (given["sampling_topk"] or -1) > target_symbols:
        raise UserError(f"--sampling-topk is {given['sampling_topk']}: the dictionary has {target_symbols} entries")
    strategies = {
        "--sampling": getattr(args, "sampling", False),
        "--diverse-beam-groups": groups > 0,
        "--match-source-len": getattr(args, "match_source_len", False),
        "--diversity-rate": (given["diversity_rate"] or -1) > 0,
    }
    chosen = [option for option, given in strategies.items() if given]
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(chosen)} do not go together: give one of them")
    if not getattr(args, "sampling", False):
        for name in "sampling_topk", "sampling_topp":
            if (given[name] or -1) > 0:
                raise UserError(f"--{name.replace('_', '-')} needs --sampling")


def _explained(generate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(generate)
    def explained(self: SequenceGenerator, *args: Any, **kwargs: Any) -> Any:
        try:
            return generate(self, *args, **kwargs)
        except AssertionError as error:
            if str(error).startswith("min_len "):
                raise UserError(
                    f"--min-len is {self.min_len}: longer than --max-len-a, --max-len-b or the model's positions let "
                    f"a translation be: lower it"
                ) from error
            if re.fullmatch(r"\d+ < \d+", str(error)):  # nothing was found in as many steps as there may be
                raise UserError(
                    "no translation was found: the model's scores are nan or infinite, as its training has diverged "
                    "(take an earlier checkpoint, or train with a lower --lr), or the options of searching allow none"
                ) from error
            raise

    return explained


def known_options(add_model_args: Callable[[argparse.ArgumentParser], Any]) -> dict[str, Any]:
    """All options that a checkpoint of a model can have, with their types as far as fairseq's dataclasses tell.

    Args:
        add_model_args: the model's ``add_args``
    """
    parser = argparse.ArgumentParser()
    add_model_args(parser)
    gen_parser_from_dataclass(parser, TransformerConfig(), with_prefix="")  # layers_to_keep, for loading alone
    types: dict[str, Any] = dict.fromkeys((action.dest for action in parser._actions), Any)
    chosen = [config for kind in REGISTRIES.values() for config in kind["dataclass_registry"].values()]
    for config in *chosen, FairseqConfig, *TASK_DATACLASS_REGISTRY.values():
        types |= _types(config)
    return types


def _types(config: Any) -> dict[str, Any]:
    """The options of a dataclass of fairseq and of those that it holds, with their types."""
    types: dict[str, Any] = {}
    for field in fields(config):
        types[field.name] = field.type
        if is_dataclass(field.type):
            types |= _types(field.type)
    return types


def check_names(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse options that there are not.

    Raises:
        UserError: with the name that may have been meant
    """
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), 1)
            raise UserError(f"{where}: no option {name!r}" + (f": did you mean {close[0]}?" if close else ""))
