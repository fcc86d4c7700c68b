"""Which target tokens go with which source tokens: IBM Model 1 (Brown et al. 1993, section 4.1), fitted by EM.

The model has one table t(target token | source token): a translation's token comes from each source token of its
sentence with equal probability, ``</s>`` among them, which stands for none. Order plays no part.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

ITERATIONS = 6


def lexicon(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]], most: int, iterations: int = ITERATIONS
) -> dict[int, list[int]]:
    """For each source token of pairs of sentences the ``most`` target tokens with the largest t, best first.

    Takes about 30 bytes of memory for each source token times target token of a pair.
    """
    blocks: list[NDArray[np.int64]] = []
    widths: list[NDArray[np.int64]] = []
    for source, target in pairs:
        blocks.append((np.array(target)[:, None] + (np.array(source) << 32)).ravel())  # one number a pair of tokens
        widths.append(np.full(len(target), len(source)))
    if not blocks:
        return {}
    codes, entry = np.unique(np.concatenate(blocks), return_inverse=True)
    width = np.concatenate(widths)
    reader = np.repeat(np.arange(len(width)), width)  # the target position of each pair of tokens
    sources, source = np.unique(codes >> 32, return_inverse=True)
    table = np.ones(len(codes))
    for _ in range(iterations):
        chance = table[entry]
        counts = np.bincount(entry, chance / np.bincount(reader, chance)[reader])
        table = counts / np.bincount(source, counts)[source]
    order = np.lexsort((-table, source))
    targets = (codes & 0xFFFFFFFF)[order]
    ends = np.cumsum(np.bincount(source))
    return {
        int(number): targets[start : min(end, start + most)].tolist()
        for number, start, end in zip(sources, [0, *ends[:-1]], ends, strict=True)
    }
