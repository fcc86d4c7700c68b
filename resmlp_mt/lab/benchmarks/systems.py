"""The systems that are compared, fairseq architectures of equal width, depth and vocabulary, and their batches."""

import ast
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import collate
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, BaseFairseqModel
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

import resmlp_mt.fairseq_plugin  # noqa: F401  (registers the models)
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import LIBRARIES
from resmlp_mt.data.binarized import made_up_dictionary, read_dictionary
from resmlp_mt.lab.benchmarks.rivals import PACKAGES
from resmlp_mt.lab.models import build_model, training_args
from resmlp_mt.nn.mixing_kinds import TOKEN_MIXINGS

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
"""The options that give each fairseq model its size. Embeddings are shared where the model can share them."""
SIZE_OPTIONS["dynamicconv"] = SIZE_OPTIONS["lightconv"].replace("lightweight", "dynamic")


@dataclass(frozen=True)
class Size:
    """The size of all systems: channels, MLP channels, layers per side, attention heads, dictionary entries."""

    width: int = 512
    mlp: int = 2048
    layers: int = 6
    heads: int = 8
    vocabulary: int = 8000

    @property
    def kernels(self) -> list[int]:
        """Widths of a LightConv's windows (Wu et al. 2019: 3, 7, 15, then 31)."""
        return [3, 7, 15, *[31] * self.layers][: self.layers]


TINY = Size(width=8, mlp=8, layers=1, heads=1, vocabulary=16)  # for rehearsals


@dataclass(frozen=True)
class Conditions:
    """Where and how all systems run; ``threads`` are the CPU threads of a process."""

    device: str = "cpu"
    fp16: bool = False
    threads: int = 1
    beam: int = 4

    def apply(self) -> None:
        """Set this process's threads; refuse a GPU that is not there, and fp16 on a CPU."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise UserError("--device cuda: this PyTorch sees no GPU")
        if self.fp16 and self.device == "cpu":
            raise UserError("--fp16 needs --device cuda: on a CPU a system is trained in bfloat16 by ARCH:amp")
        torch.set_num_threads(self.threads)


@dataclass
class System:
    """``ARCH`` or ``ARCH:option=value,flag,...`` with options of fairseq-train.

    For translating text, ARCH may also be a checkpoint; its options are then replaced, as by ``--model-overrides``.
    ``ARCH@onednn`` multiplies fp32 matrices with oneDNN; without it BLAS is used.
    """

    name: str

    def __post_init__(self) -> None:
        place, _, options = self.name.partition(":")
        found = re.fullmatch(r"(.*)@([a-z0-9]+)", place)
        # the library multiplies fp32 matrices on the CPU
        self.arch, self.library = found.groups() if found else (place, "blas")
        self.options = split_options(options)
        if self.library not in LIBRARIES:
            raise UserError(f"{self.name}: no library {self.library} for products: give one of {', '.join(LIBRARIES)}")
        if "cpu_matmul" in self.overrides:
            raise UserError(f"{self.name}: the library of the products is no option here: write {self.arch}@onednn")

    @property
    def overrides(self) -> dict[str, Any]:
        return dict(map(as_override, self.options))

    @property
    def is_checkpoint(self) -> bool:
        return self.arch.endswith(".pt")

    @property
    def rival(self) -> str:
        """The other engine that a name begins with, ``ctranslate2`` or ``marian``; empty if there is none."""
        place = self.arch.partition("/")[0]
        return place if place in PACKAGES else ""

    @property
    def path(self) -> str:
        return self.arch.partition("/")[2] if self.rival else self.arch

    def config(self, size: Size, conditions: Conditions) -> Any:
        model = ARCH_MODEL_NAME_REGISTRY.get(self.arch)
        if model not in SIZE_OPTIONS:
            raise UserError(f"{self.name}: no system: give an architecture of {', '.join(SIZE_OPTIONS)}")
        sizes = split_options(SIZE_OPTIONS[model].format(size=size))
        command = [
            "no-data", "--arch", self.arch, "--optimizer", "adam", "--lr", "1e-6",
            "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1",
            *(["--cpu"] if conditions.device == "cpu" else []), *(["--fp16"] if conditions.fp16 else []),
            *map(as_argument, (*sizes, *self.options)),
        ]  # fmt: skip
        return convert_namespace_to_omegaconf(training_args(command, self.name))


def split_options(text: str) -> list[str]:
    """``"a=[1,2],b"`` is ``["a=[1,2]", "b"]``: commas end an option where the name of another follows."""
    mixings = "|".join(TOKEN_MIXINGS)  # --mixing-of-encoder-layers has a list of them
    return re.split(rf",(?!(?:{mixings})(?:,|$))(?=(?:--)?[a-z][\w-]*(?:[=,]|$))", text) if text else []


def as_argument(option: str) -> str:
    """``layerscale_init=0.1`` is ``--layerscale-init=0.1``."""
    name, equals, value = option.removeprefix("--").partition("=")
    return f"--{name.replace('_', '-')}{equals}{value}"


def as_override(option: str) -> tuple[str, Any]:
    """``layerscale-init=0.1`` is ``("layerscale_init", 0.1)``; a flag is True; what is no literal stays text."""
    name, equals, value = option.removeprefix("--").partition("=")
    given: Any = value if equals else True
    with contextlib.suppress(ValueError, SyntaxError):
        given = ast.literal_eval(value)
    return name.replace("-", "_"), given


@dataclass(frozen=True)
class Source:
    """What a translating model is made from, in any process: an architecture or a checkpoint."""

    system: System
    size: Size = field(default_factory=Size)
    conditions: Conditions = field(default_factory=Conditions)
    data: str | None = None  # a folder of fairseq-preprocess; without it the dictionary is made up
    languages: tuple[str, str] = ("", "")  # of the data

    def task(self) -> TranslationTask:
        if self.data is None:
            dictionaries = [made_up_dictionary(self.size.vocabulary)] * 2
        else:
            dictionaries = [read_dictionary(Path(self.data, f"dict.{name}.txt")) for name in self.languages]
        return TranslationTask(TranslationConfig(), *dictionaries)

    def load(self, **overrides: Any) -> tuple[Any, BaseFairseqModel, TranslationTask]:
        """Return the configuration, the model and its task; ``overrides`` replace a checkpoint's options."""
        task = self.task()
        if not self.system.is_checkpoint:
            config = self.system.config(self.size, self.conditions)
            return config, build_model(config, task), task
        [model], config, _ = checkpoint_utils.load_model_ensemble_and_task([self.system.arch], overrides, task)
        if overrides:
            trained = training_args(["no-data", "--arch", config.model.arch], self.system.name)
            for name in overrides.keys() - {*config.generation, *vars(trained)}:
                raise UserError(f"{self.system.name}: {name}: no option of fairseq-generate or of the model's training")
        return config, model, task


@dataclass(frozen=True)
class Shape:
    """The shape of a batch: its longest sentence, in subwords with ``</s>``, on both sides; its number of sentences."""

    length: int
    sentences: int

    def __str__(self) -> str:
        return f"{self.length}x{self.sentences}"

    @staticmethod
    def parse(text: str) -> "Shape":
        found = re.fullmatch("([0-9]{1,5})x([0-9]{1,6})", text)
        if not (found and int(found[1]) > 1 and int(found[2]) > 0):
            raise UserError(f"{text!r}: no shape: give LENGTHxSENTENCES, such as 24x32, with a length of 2 or more")
        return Shape(int(found[1]), int(found[2]))

    def random_sentences(self, padding: float, dictionary: Dictionary, seed: int) -> list[Tensor]:
        """Return random sentences with ``</s>``, longest first; ``padding``, below 0.5, is the share of padding."""
        generator = torch.Generator().manual_seed(seed)
        shortest = max(2, round(self.length * (1 - 2 * padding)))
        lengths = torch.linspace(self.length, shortest, self.sentences).round().int().tolist()
        words = [torch.randint(dictionary.nspecial, len(dictionary), (n - 1,), generator=generator) for n in lengths]
        return [torch.cat([each, torch.tensor([dictionary.eos()])]) for each in words]

    def random_batch(self, padding: float, dictionary: Dictionary) -> dict[str, Any]:
        sides = (self.random_sentences(padding, dictionary, seed) for seed in (1, 2))
        return batch(dict(enumerate(zip(*sides, strict=True))), dictionary)


def batch(pairs: Mapping[int, tuple[Tensor, Tensor]], dictionary: Dictionary) -> dict[str, Any]:
    """Return fairseq's batch of these pairs: sources padded on the left, targets on the right."""
    samples = [{"id": number, "source": source, "target": target} for number, (source, target) in pairs.items()]
    return collate(samples, dictionary.pad(), dictionary.eos())


@dataclass(frozen=True)
class Comparison:
    systems: tuple[System, ...]
    shapes: tuple[Shape, ...] = ()
    kind: str = "generation"  # or training
    title: str = ""
    baseline: str = "transformer"
    size: Size = field(default_factory=Size)
    conditions: Conditions = field(default_factory=Conditions)
    padding: float = 0.1  # the share of padding in a batch
    rounds: int = 7
    warmup: int = 1  # rounds that do not count
    memory: bool = True  # find the peak memory
    sentences: int = 32  # at least so many per round, in generation

    def __post_init__(self) -> None:
        names = [system.name for system in self.systems]
        if self.baseline not in names:
            raise UserError(f"{self.baseline} is not among the systems: give --baseline, one of {', '.join(names)}")
        if len(set(names)) < len(names):
            raise UserError(f"a system is given twice: {', '.join(names)}")
