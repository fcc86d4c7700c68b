"""A trained model: loaded from a checkpoint, or from an average of several, as for table 5 (Vaswani et al. 2017)."""

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import models as fairseq_models
from fairseq.checkpoint_utils import checkpoint_paths
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, atomic_write, check_outputs
from resmlp_mt.data.binarized import made_up_dictionary, read_dictionary
from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.checkpoints import architecture_of, check_dictionaries, load_checkpoint, options_of, save
from resmlp_mt.fairseq_plugin.task import complete_languages

Checkpoint = dict[str, Any]

PATTERNS = {
    "epoch": r"checkpoint(\d+)\.pt",
    "update": r"checkpoint_\d+_(\d+)\.pt",
    "other": r"checkpoint(?:_last|_best|\.best_.*)\.pt",
}
"""Patterns of the names that fairseq-train gives its checkpoints, by their kind."""

PLAIN = {
    "inference_precision": "fp32",
    "cpu_matmul": "blas",
    "checkpoint_activations": False,
    "offload_activations": False,
}
"""Options of a model that is analysed or exported; they replace those of its training."""

NEVER_SET = ".conv.conv_bias"
"""The end of the name of a parameter that fairseq's DynamicConv never sets or uses: it may hold anything, also NaN."""


def last_checkpoints(directory: PathLike, count: int, kind: str, upper_bound: int | None = None) -> list[Path]:
    """Return the last ``count`` checkpoints of a kind in PATTERNS, up to an epoch or update, oldest first."""
    found = checkpoint_paths(str(directory), PATTERNS[kind], keep_match=True)  # newest first
    paths = [Path(path) for path, number in found if upper_bound is None or number <= upper_bound]
    if not 1 <= count <= len(paths):
        raise UserError(f"{directory}: has {len(paths)} {kind} checkpoints, not {count}: ask for 1 or more of them")
    return paths[:count][::-1]


def inputs_of(
    inputs: Sequence[Path], output: PathLike, epochs: int | None, updates: int | None, upper_bound: int | None
) -> list[Path]:
    """Return the files to average: those given, or a directory's last ones; check that ``output`` replaces none."""
    count = updates if epochs is None else epochs
    is_directory = len(inputs) == 1 and inputs[0].is_dir()
    if count is not None and len(inputs) == 1 and not inputs[0].exists():
        raise UserError(f"{inputs[0]}: no such folder")
    if is_directory != (count is not None) or (count is None and upper_bound is not None):
        raise UserError(
            f"--inputs {inputs[0]}: give one directory with --num-epoch-checkpoints or --num-update-checkpoints (and "
            "--checkpoint-upper-bound), or files without these options"
        )
    folder = Path(output).parent  # may be that of a training, whose checkpoints stay
    kept = [checkpoint_paths(str(folder), each) for each in PATTERNS.values() if folder.is_dir()]
    check_outputs([output], sum(kept, [] if is_directory else [*inputs]))
    if count is None:
        return [*inputs]
    return last_checkpoints(inputs[0], count, "update" if epochs is None else "epoch", upper_bound)


def average_checkpoints(paths: Sequence[PathLike]) -> Checkpoint:
    """Average the parameters of checkpoints of one model, oldest first, in float64; all else is from the last one.

    The result has no optimizer state, and the optimizer's name says so: fairseq-train refuses to resume from it
    without ``--reset-optimizer``. Memory holds one running sum and one checkpoint at a time.
    """
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise UserError(f"{', '.join(map(str, paths))}: a checkpoint comes twice: name each once")
    sums: dict[str, torch.Tensor] = {}
    layouts: dict[str, Any] = {}
    checkpoint: Checkpoint = {}
    for path in paths:
        checkpoint = model = {}  # frees them before the next is loaded
        checkpoint = load_checkpoint(path)
        checkpoint.pop("last_optimizer_state", None)
        model = checkpoint["model"]
        found = {name: (tensor.dtype, tensor.shape) for name, tensor in model.items()}
        layouts = layouts or found
        other = next((name for name in {**layouts, **found} if layouts.get(name) != found.get(name)), None)
        if other is not None:
            raise UserError(f"{path}: {other} is not as in {paths[0]}: average checkpoints of one model")
        for name, tensor in model.items():
            if not (name.endswith(NEVER_SET) or torch.isfinite(tensor).all()):
                raise UserError(f"{path}: {name} is not finite: the training diverged; leave the file out")
            if tensor.is_floating_point():
                sums[name] = sums[name].add_(tensor) if name in sums else tensor.to(torch.float64, copy=True)
    for name, total in sums.items():
        model[name].copy_(total.div_(len(paths)))  # in place: tensors that share memory still do
    return without_optimizer(checkpoint, "averaged")


def without_optimizer(checkpoint: Mapping[str, Any], kind: str) -> Checkpoint:
    """Return a checkpoint without optimizer state, for weights that are not those of its training any more."""
    *history, last = checkpoint["optimizer_history"]
    extra = checkpoint.get("extra_state") or {}
    return {
        **checkpoint,
        "optimizer_history": [*history, {**last, "optimizer_name": f"none ({kind} checkpoint)"}],
        "last_optimizer_state": {},  # with None, fairseq-train would silently go on with a new optimizer
        "extra_state": {key: value for key, value in extra.items() if not key.startswith("ema")},  # other weights
    }


def save_checkpoint(checkpoint: Checkpoint, path: PathLike) -> None:
    """Write a checkpoint that appears whole or not at all; equal checkpoints give equal bytes."""
    with atomic_write(path, "wb") as stream:
        save(checkpoint, stream)


def model_of(
    path: PathLike, checkpoint: Mapping[str, Any], dictionaries: Sequence[Dictionary] | None = None
) -> ResMLPTransformerModel:
    """Build the model of a checkpoint (``path`` is for messages): not folded, in fp32, in evaluation mode.

    Without ``dictionaries`` (source, target), made-up ones of the right size are used.
    """
    architecture = architecture_of(checkpoint)
    if ARCH_MODEL_REGISTRY.get(architecture) is not ResMLPTransformerModel:
        raise UserError(f"{path}: holds a {architecture}: give a checkpoint of a resmlp_transformer")
    args = Namespace(**{**options_of(checkpoint, "model"), **PLAIN})
    parameters = checkpoint["model"]
    embeddings = (parameters.get(f"{side}.embed_tokens.weight", torch.empty(0)) for side in ("encoder", "decoder"))
    source, target = dictionaries or [made_up_dictionary(each.shape[:1].numel()) for each in embeddings]
    try:
        if dictionaries:
            check_dictionaries(checkpoint, dictionaries)
        model = fairseq_models.build_model(args, Namespace(source_dictionary=source, target_dictionary=target))
        model.load_state_dict(parameters, strict=True, model_cfg=args)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return model.float().eval()


@dataclass(frozen=True)
class Trained:
    """A loaded model, and what its checkpoint and data say about it."""

    path: Path  # the checkpoint, the last one of several
    architecture: str
    model: ResMLPTransformerModel  # not folded, in fp32 and for inference
    languages: tuple[str, str]
    updates: int


def load(paths: Sequence[PathLike], data: PathLike) -> Trained:
    """Load a checkpoint, or the average of several, with the dictionaries of the folder ``data``."""
    path = paths[-1]
    state = load_checkpoint(path) if len(paths) == 1 else average_checkpoints(paths)
    saved = options_of(state, "task")
    task = Namespace(data=os.fspath(data), source_lang=saved.get("source_lang"), target_lang=saved.get("target_lang"))
    complete_languages(task)
    languages = task.source_lang, task.target_lang
    if None in languages:
        raise UserError(f"{data}: its files do not tell the languages: give the folder of binarized data by --data")
    model = model_of(path, state, [read_dictionary(Path(data, f"dict.{each}.txt")) for each in languages])
    updates = state["optimizer_history"][-1].get("num_updates", 0)
    return Trained(Path(path), architecture_of(state), model, languages, updates)
