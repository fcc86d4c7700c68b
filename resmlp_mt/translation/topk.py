"""The best of many numbers in each row: ``torch.topk``'s, found among the best blocks of the row.

``topk`` compares one number after another with the best so far; the largest number of each block is found by vector
instructions. The k blocks whose largest numbers are largest have the k best numbers, and most of a row is in none of
them. On a CPU this takes half of the time for rows of 16,000 numbers.
"""

import torch
from torch import Tensor

BLOCK = 96
"""Numbers in a block."""


def topk(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row, largest first, and their places; all of them, where a row has fewer.

    Args:
        x: R x N, without nan

    Returns:
        R x k, R x k
    """
    if x.size(1) <= 2 * k * BLOCK or x.device.type != "cpu":
        return x.topk(min(k, x.size(1)), 1)
    whole = x.size(1) // BLOCK * BLOCK  # the rest is looked through in any case
    blocks = x[:, :whole].unflatten(1, (-1, BLOCK))
    chosen = blocks.amax(2).topk(k, 1, sorted=False).indices.unsqueeze(2)
    within = torch.arange(BLOCK)
    rest = torch.arange(whole, x.size(1)).expand(len(x), -1)
    places = torch.cat([(chosen * BLOCK + within).flatten(1), rest], 1)
    values, which = x.gather(1, places).topk(k, 1)
    return values, places.gather(1, which)
