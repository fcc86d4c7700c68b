"""The whole model in pure PyTorch, for use outside fairseq: to be exported, to translate, to be trained further.

It computes what ``resmlp_mt.fairseq_plugin`` does in fairseq, and its parameters have the names that they have there.
"""

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .among import Among, among
from .cross_attention import Source
from .dropout import Dropout
from .layers import DecoderLayer, EncoderLayer, LayerConfig, ResidualBranch
from .norm import NORMS
from .padding import back, to_left

LARGEST = 1 << 28
"""No number of a configuration comes near."""


@dataclass(frozen=True)
class ModelConfig:
    """The sizes and kinds of an encoder-decoder.

    Attributes:
        source_symbols, target_symbols: entries of the dictionaries
        encoder, decoder: of the layers of each side
        encoder_layers, decoder_layers: how many
        decoder_input_dim, decoder_output_dim: channels of the target embeddings and before the output projection
        pad: the number of padding in both dictionaries
        scale_embeddings: by the square root of the channels (Vaswani et al. 2017, section 3.4)
        share_all_embeddings: of source, target and output
        share_output_embeddings: of target and output
        encoder_positions, decoder_positions: positional embeddings added to the tokens': none, sinusoidal or learned
        adaptive_cutoffs: an adaptive softmax (Grave et al. 2017) with these; (): one over all symbols
        adaptive_factor: by how much each of its clusters has fewer channels than the one before
    """

    source_symbols: int
    target_symbols: int
    encoder: LayerConfig
    decoder: LayerConfig
    encoder_layers: int
    decoder_layers: int
    decoder_input_dim: int
    decoder_output_dim: int
    pad: int = 1
    scale_embeddings: bool = True
    share_all_embeddings: bool = False
    share_output_embeddings: bool = False
    encoder_positions: str = "none"
    decoder_positions: str = "none"
    adaptive_cutoffs: tuple[int, ...] = ()
    adaptive_factor: float = 4.0

    @classmethod
    def of(cls, values: Any) -> "ModelConfig":
        """What ``dataclasses.asdict`` made of a configuration, also after a way through JSON.

        Raises:
            ValueError: it is something else
        """
        return _made(cls, values)


def _made(kind: Any, value: Any) -> Any:
    """What a field of a type ``kind`` is to hold, a dataclass of its own perhaps."""
    if is_dataclass(kind):
        known = {field.name: field for field in fields(kind)}
        needed = {name for name, field in known.items() if field.default is MISSING}
        if not isinstance(value, dict) or not needed <= value.keys() <= known.keys():
            raise ValueError(f"{value!r:.80} does not have the entries {', '.join(known)}")
        make: Any = kind
        return make(**{name: _made(known[name].type, each) for name, each in value.items()})
    if kind == tuple[int, ...] and isinstance(value, list | tuple):
        return tuple(_made(int, each) for each in value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind or (kind in (int, float) and not 0 <= value < LARGEST):
        raise ValueError(f"{value!r:.80} is not what it must be")
    return value


class State(NamedTuple):
    """What step-by-step decoding keeps between two steps.

    Attributes:
        sources: of each layer, what its cross-attention reads of B sentences
        pasts: of each layer, what its mixing keeps of BK rows, the K beams of a sentence one after another
        length: positions so far
        among: the target tokens that are scored; None: all
    """

    sources: list[Source | None]
    pasts: list[list[Tensor]]
    length: int
    among: Among | None = None


class LearnedPositions(nn.Embedding):
    """A learned embedding a position; as in fairseq, position p has the number ``pad + 1 + p``."""

    def __init__(self, positions: int, dim: int, pad: int):
        super().__init__(positions + pad + 1, dim, pad)
        self.first = pad + 1

    def rows(self, start: int, end: int) -> Tensor:
        """Embeddings of positions ``start`` to ``end``, T x C."""
        return self.weight[self.first + start : self.first + end]


class SinusoidalPositions(nn.Module):
    """Sines and cosines (Vaswani et al. 2017, section 3.5), sines first, numbered as ``LearnedPositions`` are."""

    table: Tensor

    def __init__(self, positions: int, dim: int, pad: int):
        super().__init__()
        self.sizes = positions, dim, pad
        self.register_buffer("table", self.made(), persistent=False)

    def made(self) -> Tensor:
        """The table, N x C."""
        positions, dim, pad = self.sizes
        half = dim // 2
        frequencies = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
        angles = torch.arange(pad + 1, positions + pad + 1, dtype=torch.float).unsqueeze(1) * frequencies
        return F.pad(torch.cat([angles.sin(), angles.cos()], 1), [0, dim % 2])

    def rows(self, start: int, end: int) -> Tensor:
        """Embeddings of positions ``start`` to ``end``, T x C."""
        return self.table[start:end]


POSITIONS = {"none": lambda positions, dim, pad: None, "sinusoidal": SinusoidalPositions, "learned": LearnedPositions}


class Stack(nn.Module):
    """One side: embeddings, layers, one last norm."""

    embed_scale: float

    def __init__(self, symbols: int, input_dim: int, positions: str, layer: LayerConfig, cfg: ModelConfig):
        super().__init__()
        self.limit, self.pad = layer.positions, cfg.pad
        self.embed_tokens = nn.Embedding(symbols, input_dim, cfg.pad)
        nn.init.normal_(self.embed_tokens.weight, std=input_dim**-0.5)
        self.embed_tokens.weight.data[cfg.pad] = 0
        self.project_in_dim = nn.Linear(input_dim, layer.dim, bias=False) if input_dim != layer.dim else None
        self.embed_positions = POSITIONS[positions](layer.positions, layer.dim, cfg.pad)
        self.embed_scale = math.sqrt(layer.dim) if cfg.scale_embeddings else 1.0
        self.dropout = Dropout(layer.dropout)
        self.layer_norm = NORMS[layer.norm](layer.dim)

    def packed(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """``B x T -> B x T'``: every sentence from the first position on; and by how much it moved, B."""
        padding = tokens.eq(self.pad)
        shift = padding.long().cumprod(1).sum(1)
        longest = int((~padding).sum(1).max())  # a batch may be padded beyond the model's positions
        return to_left(tokens, shift, max(self.limit, longest)), shift

    def check_positions(self, positions: int) -> None:
        """Refuse a sentence with more positions than the model has.

        Raises:
            ValueError: so it is
        """
        if positions > self.limit:
            raise ValueError(f"a sentence of {positions} positions, but the model has {self.limit}: split it")

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """``B x T -> T x B x C``, of positions from ``start`` on.

        Raises:
            ValueError: more positions than the mixing has
        """
        end = start + tokens.size(1)
        self.check_positions(end)
        x = self.embed_scale * self.embed_tokens(tokens.t())
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if self.embed_positions is not None:
            x = x + self.embed_positions.rows(start, end).unsqueeze(1)
        return self.dropout(x)


class Encoder(Stack):
    """Embeddings, encoder layers, one last norm."""

    def __init__(self, cfg: ModelConfig):
        super().__init__(cfg.source_symbols, cfg.encoder.dim, cfg.encoder_positions, cfg.encoder, cfg)
        self.layers: Any = nn.ModuleList(EncoderLayer(cfg.encoder) for _ in range(cfg.encoder_layers))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Encode a batch, padded on either side.

        Args:
            tokens: B x S

        Returns:
            the encoding, S' x B x C, each sentence from the first position on; where it is padding, B x S'
        """
        return self.encode(self.packed(tokens)[0])

    def encode(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """``forward`` for sentences that begin at the first position."""
        padding = tokens.eq(self.pad)
        x = self.embed(tokens).masked_fill(padding.t().unsqueeze(-1), 0.0)
        for layer in self.layers:
            x = layer(x, padding.t())
        return self.layer_norm(x), padding


class Decoder(Stack):
    """Embeddings, decoder layers, one last norm, output projection."""

    def __init__(self, cfg: ModelConfig):
        super().__init__(cfg.target_symbols, cfg.decoder_input_dim, cfg.decoder_positions, cfg.decoder, cfg)
        self.layers: Any = nn.ModuleList(DecoderLayer(cfg.decoder) for _ in range(cfg.decoder_layers))
        out = cfg.decoder_output_dim
        self.project_out_dim = nn.Linear(cfg.decoder.dim, out, bias=False) if out != cfg.decoder.dim else None
        if cfg.adaptive_cutoffs:
            self.adaptive_softmax = nn.AdaptiveLogSoftmaxWithLoss(
                out, cfg.target_symbols, list(cfg.adaptive_cutoffs), cfg.adaptive_factor
            )
        else:
            self.output_projection = nn.Linear(out, cfg.target_symbols, bias=False)
            nn.init.normal_(self.output_projection.weight, std=out**-0.5)

    def start(self, memory: Tensor, padding: Tensor, candidates: Tensor | None = None) -> State:
        """The state before the first step.

        Args:
            memory, padding: the encoder's, S x B x C and B x S
            candidates: for each sentence the target tokens that are scored, B x L, padded; None: all. (A model with an
                adaptive softmax scores all.)
        """
        sources = [layer.source(memory, padding) for layer in self.layers]
        some = None
        if candidates is not None:
            some = among(candidates, self.output_projection.weight, self.pad, memory.dtype)
        return State(sources, [[] for _ in self.layers], 0, some)

    def forward(self, tokens: Tensor, state: State, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """All positions at once.

        Args:
            tokens: BK x T, what is before each position: ``</s>`` first; padded on either side
            state: that before the first step
            need_weights: also return the last layer's cross-attention

        Returns:
            scores, BK x T x V, whose softmax are the probabilities; the cross-attention of each head,
            H x BK x T x S, or None. (Its T is without left padding.)
        """
        length, weights = tokens.size(1), None
        tokens, shift = self.packed(tokens)
        x = self.embed(tokens)
        for layer, source in zip(self.layers, state.sources, strict=True):
            x, weights, _ = layer(x, source, None, need_weights)
        return back(self.scores(x), shift, length), weights

    def step(self, tokens: Tensor, state: State, need_weights: bool = False) -> tuple[Tensor, Tensor | None, State]:
        """The positions that follow those of the steps before.

        Args:
            tokens: BK x T, as ``forward`` has them, without padding; the K rows of a sentence one after another
            state: what the step before gave
            need_weights: also return the last layer's cross-attention

        Returns:
            scores BK x T x V, or BK x T x L of the state's candidates; the cross-attention H x BK x T x S, or None; the
            state for the next step
        """
        x, weights, pasts = self.embed(tokens, state.length), None, []
        for layer, source, past in zip(self.layers, state.sources, state.pasts, strict=True):
            x, weights, longer = layer(x, source, past, need_weights)
            pasts.append(longer)
        state = State(state.sources, pasts, state.length + tokens.size(1), state.among)
        return self.scores(x, state.among), weights, state

    def step_over(
        self,
        tokens: Tensor,
        start: int,
        sources: list[Source | None],
        keep: Callable[[int, Tensor], Tensor],
        need_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor | None]]:
        """``step`` where the caller keeps the past, and may change the places of its rows.

        Args:
            tokens: BK x T, without padding in front
            start: positions so far
            sources: as those of a ``State``
            keep: takes a layer's number and what its mixing keeps of the new positions (``Mixing.step_over``;
                without a mixing, the layer's input), S x BK x C, and gives that of all so far
            need_weights: also return the cross-attention

        Returns:
            scores BK x T x V; the cross-attention of each layer, H x BK x T x S, or None
        """
        x, weights = self.embed(tokens, start), []
        for number, (layer, source) in enumerate(zip(self.layers, sources, strict=True)):
            x, attention = layer.step_over(x, source, partial(keep, number), need_weights)
            weights.append(attention)
        return self.scores(x), weights

    def scores(self, x: Tensor, some: Among | None = None) -> Tensor:
        """``T x BK x C -> BK x T x V``, or BK x T x L of the tokens that ``some`` has for each sentence."""
        x = self.layer_norm(x).transpose(0, 1)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        if some is not None:
            return some.scores(x)
        if hasattr(self, "adaptive_softmax"):
            return self.adaptive_softmax.log_prob(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return self.output_projection(x)

    def reorder(self, state: State, rows: Tensor, sentences: Tensor | None = None) -> State:
        """Give each beam the state of the beam that it continues.

        Args:
            rows: B'K, indexes the BK rows
            sentences: B', indexes the B sentences; None: they are the same in the same order
        """
        pasts = [
            past if layer.mixing is None else layer.mixing.mixing.reorder(past, rows)
            for layer, past in zip(self.layers, state.pasts, strict=True)
        ]
        sources, some = state.sources, state.among
        if sentences is not None:
            some = None if some is None else some.reorder(sentences)
            sources = [
                None if source is None else layer.cross_attention.attention.reorder(source, sentences)
                for layer, source in zip(self.layers, sources, strict=True)
            ]
        return State(sources, pasts, state.length, some)


def tied(cfg: ModelConfig) -> dict[str, str]:
    """Names of parameters that are another one, and of that."""
    first, target = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
    owner = first if cfg.share_all_embeddings else target
    names = [target] if cfg.share_all_embeddings else []
    if (cfg.share_all_embeddings or cfg.share_output_embeddings) and not cfg.adaptive_cutoffs:
        names.append("decoder.output_projection.weight")
    return dict.fromkeys(names, owner)


class EncoderDecoder(nn.Module):
    """A ResMLP encoder-decoder (Touvron et al. 2021, "Sequence-to-sequence ResMLP")."""

    def __init__(self, cfg: ModelConfig):
        super().__init__()
        self.cfg = cfg
        self.encoder, self.decoder = Encoder(cfg), Decoder(cfg)
        self.tie_weights()

    def tie_weights(self) -> None:
        """Make one parameter of those that are shared."""
        for name, owner in tied(self.cfg).items():
            self.get_submodule(name.rpartition(".")[0]).weight = self.get_parameter(owner)

    def fold_(self) -> None:
        """Fold every branch for inference, in place: the same scores with fewer operations."""
        for module in self.modules():
            if isinstance(module, ResidualBranch):
                module.fold_()

    def forward(self, source: Tensor, previous: Tensor) -> Tensor:
        """``B x S, B x T -> B x T x V``: scores of what follows each of the previous tokens, all at once.

        Args:
            source: tokens, each sentence with ``</s>`` at its end, padded on either side
            previous: target tokens, ``</s>`` first, padded on either side

        Raises:
            ValueError: a sentence has more positions than the model
        """
        scores, _ = self.decoder(previous, self.decoder.start(*self.encoder(source)))
        return scores
