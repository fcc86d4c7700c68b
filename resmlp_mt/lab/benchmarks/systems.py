"""What is compared: fairseq architectures of equal width, depth and vocabulary, each with options of its own."""

import ast
import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, BaseFairseqModel
from fairseq.tasks.translation import TranslationTask

import resmlp_mt.fairseq_plugin  # noqa: F401  (registers the models)
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import LIBRARIES
from resmlp_mt.lab.models import build_model, training_args

_BOTH_SIDES = (
    "encoder_embed_dim={size.width},decoder_embed_dim={size.width}"
    ",encoder_layers={size.layers},decoder_layers={size.layers},share_all_embeddings"
)
_RESMLP = (
    _BOTH_SIDES + ",encoder_ffn_embed_dim={size.mlp},decoder_ffn_embed_dim={size.mlp}"
    ",decoder_attention_heads={size.heads}"
)
_TRANSFORMER = _RESMLP + ",encoder_attention_heads={size.heads}"
SIZE_OPTIONS = {
    "resmlp_transformer": _RESMLP,
    "transformer": _TRANSFORMER,
    "lightconv": _TRANSFORMER + ",encoder_conv_type=lightweight,decoder_conv_type=lightweight"
    ",encoder_kernel_size_list={size.kernels},decoder_kernel_size_list={size.kernels}",
    "fconv": "encoder_embed_dim={size.width},decoder_embed_dim={size.width},decoder_out_embed_dim={size.width}"
    ",encoder_layers=[({size.width},3)]*{size.layers},decoder_layers=[({size.width},3)]*{size.layers}"
    ",share_input_output_embed",
    "lstm": _BOTH_SIDES + ",encoder_hidden_size={size.width},decoder_hidden_size={size.width}"
    ",decoder_out_embed_dim={size.width}",
}
"""How each of fairseq's models is told its size. Embeddings are shared as far as it can."""


@dataclass(frozen=True)
class Size:
    """What all systems have in common: channels, MLP channels, layers a side, attention heads, dictionary entries."""

    width: int = 512
    mlp: int = 2048
    layers: int = 6
    heads: int = 8
    vocabulary: int = 8000

    @property
    def kernels(self) -> list[int]:
        """Widths of a LightConv's windows (Wu et al. 2019: 3, 7, 15, then 31)."""
        return [3, 7, 15, *[31] * self.layers][: self.layers]


@dataclass(frozen=True)
class Conditions:
    """Where and how all systems run."""

    device: str = "cpu"
    fp16: bool = False
    threads: int = 1
    """of a process on the CPU"""
    beam: int = 4

    def apply(self) -> None:
        """Set this process's threads.

        Raises:
            UserError: the machine has no such device, or no fp16 on it
        """
        if self.device == "cuda" and not torch.cuda.is_available():
            raise UserError("--device cuda: this PyTorch sees no GPU")
        if self.fp16 and self.device == "cpu":
            raise UserError("--fp16 needs --device cuda: on a CPU a system is trained in bfloat16 by ARCH:amp")
        torch.set_num_threads(self.threads)

    @property
    def arguments(self) -> list[str]:
        """These conditions as arguments of fairseq-train."""
        return [*(["--cpu"] if self.device == "cpu" else []), *(["--fp16"] if self.fp16 else [])]


@dataclass(frozen=True)
class System:
    """One architecture with options.

    Args:
        name: ``ARCH`` or ``ARCH:option=value,flag,...`` with options of fairseq-train. Where nothing is trained ARCH
            may also be a checkpoint, with options that replace its own, as ``--model-overrides`` does. ``ARCH@onednn``
            multiplies fp32 matrices by oneDNN, where others do by BLAS

    Raises:
        UserError: no such library
    """

    name: str

    def __post_init__(self) -> None:
        if self.library not in LIBRARIES:
            raise UserError(f"{self.name}: no library {self.library} for products: give one of {', '.join(LIBRARIES)}")

    @property
    def arch(self) -> str:
        return self.name.partition(":")[0].removesuffix(f"@{self.library}")

    @property
    def library(self) -> str:
        """Of fp32 products on the CPU, one of LIBRARIES."""
        found = re.search(r"@([a-z0-9]+)$", self.name.partition(":")[0])
        return found[1] if found else "blas"

    @property
    def options(self) -> list[str]:
        return split_options(self.name.partition(":")[2])

    @property
    def is_checkpoint(self) -> bool:
        return self.arch.endswith(".pt")

    def args(self, size: Size, conditions: Conditions, arguments: Sequence[str] = ()) -> Namespace:
        """The options of a fairseq-train of this system, architecture applied.

        Args:
            arguments: further ones of fairseq-train

        Raises:
            UserError: an architecture without sizes here, or options that fairseq-train refuses
        """
        model = ARCH_MODEL_NAME_REGISTRY.get(self.arch)
        if model not in SIZE_OPTIONS:
            raise UserError(f"{self.name}: no system: give an architecture of {', '.join(SIZE_OPTIONS)}")
        sizes = split_options(SIZE_OPTIONS[model].format(size=size))
        command = [
            "no-data", "--arch", self.arch, "--optimizer", "adam", "--lr", "1e-6",
            "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1",
            *conditions.arguments, *arguments, *map(as_argument, (*sizes, *self.options)),
        ]  # fmt: skip
        return training_args(command, self.name)

    def config(self, size: Size, conditions: Conditions, arguments: Sequence[str] = ()) -> Any:
        """fairseq's configuration of this system."""
        config = convert_namespace_to_omegaconf(self.args(size, conditions, arguments))
        config.generation.beam = conditions.beam
        return config


TINY = Size(width=8, mlp=8, layers=1, heads=1, vocabulary=16)
"""For rehearsals."""


def split_options(text: str) -> list[str]:
    """``"a=[1,2],b"`` is ``["a=[1,2]", "b"]``: commas end an option where the name of another follows."""
    return re.split(r",(?=(?:--)?[a-z][\w-]*(?:[=,]|$))", text) if text else []


def as_argument(option: str) -> str:
    """``layerscale_init=0.1`` is ``--layerscale-init=0.1``."""
    name, equals, value = option.removeprefix("--").partition("=")
    return f"--{name.replace('_', '-')}{equals}{value}"


def as_override(option: str) -> tuple[str, Any]:
    """``layerscale-init=0.1`` is ``("layerscale_init", 0.1)``; a flag is True, what is no Python is a string."""
    name, equals, value = option.removeprefix("--").partition("=")
    try:
        return name.replace("-", "_"), ast.literal_eval(value) if equals else True
    except (ValueError, SyntaxError):
        return name.replace("-", "_"), value


def load_model(
    system: System, size: Size, conditions: Conditions, task: TranslationTask
) -> tuple[Any, BaseFairseqModel]:
    """The configuration and the model of a checkpoint, or an untrained one."""
    if not system.is_checkpoint:
        config = system.config(size, conditions)
        return config, build_model(config, task)
    replaced = dict(map(as_override, system.options))
    [model], config, _ = checkpoint_utils.load_model_ensemble_and_task([system.arch], replaced, task)
    return config, model
