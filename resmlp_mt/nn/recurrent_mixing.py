"""A recurrence without a matrix product in its loop: its forget gates depend on the inputs alone, not on states."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .affine import Aff, fold_around_
from .memory import Memory
from .positions import zero_padding
from .token_mixing import Mixing


class SimpleRecurrence(Mixing):
    """SSRU (Kim et al. 2019, section 3.1): ``ReLU(c_t)``, ``c_t = f_t c_{t-1} + (1 - f_t) v_t``, f_t a sigmoid.

    ``v_t = W x_t`` and ``f_t = sigmoid(W_f x_t + b_f)``. An encoder adds the state of a second recurrence, from the
    end to the beginning, before the ReLU. W has a bias, too: folding needs it.
    """

    def __init__(self, dim: int, max_positions: int, causal: bool):
        super().__init__()
        self.max_positions, self.directions = max_positions, 1 if causal else 2
        self.value_forget = nn.Linear(dim, 2 * self.directions * dim)
        nn.init.xavier_uniform_(self.value_forget.weight)
        nn.init.zeros_(self.value_forget.bias)

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """``S x B x C -> S x B x C``; states are remembered, and a step reads the last one. ``padding`` is T x B."""
        values, forget = self.value_forget(x).chunk(2, -1)
        forget = torch.sigmoid(forget)
        new = (1 - forget) * zero_padding(values, padding)
        forgets, news = forget.chunk(self.directions, -1), new.chunk(self.directions, -1)
        states = self.scan(forgets[0], news[0], memory.last(x))
        memory.remember(states)
        if self.directions == 2:
            states = states + self.scan(forgets[1].flip(0), news[1].flip(0), torch.zeros_like(x[:1])).flip(0)
        return torch.relu(states)

    def scan(self, forget: Tensor, new: Tensor, state: Tensor) -> Tensor:
        """Return the states ``c_t = forget_t c_{t-1} + new_t`` after ``state`` (1 x B x C), ``S x B x C``.

        This is a parallel scan: each pass combines sums over the last 1, 2, 4, ... positions with sums over as many
        positions before them. It multiplies factors from 0 to 1 and divides nothing. An exported graph, whose number of
        positions is free, has enough passes for ``max_positions``.
        """
        states, length = torch.cat([state, new]), new.size(0)
        factors = F.pad(forget, [0, 0, 0, 0, 1, 0])
        reach = 1
        while reach <= (length if isinstance(length, int) else self.max_positions):
            shifted = F.pad(states, [0, 0, 0, 0, reach, 0])[: states.size(0)]
            states = torch.addcmul(states, factors, shifted)
            factors = factors * F.pad(factors, [0, 0, 0, 0, reach, 0])[: states.size(0)]
            reach *= 2
        return states[1:]

    def fold_(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        """Fold in the norm before; the Aff after cannot be folded, as there is a ReLU before it."""
        return fold_around_(pre, [self.value_forget], None, post)
