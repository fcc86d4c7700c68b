"""The options of a model: a field each, with range and help, from which command lines and checks are made."""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any

from .activation import ACTIVATIONS
from .mixing_kinds import TOKEN_MIXINGS
from .norm import NORMS

LARGEST = 1 << 28
"""No number of a configuration comes near."""
OF_A = "linear", "gated"


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of ``LayerConfig`` that a user sets.

    Args:
        more: ``name``, on the command line, if that is another one; ``choices``; ``fits``, whether a value is possible,
            and ``expected``, which ones are, in words; ``mixings``: the kinds of mixing that it is for
    """
    return field(default=default, metadata={"help": help, **more})


def at_least(least: int) -> dict[str, Any]:
    """The range from a number on."""
    return {"fits": lambda value: value >= least, "expected": f"{least} or more"}


PROBABILITY: dict[str, Any] = {"fits": lambda value: 0 <= value < 1, "expected": "a number from 0 to below 1"}


@dataclass(frozen=True)
class LayerConfig:
    """The sizes and kinds of a layer.

    Attributes:
        dim: channels C
        hidden_dim: channels between W1 and W2, 4 C in the paper
        positions: N, of the mixing's matrices
        causal: no position reads a later one; for a decoder
        source_dim: channels C' of the encoder, for a decoder; 0: no cross-attention
        attention_heads: of the cross-attention
        dropout, attention_dropout, activation_dropout: probabilities
    """

    dim: int
    hidden_dim: int
    positions: int
    causal: bool = False
    source_dim: int = 0
    attention_heads: int = 1
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    layerscale_init: float = option(
        0.2,
        "start of the scale that ends each residual branch (the paper's translation models: 0.2)",
        fits=lambda value: abs(value) < LARGEST,
        expected="a finite number",
    )
    norm: str = option(
        "affine", "what stands before each branch and at the end of each stack (the paper: affine)", choices=NORMS
    )
    activation: str = option(
        "gelu",
        "activation between the linear layers of a channel MLP",
        name="activation_fn",
        choices=ACTIVATIONS,
    )
    token_mixing: str = option(
        "linear",
        "what stands where a Transformer has self-attention, over positions: a linear layer (the paper), gated (the "
        "same between two projections, times a gate of each position), none (a bag of words), mlp (MLP-Mixer's: two "
        "linear layers), or a convolution, conv (of all channels), depthwise or separable (depthwise, then a linear "
        "layer over channels)",
        choices=TOKEN_MIXINGS,
    )
    mixing_heads: int = option(
        1, "groups of channels, each with an A of its own (the paper: 1)", mixings=OF_A, **at_least(1)
    )
    mixing_relative: bool = option(False, "add to A a learned term that depends on the distance alone", mixings=OF_A)
    mixing_dropout: float = option(
        0.0,
        "probability that an entry of A, or a band's weight, is left out in a training step",
        mixings=OF_A,
        **PROBABILITY,
    )
    mixing_band: int = option(
        0,
        "beside A each position reads so many positions before it, in the encoder also behind it, by weights that it "
        "predicts from its own content; 0: none",
        mixings=("gated",),
        **at_least(0),
    )
    mixing_expansion: int = option(4, "hidden units for each position of the mlp mixing", **at_least(1))
    mixing_kernel: int = option(
        3,
        "positions that an output of a convolution reads; in the decoder none is later",
        fits=lambda value: value >= 1 and value % 2 == 1,
        expected="an odd number from 1",
    )


OPTIONS: dict[str, Field] = {
    each.metadata.get("name", each.name): each for each in fields(LayerConfig) if "help" in each.metadata
}
"""The fields of ``LayerConfig`` that a user sets, by their names on the command line."""


def problem(values: dict[str, Any]) -> str | None:
    """What is wrong with options, by their names on the command line: one of them, its value and what to give."""
    mixing = values["token_mixing"]
    for name, each in OPTIONS.items():
        value, about, spelled = values[name], each.metadata, f"--{name.replace('_', '-')}"
        numbers = (int, float) if each.type is float else each.type
        fits: Callable[[Any], bool] = about.get("fits", lambda _: True)
        if not isinstance(value, numbers) or (isinstance(value, bool) and each.type is not bool):  # type: ignore
            return f"{spelled} is {value!r}: give something like {each.default!r}"
        if "choices" in about and value not in about["choices"]:
            own = ", or the --user-dir that registers it" if name == "token_mixing" else ""
            return f"{spelled} {value}: give one of {', '.join(about['choices'])}{own}"
        if not fits(value):
            return f"{spelled} is {value}: give {about['expected']}"
    for name, each in OPTIONS.items():
        value, kinds = values[name], each.metadata.get("mixings", ())
        if kinds and value != each.default and mixing not in kinds and mixing in BUILT_IN:
            given = f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
            return f"{given} is for --token-mixing {' or '.join(kinds)}, not {mixing}"
    return None


BUILT_IN = frozenset(TOKEN_MIXINGS)


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

    @property
    def shared(self) -> dict[str, str]:
        """Names of parameters that are another one, and of that."""
        first, target = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
        owner = first if self.share_all_embeddings else target
        names = [target] if self.share_all_embeddings else []
        if (self.share_all_embeddings or self.share_output_embeddings) and not self.adaptive_cutoffs:
            names.append("decoder.output_projection.weight")
        return dict.fromkeys(names, owner)


def _made(kind: Any, value: Any) -> Any:
    """What a field of a type ``kind`` is to hold, a dataclass of its own perhaps."""
    if is_dataclass(kind):
        known = {each.name: each for each in fields(kind)}
        needed = {name for name, each in known.items() if each.default is MISSING}
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
