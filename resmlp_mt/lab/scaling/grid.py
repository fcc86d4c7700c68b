"""The grid of a study: its file, its cells and their cost, the folder of each cell, and the results in its log.

A training ends after a number of updates that is set for its amount of data, so its learning rate can fall to zero.
"""

import math
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from threading import Event
from typing import IO, Any, ClassVar

import numpy as np
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.tasks.translation import TranslationTask
from omegaconf import MISSING
from torch import nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile
from resmlp_mt.data.binarized import RECORD, lengths, read_dictionary, sample, sample_numbers
from resmlp_mt.lab.models import build_model, training_args
from resmlp_mt.lab.trainings import queue, settings
from resmlp_mt.lab.trainings.log import read_log
from resmlp_mt.lab.trainings.translation import TranslatingFolder
from resmlp_mt.nn.mlp_mixing import MLPTokenMixing
from resmlp_mt.nn.token_mixing import TokenMixing
from resmlp_mt.score.scoring import sacre_bleu

RATE = 2.0e11  # FLOP/s of an --amp training on a core of an AMD EPYC: 6 FLOP a parameter and target token
SECONDS_AN_UPDATE = 0.023  # of a core, in addition to the matrix products
SECONDS_AT_THE_START = 8.0  # of a core, until the first update

_EMBEDDING = "embed_tokens", "embed_positions", "output_projection"


@dataclass
class Repeated:
    """Cells that are trained again with other seeds."""

    families: list[str] = MISSING
    sizes: list[str] = MISSING
    pairs: list[int] = MISSING
    seeds: list[int] = MISSING


@dataclass(frozen=True)
class Cell:
    """One training of a study."""

    family: str
    size: str
    pairs: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.family}-{self.size}-{self.pairs}-seed{self.seed}"


@dataclass
class ScalingRecipe(settings.SharedSettings):
    """A study; ``reference`` is the text of the validation set's target side, for the loss per character."""

    families: dict[str, str] = MISSING  # options by name; {number} in them, as in ``options``, is a number of the size
    sizes: dict[str, Any] = MISSING  # by name: numbers, which may depend on the family and, if N does not, the data
    pairs: list[int] = MISSING  # amounts of training data, from small to large
    updates: Any = MISSING  # of a training: a number, or by amount of data or family; {updates} in options
    validations: int = MISSING  # of a training, evenly spaced
    sample_seed: int = 1  # of the permutation; a sample is its beginning
    repeated: list[Any] = field(default_factory=list)  # each one as for ``Repeated``

    def numbers(self, cell: Cell) -> dict[str, Any]:
        """Return the numbers that options may name, by name."""

        def chosen(name: str, value: Any) -> Any:
            while isinstance(value, Mapping):
                known = [key for key in (cell.pairs, cell.family) if key in value]
                if not known:
                    raise LookupError(f"{name} has no value for {cell.pairs} and none for {cell.family}")
                value = value[known[0]]
            return value

        named = {**self.sizes[cell.size], "updates": self.updates}
        return {name: chosen(name, value) for name, value in named.items()}

    def training_options(self, cell: Cell) -> list[str]:
        """The options of fairseq-train for a cell."""
        source, target = self.langs
        numbers = self.numbers(cell)
        every = str(max(numbers["updates"] // self.validations, 1))
        never = str(10**9)  # validate and save by updates alone: epochs of small samples are short
        return [
            *("--source-lang", source, "--target-lang", target, *shlex.split(self.batches)),
            *("--max-update", str(numbers["updates"])),
            *("--validate-interval", never, "--validate-interval-updates", every),
            *("--save-interval", never, "--save-interval-updates", every, "--keep-interval-updates", "1"),
            *("--seed", str(cell.seed), "--num-workers", "0"),
            *("--update-epoch-batch-itr", "True"),  # after an interruption it resumes with the same batches
            *("--log-format", "json", "--log-interval", "10"),
            *shlex.split(f"{self.options} {self.families[cell.family]}".format(**numbers)),
        ]


def read_scaling_recipe(path: Path) -> ScalingRecipe:
    recipe = settings.read_settings(path, ScalingRecipe)
    for name in "families", "sizes":
        settings.check_folder_names(path, name, getattr(recipe, name))
    if sorted(set(recipe.pairs)) != recipe.pairs:
        raise UserError(f"{path}: pairs: {recipe.pairs}: must rise from each to the next")
    settings.check_own(path, "options", recipe.options)
    for family, options in recipe.families.items():
        settings.check_own(path, f"families: {family}", options)
    recipe.repeated = [settings.checked(path, Repeated, each, "repeated: ") for each in recipe.repeated]
    for pairs in {pairs for each in recipe.repeated for pairs in each.pairs} - set(recipe.pairs):
        raise UserError(f"{path}: repeated: {pairs} pairs are not in pairs: {recipe.pairs}")
    for cell in cells_of(recipe):
        with settings.reading(path, f"{cell.name}: "):
            recipe.training_options(cell)
    return recipe


@dataclass(frozen=True)
class Parameters:
    """Numbers of trained parameters; ``encoder`` and ``decoder`` include mixing matrices, but no embeddings.

    ``embedding`` includes those of positions and the output projection. Shared parameters count once. ``mixing``: the
    fixed matrices over positions of both sides (A, its bias, its relative term), triangular ones as whole matrices.
    """

    embedding: int
    encoder: int
    decoder: int
    mixing: int

    @property
    def non_embedding(self) -> int:
        return self.encoder + self.decoder


def count(model: nn.Module) -> Parameters:
    mixing = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, TokenMixing | MLPTokenMixing)
        for parameter in module.parameters(recurse=False)  # not the projections of a gated one
    }
    found = dict.fromkeys(("embedding", "encoder", "decoder", "mixing"), 0)
    for name, parameter in model.named_parameters():
        side = "embedding" if any(part in name for part in _EMBEDDING) else name.partition(".")[0]
        found[side] += parameter.numel()
        if id(parameter) in mixing:
            found["mixing"] += parameter.numel()
    return Parameters(**found)


@dataclass(frozen=True)
class Plan:
    """What is known of a cell before it is trained."""

    cell: Cell
    parameters: Parameters
    tokens: int  # target subwords of the sample, with </s>
    updates: int
    updates_an_epoch: int
    validated: int  # target subwords of all validations

    @property
    def seconds(self) -> float:
        """The estimated seconds on one core."""
        # a validation costs the forward pass, a third of a training step
        tokens = self.tokens / self.updates_an_epoch * self.updates + self.validated / 3
        of_a_token = 6 * (self.parameters.non_embedding + self.parameters.embedding) / RATE
        return SECONDS_AT_THE_START + self.updates * SECONDS_AN_UPDATE + tokens * of_a_token


def cells_of(recipe: ScalingRecipe) -> list[Cell]:
    """All cells, by family, size and amount of data; those with other seeds last."""
    cells = [Cell(*names) for names in product(recipe.families, recipe.sizes, recipe.pairs, [recipe.seed])]
    for again in recipe.repeated:
        cells += [Cell(*names) for names in product(again.families, again.sizes, again.pairs, again.seeds)]
    return list(dict.fromkeys(cells))


def plan(recipe: ScalingRecipe, data: Path) -> list[Plan]:
    """Return the plans of all cells, the cheapest first; ``data`` is the whole data-bin."""
    dictionaries = [read_dictionary(data / f"dict.{lang}.txt") for lang in recipe.langs]
    source, target = lengths(data, "train", recipe.langs)
    order = sample_numbers(data, recipe.langs, recipe.pairs[-1], recipe.sample_seed)
    samples = {pairs: (source[order[:pairs]], target[order[:pairs]]) for pairs in recipe.pairs}
    validation = lengths(data, "valid", recipe.langs)

    models = {
        (cell.family, cell.size, cell.pairs): _model(recipe, cell, dictionaries, samples[cell.pairs], validation)
        for cell in cells_of(recipe)
        if cell.seed == recipe.seed
    }
    any_args, _ = next(iter(models.values()))  # all have the same batches
    batches = {pairs: updates_an_epoch(any_args, *sides) for pairs, sides in samples.items()}
    validated = int(validation[1].sum()) * recipe.validations
    plans = []
    for cell in cells_of(recipe):
        updates, tokens = recipe.numbers(cell)["updates"], int(samples[cell.pairs][1].sum())
        _, parameters = models[cell.family, cell.size, cell.pairs]
        plans.append(Plan(cell, parameters, tokens, updates, batches[cell.pairs], validated))
    return sorted(plans, key=lambda each: each.seconds)


def updates_an_epoch(args: Any, source: np.ndarray, target: np.ndarray) -> int:
    """Return fairseq's updates per epoch; ``source`` and ``target``: each sentence's subwords with ``</s>``."""
    pairs = LanguagePairDataset(source, source, Dictionary(), target, target, shuffle=False)
    limits = args.max_tokens, args.batch_size, args.required_batch_size_multiple
    batches = pairs.batch_by_size(pairs.ordered_indices(), *limits)
    return math.ceil(len(batches) / args.update_freq[0])


def _model(
    recipe: ScalingRecipe, cell: Cell, dictionaries: Sequence[Dictionary], *subsets: tuple[np.ndarray, np.ndarray]
) -> tuple[Any, Parameters]:
    """Return all options of a cell and its model's parameters; ``subsets``: the lengths of sentences, on both sides."""
    name = f"families: {cell.family}, size {cell.size}"
    args = training_args(["no-data", *recipe.training_options(cell)], name)
    for side, *found in zip(("source", "target"), *subsets, strict=True):
        length, limit = int(max(map(np.max, found))), getattr(args, f"max_{side}_positions")
        if length > limit:
            raise UserError(
                f"{name}: a {side} sentence has {length} positions, the model {limit}: "
                f"--max-{side}-positions {length} or more, or prepare the data with a smaller --max-length"
            )
    # Without convert_namespace_to_omegaconf, which takes half a second per model
    return args, count(build_model(Namespace(model=args), TranslationTask(args, *dictionaries)))


def plan_table(plans: Sequence[Plan]) -> list[list[str]]:
    """Return the cells as a table, with the processor hours up to the end of each."""
    heading = ["cell", "non-embedding", "encoder", "decoder", "mixing", "embedding", "tokens"]
    rows = [[*heading, "epochs", "minutes", "hours so far"]]
    hours = 0.0
    for each in plans:
        hours += each.seconds / 3600
        of = each.parameters
        counts = of.non_embedding, of.encoder, of.decoder, of.mixing, of.embedding, each.tokens
        cost = each.updates / each.updates_an_epoch, each.seconds / 60
        rows.append([each.cell.name, *(f"{count:,}" for count in counts), *(f"{x:.1f}" for x in cost), f"{hours:.2f}"])
    return rows


@dataclass(frozen=True)
class CellFolder(TranslatingFolder):
    """The folder of a cell. In the end its checkpoints are deleted: a study needs only log and translation."""

    recipe: ScalingRecipe
    plan: Plan
    may_diverge: ClassVar[bool] = True

    @property
    def options(self) -> list[str]:
        return self.recipe.training_options(self.plan.cell)

    @property
    def finished(self) -> bool:
        return self.is_trained and not self._checkpoints

    def after(self, held: IO[str], stop: Event) -> None:
        lowest = self.folder / "checkpoint_best.pt"  # by validation loss
        if self.recipe.search and lowest.exists():
            self.translate(lowest, held, stop)
        for path in self._checkpoints:
            path.unlink()

    @property
    def _checkpoints(self) -> list[Path]:
        return list(self.folder.glob("*.pt"))


def cell_folders(recipe: ScalingRecipe, plans: Sequence[Plan], out: Path, data: Path) -> list[CellFolder]:
    """Return the folders of a study, OUT/cells/NAME; make missing samples of the data, OUT/data/PAIRS."""
    made_of = {"data": queue.digests(data), "seed": recipe.sample_seed}
    samples = {pairs: out / "data" / str(pairs) for pairs in recipe.pairs}
    for pairs, folder in samples.items():
        if not folder.exists():
            sample(data, folder, recipe.langs, pairs, recipe.sample_seed, made_of)
        elif JsonFile(folder / RECORD).values != made_of:
            raise UserError(f"{folder}: a sample of other data: remove it, or choose another --out")
    sums = {pairs: queue.digests(folder) for pairs, folder in samples.items()}
    return [
        CellFolder(cell.name, cell.seed, samples[cell.pairs], sums[cell.pairs], out / "cells" / cell.name, recipe, plan)
        for plan in plans
        for cell in [plan.cell]
    ]


@dataclass(frozen=True)
class Run:
    cell: Cell
    parameters: Parameters
    tokens: int  # D, target subwords of its sample with </s>
    updates: Sequence[float]  # at each validation
    losses: Sequence[float]  # cross entropy of the validation set in nats a target subword, not smoothed
    processor_seconds: float  # of the whole training
    diverged: bool
    bleu: float | None = None  # of the validation set, translated with the best checkpoint; None: not translated
    runs: Sequence[float] = ()  # processor seconds of each run: of several if the training was resumed

    @property
    def best(self) -> float:
        return min(self.losses)


def read_run(cell: CellFolder, vocabulary: int, references: list[str]) -> Run:
    """Read a finished cell; diverged: by its log, or it has no loss, or its last loss is no better than guessing."""
    bits = {at: entry.get("nll_loss", entry.get("loss")) for at, entry in read_log(cell.log).validation.items()}
    losses = {updates: loss * math.log(2) for updates, loss in bits.items() if loss is not None}
    diverged = cell.has_diverged() or not losses or list(losses.values())[-1] >= math.log(vocabulary)
    plan, bleu = cell.plan, None
    if cell.is_translated:
        text = cell.translated_text(references)
        bleu = sacre_bleu(cell.recipe.langs[1]).corpus_score(text, [references]).score
    curve = list(losses), list(losses.values())
    return Run(plan.cell, plan.parameters, plan.tokens, *curve, sum(cell.runs), diverged, bleu, cell.runs)
