"""The linear layer over positions that stands where a Transformer has self-attention."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .affine import Aff
from .dropout import Dropout
from .norm import split
from .past import append, positions_of, reorder, weighted_sum, whole

Keep = Callable[[Tensor], Tensor]


class Mixing(nn.Module):
    """What stands where a Transformer has self-attention: a kind of its own needs no more than ``forward``.

    One that is causal (no position reads a later one) can stand in a decoder, where it is asked for step after step.
    """

    def readable(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``, zero at padded positions, which are true in ``padding`` (T x B)."""
        return x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; x is ``readable``; ``padding`` is for kinds that must know it all the same."""
        raise NotImplementedError

    def step(self, x: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The positions that follow those of the steps before, ``S x B x C -> S x B x C``, and the longer past.

        This one is right for every causal mixing: it keeps all inputs and asks for all positions again.

        Args:
            past: what the step before gave, [] at the first
        """
        kept = torch.cat([*past, x])
        return self.forward(kept)[-x.size(0) :], [kept]

    def step_over(self, x: Tensor, keep: Keep) -> Tensor:
        """``step`` where the caller keeps the past, ``S x B x C -> S x B x C``.

        Args:
            x: the new positions
            keep: takes what later steps must know of the new positions, S x B x C, and gives that of all, T x B x C
        """
        return self.forward(keep(x))[-x.size(0) :]

    def reorder(self, past: list[Tensor], order: Tensor) -> list[Tensor]:
        """Give each beam the past of the beam that it continues; ``order`` (B') indexes the batch."""
        return [each.index_select(1, order) for each in past]

    def fold_(self, pre: nn.Module, post: nn.Module) -> tuple[nn.Module, nn.Module]:
        """Take in what can be taken in exactly of the norm before and the Aff behind; returns what is left of them."""
        return pre, post


class TokenMixing(Mixing):
    """``A[:T,:T] x + b[:T]`` over the positions of a sentence (Touvron et al. 2021, equation 2).

    In T x B x C this is one matrix product, ``(T x T) @ (T x BC)``, without a transpose or a copy. With H heads, each
    of H groups of channels has its own A and b, and there are H such products in one batch.

    Args:
        max_positions: N; A is N x N (H x N x N with heads), b has N entries (H x N)
        heads: H
        relative: add to A a term that depends on the distance alone, ``A[i,j] + r[j-i]``
        causal: A is lower-triangular: position t reads positions 1 to t only ("Sequence-to-sequence ResMLP")
        dropout: probability that an entry of A is left out in a training step (Wu et al. 2019, section 3, of kernels)
    """

    scale: Tensor
    row_sum_scale: Tensor
    offset: Tensor

    def __init__(
        self,
        max_positions: int,
        heads: int = 1,
        relative: bool = False,
        causal: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.max_positions, self.heads, self.causal = max_positions, heads, causal
        of_heads = () if heads == 1 else (heads,)
        self.weight = nn.Parameter(torch.empty(*of_heads, max_positions, max_positions))
        self.bias = nn.Parameter(torch.zeros(*of_heads, max_positions))
        distances = max_positions if causal else 2 * max_positions - 1
        self.relative = nn.Parameter(torch.zeros(*of_heads, distances)) if relative else None
        self.folded = False
        nn.init.uniform_(self.weight, -(max_positions**-0.5), max_positions**-0.5)
        if causal:  # entries above the diagonal are never read and never get a gradient
            self.weight.data.tril_()
        for name in "scale", "row_sum_scale", "offset":  # of a folded mixing
            self.register_buffer(name, torch.zeros(0), persistent=False)

    def rows(self, start: int, end: int) -> Tensor:
        """Rows ``start`` to ``end`` of ``A[:end,:end]``: S x T, with heads H x S x T; for another A, override this."""
        return self.learned_rows(start, end)

    def learned_rows(self, start: int, end: int) -> Tensor:
        """These rows as the parameters give them, lower-triangular if causal. (TorchScript knows no ``super()``.)"""
        rows = self.weight[..., start:end, :end]
        relative = self.relative
        if relative is not None:
            rows = rows + by_distance(relative, self.max_positions, start, end)
        rows = self.dropout(rows)
        return rows.tril(start) if self.causal and start + 1 < end else rows

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; the padding (T x B) matters to a folded mixing that is not causal alone."""
        return self.mix(x, 0, None if self.causal else padding)

    def mix(self, x: Tensor, start: int, padding: Tensor | None = None) -> Tensor:
        """Positions from ``start`` on of the mixture of all positions of x."""
        rows = self.rows(start, x.size(0))
        if not self.folded:
            return product(rows, x, self.bias[..., start : x.size(0), None])
        return self.finish(product(rows, x), rows, start, padding)

    def finish(self, mixed: Tensor, rows: Tensor, start: int, padding: Tensor | None = None) -> Tensor:
        """Add to ``A x`` (S x B x C) what is added, and scale it if folded; ``rows`` are those of A."""
        end, channels = start + mixed.size(0), mixed.size(2)
        if not self.folded:
            return mixed + self.by_channel(self.bias[..., start:end, None], channels)
        row_sums = rows.sum(-1, keepdim=True) if padding is None else rows @ (~padding).to(rows.dtype)
        row_sums = self.by_channel(row_sums, channels)
        offset = torch.addcmul(self.offset[start:end, None], row_sums, self.row_sum_scale)
        return torch.addcmul(offset, mixed, self.scale)

    def by_channel(self, values: Tensor, channels: int) -> Tensor:
        """Values of positions for all channels, ``S x B -> S x B x 1``; those of heads, ``H x S x B -> S x B x C``"""
        if self.heads == 1:
            return values.unsqueeze(-1)
        return values.permute(1, 2, 0).repeat_interleave(channels // self.heads, 2)

    def step(self, x: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """``S x B x C -> S x B x C``, the new positions alone, from the past inputs.

        Raises:
            ValueError: more positions than the matrix has
        """
        past = append(past, x, self.max_positions)
        end = positions_of(past)
        if x.size(0) > 1:
            return self.mix(whole(past), end - x.size(0)), past
        return self.mix_last(past, self.rows(end - 1, end)), past

    def mix_last(self, past: list[Tensor], rows: Tensor) -> Tensor:
        """The last position of the mixture of the past, 1 x B x C, by the last row, of all (H x 1 x T) or of each."""
        end = positions_of(past)
        weights = rows.view(-1, self.heads, end).expand(past[1].size(0), -1, -1)
        return self.finish(weighted_sum(past, weights).unsqueeze(0), rows, end - 1)

    def step_over(self, x: Tensor, keep: Keep) -> Tensor:
        """``S x B x C -> S x B x C``; kept are the inputs."""
        kept = keep(x)
        return self.mix(kept, kept.size(0) - x.size(0))

    def reorder(self, past: list[Tensor], order: Tensor) -> list[Tensor]:
        """Give each beam the past of the beam that it continues; ``order`` (B') indexes the batch."""
        return reorder(past, order)

    def fold_(self, pre: nn.Module, post: nn.Module) -> tuple[nn.Module, nn.Module]:
        """Take in both Aff, as scaling channels commutes with mixing positions, and the relative term.

        ``Aff2(A Aff1(x) + b) = (alpha2 alpha1) (A x) + rowsum(A) (x) (alpha2 beta1) + b (x) alpha2 + beta2``, where
        rowsum(A) runs over the real positions of each sentence.
        """
        if not isinstance(post, Aff):
            return pre, post
        left, pre = split(pre)
        with torch.no_grad():
            alpha1, beta1 = pre.alpha.double(), pre.beta.double()
            alpha2, beta2 = post.alpha.double(), post.beta.double()
            dtype = self.weight.dtype
            self.scale = (alpha2 * alpha1).to(dtype)
            self.row_sum_scale = (alpha2 * beta1).to(dtype)
            bias = self.by_channel(self.bias.double().unsqueeze(-1), alpha2.numel()).squeeze(1)
            self.offset = torch.addcmul(beta2, bias, alpha2).to(dtype)
        self.absorb_relative_()
        self.folded = True
        return left, nn.Identity()

    @torch.no_grad()
    def absorb_relative_(self) -> None:
        """Add the relative term to A, once and for all."""
        if self.relative is not None:
            self.weight.add_(by_distance(self.relative, self.max_positions, 0, self.max_positions))
            self.relative = None

    def extra_repr(self) -> str:
        relative = self.relative is not None
        return f"{self.max_positions}, heads={self.heads}, relative={relative}, causal={self.causal}"


def product(rows: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """``S x T, T x B x C -> S x B x C``; with heads H x S x T, each for its group of channels.

    Args:
        bias: S x 1, or H x S x 1
    """
    length, batch, channels = x.shape
    if rows.dim() == 2:
        x = x.reshape(length, batch * channels)
        y = torch.mm(rows, x) if bias is None else torch.addmm(bias, rows, x)
        return y.view(-1, batch, channels)
    heads, width = rows.size(0), channels // rows.size(0)
    x = x.reshape(length, batch, heads, width).permute(2, 0, 1, 3).reshape(heads, length, batch * width)
    y = torch.bmm(rows, x) if bias is None else torch.baddbmm(bias, rows, x)
    return y.view(heads, -1, batch, width).permute(1, 2, 0, 3).reshape(-1, batch, channels)


def by_distance(relative: Tensor, positions: int, start: int, end: int) -> Tensor:
    """The matrix whose entry (i, j) is that of ``j - i``: its rows ``start`` to ``end``, ``... x S x T``.

    Args:
        relative: ``... x 2N-1``, for distances from 1 - N to N - 1, or ``... x N``, up to 0, with zeros beyond
        positions: N
    """
    last = positions + end - start - 1
    values = F.pad(relative[..., positions - end : last], [0, max(last - relative.size(-1), 0)])
    return values.unfold(-1, end, 1).flip(-2)
