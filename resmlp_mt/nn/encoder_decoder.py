"""The model: one encoder-decoder in pure PyTorch for fairseq's training, for exports and for translation."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .affine import NORMS
from .config import LayerConfig, ModelConfig
from .elementwise import Dropout
from .layers import DecoderLayer, EncoderLayer, ResidualBranch
from .memory import PagedMemory
from .positions import POSITIONS, restore_padding, roll_rows, zero_padding

Attentions = list[Tensor | None]  # each layer's cross-attention, H x B x T x S; None where it was not asked for


class CandidateScorer(NamedTuple):
    """A few candidate target tokens for each of B sentences, and the weights that score them.

    Weights are most of what a step reads. Those of finished sentences are removed when they are a quarter of all.
    """

    numbers: Tensor  # the tokens, B x L, with padding at the end
    weights: Tensor  # rows of the output projection, B' x L x C', B of them in use
    mask: Tensor  # added to scores, B' x 1 x L: 0, or minus infinity at padding
    used: Tensor  # B, the indices of those in use among the B'

    def scores(self, x: Tensor) -> Tensor:
        """``BK x T x C' -> BK x T x L``, the K rows of a sentence one after another."""
        used, sentences = self.used.size(0), self.weights.size(0)
        rows = x.reshape(used, -1, x.size(2))
        all_used = used == sentences
        if not all_used:
            rows = rows.new_zeros(sentences, rows.size(1), rows.size(2)).index_copy(0, self.used, rows)
        y = torch.baddbmm(self.mask, rows, self.weights.transpose(1, 2))
        return (y if all_used else y[self.used]).view(x.size(0), x.size(1), -1)

    def reorder(self, sentences: Tensor) -> "CandidateScorer":
        """Return the scorer of the sentences with the indices ``sentences`` (B''), each at most once, in any order."""
        numbers, used = self.numbers[sentences], self.used[sentences]
        if 3 * len(self.weights) < 4 * len(used) < 4 * len(self.weights):  # if all are used, they must be in order
            return CandidateScorer(numbers, self.weights, self.mask, used)
        kept = torch.arange(len(used), device=used.device)
        return CandidateScorer(numbers, self.weights[used], self.mask[used], kept)


@dataclass
class State:
    """The state between two decoding steps, for B sentences with K beams each; the beams of a sentence are adjacent."""

    sources: list[Any]  # of each layer, or one for all; None for a layer without cross-attention
    memories: list[Any]  # of each layer, with BK rows
    length: int = 0  # positions so far
    candidates: CandidateScorer | None = None  # the target tokens that are scored; None: all

    def reorder(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Give each beam the state that it continues; indices are ``rows`` (B'K) and ``sentences`` (B'; None: all)."""
        for memory in self.memories:
            memory.reorder(rows)
        if sentences is not None:
            self.sources = [None if source is None else source.reorder(sentences) for source in self.sources]
            self.candidates = None if self.candidates is None else self.candidates.reorder(sentences)


class Side:
    """The length limit and the padding of one side, encoder or decoder."""

    def __init__(self, limit: int, pad: int):
        self.limit, self.pad = limit, pad

    def shift_left(self, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
        """Move each sentence to the first position, ``B x T -> B x T'``; also return the shifts, B (None: no shift)."""
        padding = tokens.eq(self.pad)
        wide = tokens.size(1) > self.limit
        if wide:  # allowed if the rest is padding, as in a bucketed batch
            self.check_positions(int((~padding).sum(1).max()))
        shift = padding.long().cumprod(1).sum(1)
        if not wide and shift.is_cpu and not shift.any():  # on a GPU, any() would wait for it
            return tokens, None
        return roll_rows(tokens, shift)[:, : self.limit], shift

    def check_positions(self, positions: int) -> None:
        """Raise a ``ValueError`` if a sentence has more positions than the model."""
        if positions > self.limit:
            raise ValueError(f"a sentence of {positions} positions, but the model has {self.limit}: split it")


class Stack(nn.Module, Side):
    """One side of the model: embeddings (which may be shared), layers, final norm."""

    def __init__(self, cfg: ModelConfig, layer: LayerConfig, symbols: int, positions: str, embed_tokens: Any = None):
        nn.Module.__init__(self)
        Side.__init__(self, layer.positions, cfg.pad)
        if embed_tokens is None:
            embed_tokens = nn.Embedding(symbols, layer.dim, cfg.pad)
            nn.init.normal_(embed_tokens.weight, std=layer.dim**-0.5)
            embed_tokens.weight.data[cfg.pad] = 0
        self.embed_tokens: nn.Embedding = embed_tokens
        self.embed_positions = POSITIONS[positions](layer.positions, layer.dim, cfg.pad)
        self.embed_scale = math.sqrt(layer.dim) if cfg.scale_embeddings else 1.0
        self.dropout = Dropout(layer.dropout)
        self.layer_norm = NORMS[layer.norm](layer.dim)
        self.layers: Any = nn.ModuleList()

    def look_up(self, tokens: Tensor) -> Tensor:
        """Return the scaled embeddings of tokens of any shape, ``... -> ... x C``."""
        return self.embed_scale * self.embed_tokens(tokens)

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Embed tokens from ``start`` on, ``B x T -> T x B x C``."""
        end = start + tokens.size(1)
        self.check_positions(end)
        x = self.look_up(tokens.t())
        if self.embed_positions is not None:
            x = x + self.embed_positions.rows(start, end).unsqueeze(1).to(x.dtype)
        return self.dropout(x)


class Encoder(Stack):
    """Embeddings, encoder layers, final norm."""

    def __init__(self, cfg: ModelConfig, embed_tokens: nn.Embedding | None = None):
        layer = cfg.encoder
        super().__init__(cfg, layer, cfg.source_symbols, cfg.encoder_positions, embed_tokens)
        self.layers.extend(EncoderLayer(layer.of_layer(number)) for number in range(cfg.encoder_layers))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Encode B x S tokens, padded on either side; return S' x B x C, and the padding, now at the end, B x S'."""
        tokens, _ = self.shift_left(tokens)
        padding = tokens.eq(self.pad)
        return self.encode(self.embed(tokens), padding), padding

    def encode(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """Encode embeddings, S x B x C; ``padding`` (B x S) is true after the end of each sentence."""
        padding = None if padding is None else padding.t()
        x = zero_padding(x, padding)
        for layer in self.layers:
            x = layer(x, padding)
        return self.layer_norm(x)


class Decoder(Stack):
    """Embeddings, decoder layers, final norm, output projection."""

    def __init__(self, cfg: ModelConfig, embed_tokens: nn.Embedding | None = None):
        layer, symbols, out = cfg.decoder, cfg.target_symbols, cfg.decoder_output_dim
        super().__init__(cfg, layer, symbols, cfg.decoder_positions, embed_tokens)
        self.layers.extend(DecoderLayer(layer.of_layer(number)) for number in range(cfg.decoder_layers))
        self.project_out_dim = None
        if out != layer.dim:
            self.project_out_dim = nn.Linear(layer.dim, out, bias=False)
            nn.init.xavier_uniform_(self.project_out_dim.weight)  # as in fairseq
        self.adaptive_softmax: Any = None
        if cfg.adaptive_cutoffs:
            cutoffs = list(cfg.adaptive_cutoffs)
            self.adaptive_softmax = nn.AdaptiveLogSoftmaxWithLoss(out, symbols, cutoffs, cfg.adaptive_factor)
        else:
            self.output_projection = nn.Linear(out, symbols, bias=False)
            nn.init.normal_(self.output_projection.weight, std=out**-0.5)

    def start(self, encoded: Tensor, padding: Tensor | None, candidates: Tensor | None = None) -> State:
        """Return the state before the first step, from the encoding (S x B x C) and its padding (B x S).

        If ``candidates`` (B x L, padded) are given, only these target tokens are scored; not with an adaptive softmax.
        """
        sources = [layer.source(encoded, padding) for layer in self.layers]
        scorer = None if candidates is None else self.scorer(candidates)
        return State(sources, [PagedMemory() for _ in self.layers], 0, scorer)

    def scorer(self, candidates: Tensor) -> CandidateScorer:
        """Return the scorer of these target tokens (B x L, padded)."""
        weights = F.embedding(candidates, self.output_projection.weight)
        mask = torch.zeros(candidates.shape, dtype=weights.dtype, device=weights.device)
        mask = mask.masked_fill(candidates.eq(self.pad), float("-inf")).unsqueeze(1)
        return CandidateScorer(candidates, weights, mask, torch.arange(len(candidates), device=weights.device))

    def forward(self, tokens: Tensor, encoded: Tensor, padding: Tensor | None = None) -> Tensor:
        """Score all positions in one pass, ``B x T -> B x T x V``; ``</s>`` comes first; padded on either side."""
        length = tokens.size(1)
        tokens, shift = self.shift_left(tokens)
        x, _ = self.decode(tokens, encoded, padding)
        return restore_padding(self.project(x), shift, length)

    def decode(
        self, tokens: Tensor, encoded: Tensor, padding: Tensor | None, attend: Collection[int] = ()
    ) -> tuple[Tensor, Attentions]:
        """Decode all positions in one pass, ``B x T`` to the input of ``project``, ``B x T x C'``.

        Also return the attention of the layers ``attend``.
        """
        x, attentions = self.embed(tokens), []
        for number, layer in enumerate(self.layers):
            x, weights = layer(x, encoded, padding, number in attend)
            attentions.append(weights)
        return self.before_projection(x), attentions

    def decode_step(self, tokens: Tensor, state: State, attend: Collection[int] = ()) -> tuple[Tensor, Attentions]:
        """Do a ``step`` without the projection to the vocabulary: BK x T x C', and the attention."""
        x, attentions = self.embed(tokens, state.length), []
        for number, (layer, source, memory) in enumerate(zip(self.layers, state.sources, state.memories, strict=True)):
            x, weights = layer.step(x, source, memory, number in attend)
            attentions.append(weights)
        state.length += tokens.size(1)
        return self.before_projection(x), attentions

    def step(self, tokens: Tensor, state: State, attend: Collection[int] = ()) -> tuple[Tensor, Attentions]:
        """Score the next positions, ``BK x T -> BK x T x V`` (or x L, the candidates); also return the attention."""
        x, attentions = self.decode_step(tokens, state, attend)
        return (self.project(x) if state.candidates is None else state.candidates.scores(x)), attentions

    def before_projection(self, x: Tensor) -> Tensor:
        """Return the input of the projection to the vocabulary, ``T x B x C -> B x T x C'``."""
        x = self.layer_norm(x).transpose(0, 1)
        return x if self.project_out_dim is None else self.project_out_dim(x)

    def project(self, x: Tensor) -> Tensor:
        """Return scores, ``B x T x C' -> B x T x V``: logits, or log-probabilities with an adaptive softmax."""
        if self.adaptive_softmax is not None:
            return self.adaptive_softmax.log_prob(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return self.output_projection(x)


class EncoderDecoder(nn.Module):
    """A ResMLP encoder-decoder (Touvron et al. 2021, "Sequence-to-sequence ResMLP")."""

    def __init__(self, cfg: ModelConfig):
        super().__init__()
        self.cfg = cfg
        self.encoder, self.decoder = Encoder(cfg), Decoder(cfg)
        share_(self, cfg)

    def forward(self, source: Tensor, previous: Tensor) -> Tensor:
        """Score the next tokens, ``B x S, B x T -> B x T x V``; ``</s>`` ends each source and begins each target."""
        return self.decoder(previous, *self.encoder(source))


def fold_(model: nn.Module) -> None:
    """Fold every branch for inference, in place: the same scores with fewer operations."""
    for module in model.modules():
        if isinstance(module, ResidualBranch):
            module.fold_()


def share_(model: nn.Module, cfg: ModelConfig) -> None:
    """Make parameters that are shared, as ``cfg.shared`` says, one and the same."""
    for name, owner in cfg.shared.items():
        model.get_submodule(name.rpartition(".")[0]).weight = model.get_parameter(owner)
