"""What the figures of a model say, in a sentence each."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from resmlp_mt.lab.analysis.bands import TextBand
from resmlp_mt.lab.analysis.matrices import MixingMatrix
from resmlp_mt.lab.analysis.profile import profiles
from resmlp_mt.lab.analysis.sparsity import Sparsity

NEARLY, PARTLY = 0.8, 0.5
"""Shares of the variance from which A is called nearly, or partly, a convolution."""


def reach(mixings: Sequence[MixingMatrix]) -> str:
    """How far away the positions are that each side reads."""
    parts = []
    for side in dict.fromkeys(mixing.side for mixing in mixings):
        distance = half_of_the_weight([mixing for mixing in mixings if mixing.side == side])
        parts.append(f"in the {side} within {distance} position{'' if distance == 1 else 's'}")
    return f"Half of the weight of A, by magnitude, lies {', '.join(parts)} of the diagonal."


def half_of_the_weight(mixings: Sequence[MixingMatrix]) -> int:
    """The smallest distance from the diagonal within which half of the sum of all magnitudes lies."""
    by_distance: Counter[int] = Counter()
    for mixing in mixings:
        magnitude = mixing.weights.abs().sum(0).double().numpy()
        for offset in range(1 - mixing.length, 1 if mixing.causal else mixing.length):
            by_distance[abs(offset)] += np.diagonal(magnitude, offset).sum()
    total = 0.0
    for distance in sorted(by_distance):
        total += by_distance[distance]
        if total >= by_distance.total() / 2:
            break
    return distance


def explained(mixings: Sequence[MixingMatrix]) -> str:
    """How near each A is to a convolution, and which diagonal is strongest."""
    found = {mixing.name: profiles(mixing) for mixing in mixings}
    shares = {name: float(np.mean([each.explained for each in heads])) for name, heads in found.items()}
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    mean = float(np.mean(list(shares.values())))
    kind = "nearly a convolution" if mean >= NEARLY else "partly a convolution" if mean >= PARTLY else "no convolution"
    strongest = Counter(int(each.offsets[np.abs(each.mean).argmax()]) for heads in found.values() for each in heads)
    ((offset, times),) = strongest.most_common(1)
    return (
        f"The diagonals explain {shares[least]:.0%} ({least}) to {shares[most]:.0%} ({most}) of A, {mean:.0%} on "
        f"average: A is {kind}. The strongest diagonal is j - i = {offset} in {times} of {strongest.total()} matrices."
    )


def bands(found: Sequence[TextBand]) -> str:
    """How much of what bands read depends on the position that reads."""
    varying = sum(float(each.spread.square().sum()) for each in found)
    whole = varying + sum(float(each.mean.square().sum()) for each in found)
    share = varying / whole if whole else 0.0
    return f"Of the bands' squared weights {share:.0%} is what differs from position to position, the rest their mean."


def small_weights(found: Sequence[Sparsity]) -> str:
    """How the sparsity of A compares with that of the matrices over channels."""
    of_a = [each.share for each in found if each.matrix == "A"]
    others = [each.share for each in found if each.matrix != "A"]
    sparsest = max(found, key=lambda each: each.share)
    return (
        f"{np.mean(of_a):.0%} of the weights of A are small, on average over the layers, and "
        f"{np.mean(others):.0%} of those of the other matrices; most are in {sparsest.matrix} of {sparsest.side} "
        f"{sparsest.layer}, {sparsest.share:.0%}."
    )


def changes(before: Sequence[MixingMatrix], after: Sequence[MixingMatrix]) -> str:
    """Which A changed most and which least between the last two checkpoints."""
    shares = {
        new.name: float((new.weights - old.weights).norm() / old.weights.norm().clamp_min(1e-12))
        for old, new in zip(before, after, strict=True)
    }
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    return (
        f"Between the last two checkpoints A of {most} changed most, by {shares[most]:.1%} of its norm, and "
        f"that of {least} least, by {shares[least]:.1%}."
    )


def largest(mixings: Sequence[MixingMatrix]) -> str:
    """Where the largest weight of all is."""
    mixing = max(mixings, key=lambda each: each.weights.abs().max().item())
    head, row, column = np.unravel_index(int(mixing.weights.abs().argmax()), mixing.weights.shape)
    where = f", head {head + 1}" if len(mixing.weights) > 1 else ""
    return (
        f"The largest weight is {mixing.weights[head, row, column].item():+.2f}, in {mixing.name}{where}, by "
        f"which position {row + 1} reads position {column + 1}."
    )
