"""The cells of a study, what each costs, and the table of them before any training."""

import math
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary, data_utils
from fairseq.tasks.translation import TranslationTask
from torch import nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.binarized import drawn, lengths, read_dictionary
from resmlp_mt.lab.analysis import flops
from resmlp_mt.lab.models import build_model, training_args
from resmlp_mt.lab.scaling.recipe import ScalingRecipe
from resmlp_mt.nn.mixing_kinds import MLPTokenMixing
from resmlp_mt.nn.token_mixing import TokenMixing

RATE = 3.7e10
"""FLOP/s of a training on one core of an AMD EPYC, by this toolkit's formula (examples/scaling/tatoeba.json)."""

SECONDS_AN_UPDATE = 0.03
"""Of a core, beside the products."""

SECONDS_AT_THE_START = 8.0
"""Of a core, until the first update."""


_EMBEDDING = "embed_tokens", "embed_positions", "output_projection"


@dataclass(frozen=True)
class Parameters:
    """Trained parameters, each counted once.

    Attributes:
        embedding: of tokens and of positions, and the output projection: they grow with the vocabulary
        encoder, decoder: without embeddings, with mixing matrices
        mixing: of both, what connects positions by a fixed matrix (A, its bias, its relative term): it grows with the
            number of positions, not with the width, and is stored whole also where it is triangular
    """

    embedding: int
    encoder: int
    decoder: int
    mixing: int

    @property
    def non_embedding(self) -> int:
        """Encoder and decoder, mixing matrices included: what is called N."""
        return self.encoder + self.decoder

    @property
    def without_mixing(self) -> int:
        """Encoder and decoder without mixing matrices: the other choice of N."""
        return self.non_embedding - self.mixing


def count(model: nn.Module) -> Parameters:
    """Count the parameters of a translation model of fairseq's."""
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
class Cell:
    """One training of a study."""

    family: str
    size: str
    pairs: int
    seed: int

    @property
    def name(self) -> str:
        """Also that of its folder."""
        return f"{self.family}-{self.size}-{self.pairs}-seed{self.seed}"


@dataclass(frozen=True)
class Plan:
    """What a cell is made of, known before it is trained.

    Attributes:
        flops: of training on a target token, padding left out, the mean over the sample
        tokens: target subwords of the sample, with ``</s>``
        updates: the most that its budget allows
        updates_an_epoch: of the sample
        validated: target subwords of all validations
        seconds: of one core, if the whole budget is used
    """

    cell: Cell
    parameters: Parameters
    flops: float
    tokens: int
    updates: int
    updates_an_epoch: int
    validated: int

    @property
    def seconds(self) -> float:
        tokens = self.tokens / self.updates_an_epoch * self.updates + self.validated / flops.TRAINING
        return SECONDS_AT_THE_START + self.updates * SECONDS_AN_UPDATE + tokens * self.flops / RATE


def cells_of(recipe: ScalingRecipe) -> list[Cell]:
    """All cells, by family, size and amount of data; those with other seeds last."""
    cells = [
        Cell(family, size, pairs, recipe.seed)
        for family in recipe.families
        for size in recipe.sizes
        for pairs in recipe.pairs
    ]
    again = recipe.repeated
    if again:
        cells += [Cell(family, again.size, again.pairs, seed) for seed in again.seeds for family in recipe.families]
    return cells


def plan(recipe: ScalingRecipe, data: Path) -> list[Plan]:
    """What the cells cost, the cheapest first; ``data`` is the whole data-bin."""
    dictionaries = [read_dictionary(data / f"dict.{lang}.txt") for lang in recipe.langs]
    source, target = lengths(data, "train", recipe.langs)
    order = drawn(data, recipe.langs, recipe.pairs[-1], recipe.sample_seed)
    samples = {pairs: (source[order[:pairs]], target[order[:pairs]]) for pairs in recipe.pairs}
    validation = lengths(data, "valid", recipe.langs)
    longest = [int(max(*map(np.max, sides))) for sides in zip(samples[recipe.pairs[-1]], validation, strict=True)]

    models: dict[tuple[str, str], tuple[Any, Parameters]] = {}
    for family in recipe.families:
        for size in recipe.sizes:
            models[family, size] = _model(recipe, family, size, dictionaries, longest)
    any_args, _ = next(iter(models.values()))  # all have the same batches
    batches = {pairs: updates_an_epoch(any_args, *sides) for pairs, sides in samples.items()}
    plans = []
    for cell in cells_of(recipe):
        args, parameters = models[cell.family, cell.size]
        formula = flops.of_options(args, len(dictionaries[1]))
        sides = samples[cell.pairs]
        forward = float(np.sum(formula.forward(*sides)))  # of all pairs at once
        tokens = int(sides[1].sum())
        plans.append(
            Plan(
                cell=cell,
                parameters=parameters,
                flops=flops.TRAINING * forward / tokens,
                tokens=tokens,
                updates=recipe.updates,
                updates_an_epoch=batches[cell.pairs],
                validated=int(validation[1].sum()) * (recipe.updates // recipe.validate_every),
            )
        )
    return sorted(plans, key=lambda each: each.seconds)


def updates_an_epoch(args: Any, source: np.ndarray, target: np.ndarray) -> int:
    """The updates that fairseq makes of an epoch of sentences of so many subwords with ``</s>``."""
    order = np.argsort(target, kind="mergesort")
    order = order[np.argsort(source[order], kind="mergesort")]
    longer = np.maximum(source, target)
    batches = data_utils.batch_by_size(
        order,
        num_tokens_fn=lambda number: longer[number],
        num_tokens_vec=longer[order],
        max_tokens=args.max_tokens,
        max_sentences=args.batch_size,
        required_batch_size_multiple=args.required_batch_size_multiple,
    )
    return math.ceil(len(batches) / args.update_freq[0])


def _model(
    recipe: ScalingRecipe, family: str, size: str, dictionaries: Sequence[Dictionary], longest: Sequence[int]
) -> tuple[Any, Parameters]:
    """The options of a family's size, architecture applied, and the parameters of its model."""
    name = f"families: {family}, size {size}"
    args = training_args(["no-data", *recipe.training_options(family, size, recipe.seed)], name)
    for side, length in zip(("source", "target"), longest, strict=True):
        limit = getattr(args, f"max_{side}_positions")
        if length > limit:
            raise UserError(
                f"{name}: a {side} sentence has {length} positions, the model {limit}: "
                f"--max-{side}-positions {length} or more, or prepare the data with a smaller --max-length"
            )
    # Not by convert_namespace_to_omegaconf, which takes half a second a model
    return args, count(build_model(Namespace(model=args), TranslationTask(args, *dictionaries)))


def plan_table(plans: Sequence[Plan]) -> list[list[str]]:
    """The cells for the terminal, with the processor hours up to the end of each."""
    heading = ["cell", "non-embedding", "encoder", "decoder", "mixing", "embedding"]
    rows = [[*heading, "FLOPs/token", "tokens", "epochs", "minutes", "hours so far"]]
    hours = 0.0
    for each in plans:
        hours += each.seconds / 3600
        of = each.parameters
        counts = (f"{count:,}" for count in (of.non_embedding, of.encoder, of.decoder, of.mixing, of.embedding))
        epochs, minutes = each.updates / each.updates_an_epoch, each.seconds / 60
        cost = f"{each.flops:.3g}", f"{each.tokens:,}", f"{epochs:.1f}", f"{minutes:.1f}", f"{hours:.2f}"
        rows.append([each.cell.name, *counts, *cost])
    return rows
