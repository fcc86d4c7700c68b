"""The layers that can replace a Transformer's self-attention, by their names for ``--token-mixing``."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .content_mixing import DynamicConvolution, SelfAttention, Synthesizer
from .gated_mixing import GatedAverages, GatedTokenMixing
from .memory import Memory
from .positions import zero_padding
from .recurrent_mixing import SimpleRecurrence
from .token_mixing import Mixing, TokenMixing


class MLPTokenMixing(Mixing):
    """``V GELU(U x + c) + b`` over the positions of a sentence (Tolstikhin et al. 2021, equation 1).

    Each position has E hidden units. U and V are E matrices each, N x N; a sentence of T positions uses their first T
    rows and columns. If causal, they are lower-triangular.
    """

    def __init__(self, max_positions: int, expansion: int, causal: bool = False):
        super().__init__()
        self.max_positions, self.expansion, self.causal = max_positions, expansion, causal
        self.weight_in = nn.Parameter(torch.empty(expansion, max_positions, max_positions))
        self.bias_in = nn.Parameter(torch.zeros(expansion, max_positions))
        self.weight_out = nn.Parameter(torch.empty(expansion, max_positions, max_positions))
        self.bias_out = nn.Parameter(torch.zeros(max_positions))
        for weight, inputs in (self.weight_in, max_positions), (self.weight_out, expansion * max_positions):
            nn.init.uniform_(weight, -(inputs**-0.5), inputs**-0.5)
            if causal:  # entries above the diagonal are never read and never get a gradient
                weight.data.tril_()

    def rows(self, weight: Tensor, start: int, end: int) -> Tensor:
        """Return rows ``start`` to ``end`` of the first ``end`` columns, lower-triangular if causal: E x S x T."""
        rows = weight[:, start:end, :end]
        return rows.tril(start) if self.causal and start + 1 < end else rows

    def hidden(self, x: Tensor, start: int = 0) -> Tensor:
        """Return the hidden units of the positions from ``start`` on, ``T x B x C -> E x S x B x C``."""
        end, batch, channels = x.shape
        rows, bias = self.rows(self.weight_in, start, end), self.bias_in[:, start:end]
        y = torch.addmm(bias.reshape(-1, 1), rows.reshape(-1, end), x.reshape(end, -1))
        return F.gelu(y).view(self.expansion, -1, batch, channels)

    def outputs(self, hidden: Tensor, start: int = 0) -> Tensor:
        """Mix all hidden units into the outputs of the positions from ``start`` on, ``E x T x B x C -> S x B x C``."""
        _, end, batch, channels = hidden.shape
        rows = self.rows(self.weight_out, start, end).transpose(0, 1).reshape(end - start, -1)
        y = torch.addmm(self.bias_out[start:end, None], rows, hidden.reshape(-1, batch * channels))
        return y.view(-1, batch, channels)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; the hidden units of padded positions are not read."""
        return self.outputs(zero_padding(self.hidden(x), padding))

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """``S x B x C -> S x B x C``; the inputs and all hidden units are remembered, (1 + E) C channels."""
        start, (_, batch, channels) = memory.positions, x.shape
        inputs = torch.cat([memory.all()[..., :channels], x]) if start else x
        hidden = self.hidden(inputs, start).permute(1, 2, 0, 3).flatten(2)  # S x B x EC
        memory.remember(torch.cat([x, hidden], -1))
        units = memory.all()[..., channels:].reshape(-1, batch, self.expansion, channels)
        return self.outputs(units.permute(2, 0, 1, 3), start)


class Convolution(Mixing):
    """``y_t = sum over k of x_{t+k-before} K_k + b`` (Touvron et al. 2021, table 3), zero beyond the sentence's ends.

    An output reads ``size`` positions; its own is the middle one, or the last one if causal. ``depthwise``: ``K_k``
    scales each channel instead of mixing them; ``separable``: the same, followed by a linear layer over channels.
    """

    def __init__(self, dim: int, size: int, causal: bool, depthwise: bool = False, separable: bool = False):
        super().__init__()
        self.size, self.before = size, size - 1 if causal else size // 2
        self.kernel = nn.Parameter(torch.empty(size, dim) if depthwise or separable else torch.empty(size, dim, dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        bound = self.kernel[..., 0].numel() ** -0.5  # the number of inputs that an output has
        nn.init.uniform_(self.kernel, -bound, bound)
        self.pointwise = nn.Linear(dim, dim) if separable else nn.Identity()

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """``S x B x C -> S x B x C``; the inputs are remembered; x is zero at padding."""
        memory.remember(x)
        window = F.pad(memory.all(), [0, 0, 0, 0, self.before, self.size - 1 - self.before])
        window = window[memory.positions - x.size(0) :]
        y: Tensor = self.bias
        for k, kernel in enumerate(self.kernel):
            read = window[k : k + x.size(0)]
            y = torch.addcmul(y, read, kernel) if kernel.dim() == 1 else y + read @ kernel
        return self.pointwise(y)


def of_heads(cfg: Any) -> dict[str, Any]:
    """Return the arguments that are common to all mixings with heads."""
    return {"heads": cfg.mixing_heads, "dropout": cfg.mixing_dropout, "causal": cfg.causal}


TOKEN_MIXINGS: dict[str, Callable[[Any], Mixing | None]] = {
    "linear": lambda cfg: TokenMixing(cfg.positions, relative=cfg.mixing_relative, **of_heads(cfg)),
    "gated": lambda cfg: GatedTokenMixing(
        cfg.dim, cfg.positions, cfg.mixing_band, relative=cfg.mixing_relative, **of_heads(cfg)
    ),
    "ema": lambda cfg: GatedAverages(cfg.dim, cfg.positions, cfg.mixing_band, cfg.mixing_expansion, **of_heads(cfg)),
    "dynamic": lambda cfg: DynamicConvolution(cfg.dim, size=cfg.mixing_kernel, **of_heads(cfg)),
    "ssru": lambda cfg: SimpleRecurrence(cfg.dim, cfg.positions, cfg.causal),
    "synthesizer": lambda cfg: Synthesizer(cfg.dim, cfg.positions, **of_heads(cfg)),
    "attention": lambda cfg: SelfAttention(cfg.dim, **of_heads(cfg)),
    "none": lambda cfg: None,
    "mlp": lambda cfg: MLPTokenMixing(cfg.positions, cfg.mixing_expansion, cfg.causal),
    "conv": lambda cfg: Convolution(cfg.dim, cfg.mixing_kernel, cfg.causal),
    "depthwise": lambda cfg: Convolution(cfg.dim, cfg.mixing_kernel, cfg.causal, depthwise=True),
    "separable": lambda cfg: Convolution(cfg.dim, cfg.mixing_kernel, cfg.causal, separable=True),
}
"""Functions that build each mixing from a ``LayerConfig``; None means that the layer has no mixing."""

Class = TypeVar("Class", bound=type[Mixing])


def register_mixing(name: str) -> Callable[[Class], Class]:
    """Add a class, called with a ``LayerConfig``, to ``--token-mixing``; ``ValueError`` if the name is in use."""
    if name in TOKEN_MIXINGS:
        raise ValueError(f"there is a token mixing of the name {name!r}: choose another one")

    def register(mixing: Class) -> Class:
        TOKEN_MIXINGS[name] = mixing
        return mixing

    return register
