"""How many floating-point operations a translation model needs: matrix products alone, 2 FLOPs a multiply-add.

A product of (m x k) and (k x n) counts 2 m k n, as torch.utils.flop_counter counts it. Embedding look-ups, activations,
normalization, softmax and what is done element by element are left out. Lengths are in subwords with ``</s>``; padded
positions cost what real ones do. Square matrices over positions (attention, A) are counted whole, as they are computed,
also in decoders.

A training step needs 3 times the FLOPs of its forward pass: the backward pass multiplies each product's gradient by
both of its factors.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fairseq.models import ARCH_MODEL_NAME_REGISTRY

from resmlp_mt.common.errors import UserError

TRAINING = 3
"""A forward and a backward pass over a forward pass alone."""


@dataclass(frozen=True)
class TranslationModel:
    """An encoder and a decoder, of which the decoder projects to a vocabulary of this size."""

    vocabulary: int
    beams_share: ClassVar[bool] = False
    """whether on a CPU the beams of a sentence share its keys and values (``models.beams``)"""

    def encoder(self, source: int) -> int:
        """FLOPs of a source sentence of that length."""
        raise NotImplementedError

    def decoder(self, source: int, target: int) -> int:
        """FLOPs of a target sentence beside its encoded source sentence, all positions at once."""
        raise NotImplementedError

    def kept(self, source: int) -> int:
        """Those of the decoder's FLOPs that are for the source sentence alone: keys and values, kept between steps."""
        return 0

    def forward(self, source: int, target: int) -> int:
        """FLOPs of the forward pass over a pair of sentences of these lengths."""
        return self.encoder(source) + self.decoder(source, target)

    def per_target_token(self, source: int, target: int) -> float:
        return self.forward(source, target) / target


@dataclass(frozen=True)
class ResMLP(TranslationModel):
    """This plugin's model (Touvron et al. 2021, "Sequence-to-sequence ResMLP").

    A mixing is A X, 2 T d a position, whether of one A or of heads; an MLP 4 d m; cross-attention is counted with the
    Transformer's.
    """

    width: int
    mlp: int
    encoder_layers: int
    decoder_layers: int
    mixing: str = "linear"  # what --token-mixing says
    expansion: int = 0  # hidden units for each position of a mixing by an MLP
    kernel: int = 0  # positions that a convolution reads
    heads: int = 1  # of a gated mixing, each with a band of its own
    band: int = 0  # positions on one side that a band reaches; 0: none
    beams_share: ClassVar[bool] = True

    def encoder(self, source: int) -> int:
        return self.encoder_layers * source * (self.positions(source, 2 * self.band + 1) + 4 * self.width * self.mlp)

    def decoder(self, source: int, target: int) -> int:
        d = self.width
        own = self.positions(target, self.band + 1) + 4 * d * self.mlp
        cross = 4 * d * d + 4 * source * d  # queries, output; scores, weighted sums
        return self.decoder_layers * target * (own + cross) + self.kept(source) + target * 2 * d * self.vocabulary

    def kept(self, source: int) -> int:
        return self.decoder_layers * source * 4 * self.width**2

    def positions(self, length: int, window: int) -> int:
        """FLOPs a position of what connects the positions of one sentence; a band reaches ``window`` of them.

        What is weighted element by element is no product: a depthwise convolution, and what a band's weights weigh.
        """
        linear, over_channels = 2 * length * self.width, 2 * self.width**2
        band = 2 * self.width * self.heads * window if self.band else 0
        return {
            "linear": linear,
            "gated": linear + 3 * over_channels + band,  # values, gates, output
            "none": 0,
            "mlp": 2 * self.expansion * linear,
            "conv": self.kernel * over_channels,
            "depthwise": 0,
            "separable": over_channels,
        }[self.mixing]


@dataclass(frozen=True)
class Transformer(ResMLP):
    """Vaswani et al. 2017: self-attention, 8 d^2 a position for four projections, 2 T d each for scores and sums."""

    beams_share: ClassVar[bool] = False

    def positions(self, length: int, window: int) -> int:
        return 8 * self.width**2 + 4 * length * self.width


@dataclass(frozen=True)
class ConvS2S(TranslationModel):
    """Gehring et al. 2017, as fairseq's ``fconv``: gated convolutions, attention in every decoder layer.

    A layer of c channels and kernel k over p channels is a convolution to 2 c channels, 4 k p c a position, and, where
    c is not p, a projection 2 p c of the residual. The decoder also convolves over k - 1 positions beyond the end, and
    drops them.
    """

    width: int
    out: int
    encoder_layers: Sequence[tuple[int, int]]  # (channels, kernel) of each layer
    decoder_layers: Sequence[tuple[int, int]]

    def encoder(self, source: int) -> int:
        first, last = self.encoder_layers[0][0], self.encoder_layers[-1][0]
        return source * 2 * self.width * (first + last) + self._convolutions(self.encoder_layers, source, False)

    def decoder(self, source: int, target: int) -> int:
        first, last = self.decoder_layers[0][0], self.decoder_layers[-1][0]
        attention = sum(4 * c * self.width + 4 * source * self.width for c, _ in self.decoder_layers)
        ends = 2 * self.width * first + 2 * last * self.out + 2 * self.out * self.vocabulary
        return target * (attention + ends) + self._convolutions(self.decoder_layers, target, True)

    @staticmethod
    def _convolutions(layers: Sequence[tuple[int, int]], length: int, causal: bool) -> int:
        total, before = 0, layers[0][0]
        for channels, kernel in layers:
            total += (length + (kernel - 1 if causal else 0)) * 4 * kernel * before * channels
            if channels != before:
                total += length * 2 * before * channels
            before = channels
        return total


@dataclass(frozen=True)
class LSTM(TranslationModel):
    """Luong et al. 2015, as fairseq's one-directional ``lstm``: input feeding, global attention on the last layer.

    A cell is 8 h (in + h) a position, the attention 2 h^2 (query) and 4 h^2 (output); its scores and weighted sums are
    no matrix products in fairseq and left out.
    """

    embedding: int
    hidden: int
    out: int
    layers: int

    def encoder(self, source: int) -> int:
        return source * self._cells(self.embedding)

    def decoder(self, source: int, target: int) -> int:
        h = self.hidden
        narrowed = 2 * h * self.out if self.out != h else 0
        cells = self._cells(self.embedding + h)
        return target * (cells + 6 * h * h + narrowed + 2 * self.out * self.vocabulary)

    def _cells(self, inputs: int) -> int:
        h = self.hidden
        return 8 * h * (inputs + h) + (self.layers - 1) * 16 * h * h


def of_options(args: Any, vocabulary: int) -> TranslationModel:
    """The model that fairseq's options, architecture applied, describe; ``vocabulary`` is the target dictionary's."""
    name = ARCH_MODEL_NAME_REGISTRY[args.arch]
    if name in ("resmlp_transformer", "transformer"):
        sizes = args.encoder_embed_dim, args.encoder_ffn_embed_dim
        if sizes != (args.decoder_embed_dim, args.decoder_ffn_embed_dim):
            raise UserError(f"{args.arch}: encoder and decoder of unequal width are not counted: make them equal")
        if name == "transformer":
            return Transformer(vocabulary, *sizes, args.encoder_layers, args.decoder_layers)
        mixing = args.token_mixing, args.mixing_expansion, args.mixing_kernel, args.mixing_heads, args.mixing_band
        return ResMLP(vocabulary, *sizes, args.encoder_layers, args.decoder_layers, *mixing)
    if name == "fconv":
        layers = [_layers(text) for text in (args.encoder_layers, args.decoder_layers)]
        return ConvS2S(vocabulary, args.encoder_embed_dim, args.decoder_out_embed_dim, *layers)
    if name == "lstm" and args.encoder_hidden_size == args.decoder_hidden_size and not args.encoder_bidirectional:
        sizes = args.encoder_embed_dim, args.encoder_hidden_size
        return LSTM(vocabulary, *sizes, args.decoder_out_embed_dim, args.encoder_layers)
    raise UserError(f"{args.arch}: its FLOPs are not counted: give a ResMLP, a transformer, an fconv or a plain lstm")


def _layers(text: str) -> list[tuple[int, int]]:
    """fairseq's ``[(512, 3)] * 9 + [(1024, 3)] * 4``, read without running it."""
    layers: list[tuple[int, int]] = []
    for part in text.split("+"):
        numbers, _, times = part.partition("*")
        layers += ast.literal_eval(numbers.strip()) * int(times or 1)
    return layers
