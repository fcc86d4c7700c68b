"""A model's matrices, mainly A: the part that training used, how close A is to a convolution, how sparse it is, and the
bands of a gated model on a text.

A has a row for each position of the longest possible sentence, but most sentences are short. Entries that no training
sentence reached keep their initial values; those that few sentences reached are mostly noise.

An A whose entries depend only on j - i (a Toeplitz matrix) is a convolution. The means of the diagonals are the nearest
such matrix; the share of A's variance that they explain measures how near it is.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.trained import without_optimizer
from resmlp_mt.nn import TokenMixing
from resmlp_mt.nn.gated_mixing import Band, GatedTokenMixing

SIDES = "encoder", "decoder"

BELOW = 0.05
"""A weight below this share of the largest magnitude is small, as in figures 3 and B.2 of Touvron et al. 2021."""

SHARE = 0.01
"""The used part ends before the first position whose bias has at most this share of the largest squared gradient."""

MOST_SENTENCES = 1000  # of a text, to be read
BUFFERS = "version", "_float_tensor"  # ends of the names of buffers in fairseq's models, which are no parameters

BY_GRADIENT = (
    "found from the optimizer's state: each position's bias b had at least "
    f"{SHARE:.0%} of the squared gradients of the position that had most"
)
BY_BIAS = (
    "found from the biases b, which start at zero: up to the last position that any sentence of the training reached; "
    "--length, or a checkpoint with its optimizer's state, leaves out those that few reached, mostly noise"
)
NOTHING_TELLS = "all of A: every bias b is zero, as before training, so nothing tells what is used; --length does"

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MixingMatrix:
    """The matrix A of one layer; layers are counted from 1."""

    side: str
    layer: int
    key: str  # name of the mixing in the model
    weights: Tensor  # H x T x T, a matrix for each head (H = 1: one for all channels), zero where it is not read

    @property
    def name(self) -> str:
        return f"{self.side} {self.layer}"

    @property
    def file_name(self) -> str:
        return self.name.replace(" ", "-")

    @property
    def causal(self) -> bool:
        return self.side == "decoder"

    @property
    def length(self) -> int:
        return self.weights.size(-1)

    @property
    def mask(self) -> Tensor:
        """T x T, true where an entry is part of A: everywhere, or in the lower triangle."""
        everywhere = torch.ones(self.length, self.length, dtype=torch.bool)
        return everywhere.tril() if self.causal else everywhere


def layers_of(model: ResMLPTransformerModel) -> Iterator[tuple[str, int, Any]]:
    for side in SIDES:
        for number, layer in enumerate(getattr(model, side).layers, start=1):
            yield side, number, layer


def whole_matrix(mixing: TokenMixing) -> Tensor:
    """Return all rows of A as a mixing applies it: H x N x N."""
    rows = mixing.rows(0, mixing.max_positions).detach()
    return rows.view(-1, *rows.shape[-2:])


def mixing_matrices(model: ResMLPTransformerModel) -> list[MixingMatrix]:
    """Return every A of a model, the encoder's first; layers whose mixing is no matrix over positions have none."""
    return [
        MixingMatrix(side, number, f"{side}.layers.{number - 1}.mixing.mixing", whole_matrix(layer.mixing.mixing))
        for side, number, layer in layers_of(model)
        if layer.mixing is not None and isinstance(layer.mixing.mixing, TokenMixing)
    ]


@dataclass(frozen=True)
class Profile:
    """A matrix by relative position: mean and standard deviation of each diagonal j - i (if causal, up to 0)."""

    offsets: NDArray[np.int64]
    mean: Array
    spread: Array
    explained: float  # the share of the variance of all entries that the means explain
    by_chance: float  # the share to expect if entries are random and independent


def profiles(mixing: MixingMatrix) -> list[Profile]:
    offsets = np.arange(1 - mixing.length, 1 if mixing.causal else mixing.length)
    found = []
    for matrix in mixing.weights.double().numpy():
        diagonals = [np.diagonal(matrix, offset) for offset in offsets]
        entries = np.concatenate(diagonals)
        mean, spread = np.array([(each.mean(), each.std()) for each in diagonals]).T
        total = np.square(entries - entries.mean()).sum()
        unexplained = sum(np.square(each - each.mean()).sum() for each in diagonals)
        explained = float(1 - unexplained / total) if total > 0 else 1.0
        found.append(Profile(offsets, mean, spread, explained, (len(diagonals) - 1) / max(len(entries) - 1, 1)))
    return found


@dataclass(frozen=True)
class Sparsity:
    """The share of small weights in a matrix: ``A`` (the mean over its heads), the MLP's ``W1`` or ``W2``, or the
    cross-attention's ``q``, ``k``, ``v`` or ``out``."""

    side: str
    layer: int
    matrix: str
    share: float


def share_of_small(weights: Tensor) -> float:
    magnitude = weights.float().abs()
    return magnitude.lt(BELOW * magnitude.max()).double().mean().item()


def sparsity_of_mixing(mixing: MixingMatrix) -> Sparsity:
    """Return the sparsity of A over its ``mask``: in the decoder, the lower triangle."""
    shares = [share_of_small(matrix[mixing.mask]) for matrix in mixing.weights]
    return Sparsity(mixing.side, mixing.layer, "A", sum(shares) / len(shares))


def sparsity_over_channels(model: ResMLPTransformerModel) -> list[Sparsity]:
    """Return the sparsity of the matrices of every MLP and cross-attention, layer by layer."""
    found = []
    for side, number, layer in layers_of(model):
        matrices = {"W1": layer.mlp.fc1, "W2": layer.mlp.fc2}
        if side == "decoder" and layer.cross_attention is not None:
            attention = layer.cross_attention.attention
            matrices |= {name: getattr(attention, f"{name}_proj") for name in ("q", "k", "v", "out")}
        found += [Sparsity(side, number, name, share_of_small(each.weight)) for name, each in matrices.items()]
    return found


@dataclass(frozen=True)
class UsedPart:
    """The part of A to analyse, ``A[:T,:T]`` with a T for each side, and how it was found."""

    lengths: dict[str, int]
    how: str

    def of(self, mixing: MixingMatrix) -> MixingMatrix:
        length = self.lengths[mixing.side]
        return replace(mixing, weights=mixing.weights[:, :length, :length])


def used_part(checkpoint: Mapping[str, Any], mixings: Sequence[MixingMatrix]) -> UsedPart:
    if lengths := _lengths(squared_gradients(checkpoint), mixings, SHARE):
        return UsedPart(lengths, BY_GRADIENT)
    # b starts at zero, and b of a position gets a gradient only from sentences with that position
    if lengths := _lengths(checkpoint["model"], mixings, 0):
        return UsedPart(lengths, BY_BIAS)
    return UsedPart({mixing.side: mixing.length for mixing in mixings}, NOTHING_TELLS)


def _lengths(parameters: Mapping[str, Tensor], mixings: Sequence[MixingMatrix], share: float) -> dict[str, int]:
    """Return each side's longest part over its layers: positions before the first small bias; {} if one is 0."""
    lengths: dict[str, int] = {}
    for mixing in mixings:
        bias = parameters.get(f"{mixing.key}.bias", torch.zeros(mixing.length))
        size = bias.float().abs().reshape(-1, mixing.length).sum(0)
        found = int((size > share * size.max()).long().cumprod(0).sum())
        lengths[mixing.side] = max(lengths.get(mixing.side, 0), found)
    return lengths if all(lengths.values()) else {}


def squared_gradients(checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return, by parameter, the squared gradients that Adagrad (``sum``) or Adam (``exp_avg_sq``) keeps.

    The state has no names, only the order of parameters, or, in ``--fp16``, one vector of all. {} if sizes differ.
    """
    states = (checkpoint.get("last_optimizer_state") or {}).get("state") or {}
    records = [states[number].get("sum", states[number].get("exp_avg_sq")) for number in sorted(states)]
    if not records or not all(isinstance(record, Tensor) for record in records):
        return {}
    parameters, seen = {}, set()
    for name, tensor in checkpoint["model"].items():
        place = tensor.data_ptr(), tensor.shape
        if not name.endswith(BUFFERS) and place not in seen:  # a shared embedding is one parameter with several names
            parameters[name] = tensor
            seen.add(place)
    everything = torch.cat([record.flatten() for record in records])
    sizes = [tensor.numel() for tensor in parameters.values()]
    if everything.numel() != sum(sizes):
        return {}
    return {
        name: part.view(parameters[name].shape) for name, part in zip(parameters, everything.split(sizes), strict=True)
    }


def pruned(
    checkpoint: Mapping[str, Any], model: ResMLPTransformerModel, share: float, used: UsedPart
) -> dict[str, Any]:
    """Return a checkpoint without optimizer state, with the smallest ``share`` of each A's used part set to zero."""
    weights = dict(checkpoint["model"])
    for mixing in mixing_matrices(model):
        key = f"{mixing.key}.weight"
        bare = copy.deepcopy(model.get_submodule(mixing.key))
        weight = bare.weight.detach().clone()
        torch.nn.init.zeros_(bare.weight)
        beside = whole_matrix(bare)  # the rest of A, without its weight: a relative term
        chosen = smallest(used.of(mixing), share)
        length = chosen.size(-1)
        weight.view_as(beside)[:, :length, :length][chosen] = 0.0 - beside[:, :length, :length][chosen]
        weights[key] = weight.to(weights[key].dtype)
    return without_optimizer({**checkpoint, "model": weights}, "pruned")


def smallest(mixing: MixingMatrix, share: float) -> Tensor:
    """Return H x T x T, true at the given share of each head's entries, those with the smallest magnitudes."""
    number = int(share * int(mixing.mask.sum()) + 1e-9)  # 0.29 of 100 is 29
    sizes = mixing.weights.abs().masked_fill(~mixing.mask, torch.inf).flatten(1)
    order = sizes.argsort(dim=1, stable=True)[:, :number]
    return torch.zeros_like(sizes, dtype=torch.bool).scatter(1, order, True).view_as(mixing.weights)


@dataclass(frozen=True)
class TextBand:
    """The band of one layer (counted from 1): the weights of J relative positions j - i."""

    side: str
    layer: int
    offsets: list[int]
    mean: Tensor  # the mean over all positions of the text, H x J
    spread: Tensor  # the standard deviation over them, H x J
    sentence: Tensor  # the weights of each position of one sentence, T x H x J
    tokens: list[str]  # of that sentence

    @property
    def name(self) -> str:
        return f"{self.side} {self.layer}"


def bands_of(model: ResMLPTransformerModel) -> dict[tuple[str, int], Band]:
    return {
        (side, number): layer.mixing.mixing.band
        for side, number, layer in layers_of(model)
        if layer.mixing is not None
        and isinstance(layer.mixing.mixing, GatedTokenMixing)
        and layer.mixing.mixing.band is not None
    }


@torch.no_grad()
def read_bands(model: ResMLPTransformerModel, sides: Sequence[Sequence[Tensor]], sentence: int = 1) -> list[TextBand]:
    """Run a model on the first ``MOST_SENTENCES`` pairs; keep all weights of pair ``sentence``, counted from 1."""
    sources, targets = sides
    if not 1 <= sentence <= len(sources):
        raise UserError(f"--sentence {sentence}: the text has {len(sources):,} sentences: give one of them")
    numbers = sentence - 1, *range(min(len(sources), MOST_SENTENCES))
    # the decoder begins with </s>, as fairseq has it
    texts = [(sources[number], targets[number].roll(1)) for number in numbers]
    bands = bands_of(model)
    predicted: dict[Band, list[Tensor]] = {band: [] for band in bands.values()}
    hooks = [
        band.predict.register_forward_hook(lambda _, __, weights, found=found: found.append(weights))
        for band, found in predicted.items()
    ]
    for source, target in texts:
        model(source[None].long(), torch.tensor([len(source)]), target[None].long())
    for hook in hooks:
        hook.remove()
    found = []
    for (side, layer), band in bands.items():
        of_sentence, *of_text = (weights.view(-1, band.heads, band.window) for weights in predicted[band])
        text = torch.cat(of_text)
        offsets = list(range(-band.before, band.window - band.before))
        tokens = [getattr(model, side).dictionary[number] for number in texts[0][SIDES.index(side)]]
        found.append(TextBand(side, layer, offsets, text.mean(0), text.std(0), of_sentence, tokens))
    return found
