"""Convolutions over positions in the place of A: table 3 of Touvron et al. 2021, "patch communication", in 1 dimension.

Centred in the encoder, causal in the decoder.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .affine import Aff
from .memory import Memory
from .norm import absorb_output_affine_, scale_outputs_
from .token_mixing import Mixing


class Convolution(Mixing):
    """``y_t = sum over k of x_{t+k-before} K_k + b``, zero beyond both ends of the sentence; K_k mixes the channels.

    Args:
        dim: channels C
        size: positions that an output reads, K; odd
        causal: the last of them is its own; otherwise the one in the middle
    """

    def __init__(self, dim: int, size: int, causal: bool):
        super().__init__()
        self.size = size
        self.before = size - 1 if causal else size // 2
        self.kernel = nn.Parameter(torch.empty(self.kernel_shape(dim, size)))
        self.bias = nn.Parameter(torch.zeros(dim))
        bound = self.kernel[..., 0].numel() ** -0.5  # the number of inputs that an output has
        nn.init.uniform_(self.kernel, -bound, bound)

    @staticmethod
    def kernel_shape(dim: int, size: int) -> tuple[int, ...]:
        """K x C x C, inputs then outputs"""
        return size, dim, dim

    def convolve(self, window: Tensor) -> Tensor:
        """``T+K-1 x B x C -> T x B x C``"""
        length, batch, channels = window.size(0) - self.size + 1, window.size(1), window.size(2)
        y: Tensor = self.bias
        for k in range(self.size):
            y = torch.addmm(y, window[k : k + length].reshape(-1, channels), self.kernel[k])
        return y.view(length, batch, channels)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; x is after ``zero_padding``."""
        return self.convolve(F.pad(x, [0, 0, 0, 0, self.before, self.size - 1 - self.before]))

    def mix(self, x: Tensor, memory: Memory) -> Tensor:
        """``S x B x C -> S x B x C``; the inputs are remembered, and the last of them read."""
        memory.remember(x)
        window = F.pad(memory.all(), [0, 0, 0, 0, self.before, 0])
        return self.convolve(window[window.size(0) - x.size(0) - self.before :])

    def fold_(self, pre: nn.Module, post: nn.Module) -> tuple[nn.Module, nn.Module]:
        """Take in the Aff behind. The one before stays: its beta is not there beyond the ends of a sentence."""
        if not isinstance(post, Aff):
            return pre, post
        self.scale_outputs_(post)
        return pre, nn.Identity()

    def scale_outputs_(self, post: Aff) -> None:
        """Make the outputs what ``post`` made of them."""
        scale_outputs_(self.kernel, self.bias, post)

    def extra_repr(self) -> str:
        return f"size={self.size}, before={self.before}"


class DepthwiseConvolution(Convolution):
    """``y_t = sum over k of x_{t+k-before} * k_k + b``, each channel by itself."""

    @staticmethod
    def kernel_shape(dim: int, size: int) -> tuple[int, ...]:
        """K x C"""
        return size, dim

    def convolve(self, window: Tensor) -> Tensor:
        """``T+K-1 x B x C -> T x B x C``"""
        return self.depthwise(window)

    def depthwise(self, window: Tensor) -> Tensor:
        """``T+K-1 x B x C -> T x B x C``, without what a subclass adds to ``convolve``"""
        length = window.size(0) - self.size + 1
        y: Tensor = self.bias
        for k in range(self.size):
            y = torch.addcmul(y, window[k : k + length], self.kernel[k])
        return y


class SeparableConvolution(DepthwiseConvolution):
    """A depthwise convolution, then a linear layer over channels."""

    def __init__(self, dim: int, size: int, causal: bool):
        super().__init__(dim, size, causal)
        self.pointwise = nn.Linear(dim, dim)

    def convolve(self, window: Tensor) -> Tensor:
        """``T+K-1 x B x C -> T x B x C``"""
        return self.pointwise(self.depthwise(window))

    def scale_outputs_(self, post: Aff) -> None:
        """Make the outputs what ``post`` made of them."""
        absorb_output_affine_(self.pointwise, post)
