"""The options of a model: a field for each, with its range and help. Command lines and checks are made from them."""

from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, get_origin

from .affine import NORMS
from .elementwise import ACTIVATIONS
from .mixing_kinds import TOKEN_MIXINGS

LARGEST = 1 << 28  # all numbers of a configuration must be smaller
WIDEST = 31  # the kernel width at which DynamicConv's layers stop growing (Wu et al. 2019, section 5)
OF_A = "linear", "gated"
OF_HEADS = *OF_A, "ema", "dynamic", "synthesizer", "attention"
BUILT_IN = frozenset(TOKEN_MIXINGS)
PROBABILITY: dict[str, Any] = {"fits": lambda value: 0 <= value < 1, "expected": "a number from 0 to below 1"}
FROM_1: dict[str, Any] = {"fits": lambda value: value >= 1, "expected": "1 or more"}
FROM_0: dict[str, Any] = {"fits": lambda value: value >= 0, "expected": "0 or more"}


def option(default: Any, help: str, **more: Any) -> Any:
    """Return a field that users can set; ``name`` is its name on the command line, if that differs.

    Values come from ``choices``; or ``fits`` tests a value and ``expected`` describes the possible ones in words.
    ``mixings`` are the kinds of mixing that use the option; ``names`` are the choices for a comma-separated list.
    """
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True)
class LayerConfig:
    """The sizes and kinds of a layer."""

    dim: int  # channels C
    hidden_dim: int  # channels between W1 and W2, 4 C in the paper
    positions: int  # N, the size of the mixing's matrices
    causal: bool = False  # for a decoder: no position reads a later one
    source_dim: int = 0  # for a decoder: channels C' of the encoder; 0: no cross-attention
    attention_heads: int = 1  # of the cross-attention
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    layerscale_init: float = option(
        0.2,
        "initial scale at the end of each residual branch (the paper's translation models: 0.2)",
        fits=lambda value: True,
        expected="a finite number",
    )
    norm: str = option("affine", "norm before each branch and at each stack's end (the paper: affine)", choices=NORMS)
    activation: str = option(
        "gelu", "activation between the linear layers of a channel MLP", name="activation_fn", choices=ACTIVATIONS
    )
    token_mixing: str = option(
        "linear",
        "what replaces self-attention: linear (a linear layer over positions: the paper), gated (the same between two "
        "projections, times a gate that each position computes), ema (gated, with an A of moving averages with learned "
        "decays), dynamic (DynamicConv: each position predicts softmax weights for the positions around it), "
        "ssru (a recurrence whose forget gate depends on the input; in the encoder in both directions), "
        "synthesizer (a softmax of a learned matrix plus rows that each position predicts), "
        "attention (a Transformer's self-attention), none (a bag of words), mlp (MLP-Mixer's: two linear layers), or a "
        "convolution, conv (of all channels), depthwise or separable (depthwise, then a linear layer over channels)",
        choices=TOKEN_MIXINGS,
    )
    mixing_of_encoder_layers: str = option(
        "",
        "values of --token-mixing separated by commas, one for each layer of the encoder, such as "
        "gated,gated,attention; or one for all layers. They replace --token-mixing",
        names=TOKEN_MIXINGS,
    )
    mixing_of_decoder_layers: str = option("", "the same for the decoder", names=TOKEN_MIXINGS)
    mixing_heads: int = option(1, "groups of channels, each with its own A (the paper: 1)", mixings=OF_HEADS, **FROM_1)
    mixing_relative: bool = option(False, "add to A a learned term for each distance between positions", mixings=OF_A)
    mixing_dropout: float = option(
        0.0, "dropout of the weights of A, of a band and of the attention mixing", mixings=OF_HEADS, **PROBABILITY
    )
    mixing_band: int = option(
        0,
        "besides A, each position reads this many positions before it (in the encoder also after it) with weights that "
        "it predicts from its own content; 0: none",
        mixings=("gated", "ema"),
        **FROM_0,
    )
    mixing_expansion: int = option(
        4,
        "hidden units for each position (mlp), moving averages for each head (ema)",
        mixings=("ema", "mlp"),
        **FROM_1,
    )
    mixing_kernel: int = option(
        3,
        "width of a convolution in positions (in the decoder no later ones); for dynamic the width of the first layer: "
        "each following layer has twice the width plus one, at most 31",
        mixings=("dynamic", "conv", "depthwise", "separable"),
        fits=lambda value: value >= 1 and value % 2 == 1,
        expected="an odd number from 1",
    )

    def of_layer(self, number: int) -> "LayerConfig":
        """Return the config of a layer of the stack, from 0: DynamicConv's kernels are 3, 7, 15, 31, 31, ... wide."""
        kinds = (self.mixing_of_decoder_layers if self.causal else self.mixing_of_encoder_layers).split(",")
        kind = kinds[number % len(kinds)] or self.token_mixing
        widened = min((self.mixing_kernel + 1) * 2**number - 1, max(WIDEST, self.mixing_kernel))
        return replace(self, token_mixing=kind, mixing_kernel=widened if kind == "dynamic" else self.mixing_kernel)


# The fields that a user sets, by their names on the command line.
OPTIONS: dict[str, Field] = {
    each.metadata.get("name", each.name): each for each in fields(LayerConfig) if "help" in each.metadata
}


def expected(each: Field, value: Any) -> str | None:
    """Describe the possible values of a field, or return None if ``value`` is one of them."""
    about: Any = FROM_0 | each.metadata
    kind: Any = get_origin(each.type) or each.type
    kinds = (int, float) if kind is float else kind
    if not isinstance(value, kinds) or isinstance(value, bool) != (kind is bool):  # bool is a subclass of int
        return f"something like {each.default!r}"
    if "choices" in about and value not in about["choices"]:
        return f"one of {', '.join(about['choices'])}"
    if "names" in about and value and not set(str(value).split(",")) <= set(about["names"]):
        return f"names with commas between, each one of {', '.join(about['names'])}"
    if isinstance(value, int | float) and not (about["fits"](value) and abs(value) < LARGEST):
        return about["expected"]
    return None


def problem(values: dict[str, Any], options: dict[str, Field]) -> str | None:
    """Return a message about the first wrong option in ``values`` (by command-line name), or None if all are right."""
    for name, each in options.items():
        if wanted := expected(each, values[name]):
            own = ", or the --user-dir that registers it" if TOKEN_MIXINGS in each.metadata.values() else ""
            return f"{spelled(name)} is {values[name]!r}: give {wanted}{own}"
    mixings: list[str] = []
    for side in "encoder", "decoder":
        listed, layers = values[f"mixing_of_{side}_layers"].split(","), values[f"{side}_layers"]
        mixings += [each or values["token_mixing"] for each in listed]
        if len(listed) not in (1, layers):
            one = f"give {layers}, as --{side}-layers says, or one for all"
            return f"--mixing-of-{side}-layers {','.join(listed)} is for {len(listed)} layers: {one}"
    if not BUILT_IN.issuperset(mixings):
        return None  # a mixing of the user's own may use any option
    for name, each in options.items():
        value, kinds = values[name], each.metadata.get("mixings", mixings)
        if value != each.default and not set(kinds) & set(mixings):
            given = spelled(name) if value is True else f"{spelled(name)} {value}"
            others = f"not {', '.join(dict.fromkeys(mixings))}: give another --arch or mixing"
            return f"{given} is for --token-mixing {' or '.join(kinds)}, {others}"
    return None


def spelled(name: str) -> str:
    """Return an option as it is written on the command line."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class ModelConfig:
    """The sizes and kinds of an encoder-decoder."""

    source_symbols: int  # entries of the dictionary
    target_symbols: int
    encoder: LayerConfig
    decoder: LayerConfig
    encoder_layers: int
    decoder_layers: int
    decoder_input_dim: int  # channels of the target embeddings
    decoder_output_dim: int  # channels before the output projection
    pad: int = 1  # the number of padding in both dictionaries
    scale_embeddings: bool = True  # by the square root of the channels (Vaswani et al. 2017, section 3.4)
    share_all_embeddings: bool = False  # of source, target and output
    share_output_embeddings: bool = False  # of target and output
    encoder_positions: str = "none"  # positional embeddings, added to those of tokens: none, sinusoidal, learned
    decoder_positions: str = "none"
    adaptive_cutoffs: tuple[int, ...] = ()  # of an adaptive softmax (Grave et al. 2017); (): an ordinary softmax
    adaptive_factor: float = 4.0  # each of its clusters has this many times fewer channels than the one before

    @classmethod
    def of(cls, values: Any) -> "ModelConfig":
        """Rebuild a configuration from its ``dataclasses.asdict``, also after JSON; ``ValueError`` if it is none."""
        try:
            sides = {name: LayerConfig(**values[name]) for name in ("encoder", "decoder")}
            made = cls(**{**values, **sides, "adaptive_cutoffs": tuple(map(int, values.get("adaptive_cutoffs", ())))})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the sizes of a model: {error!s:.80}") from error
        for part in made, made.encoder, made.decoder:
            for each in fields(part):
                if expected(each, getattr(part, each.name)):
                    raise ValueError(f"{each.name} is {getattr(part, each.name)!r:.80}")
        return made

    @property
    def shared(self) -> dict[str, str]:
        """Map the name of each parameter that is the same as another one to the name of that one."""
        first, target = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
        owner = first if self.share_all_embeddings else target
        names = [target] if self.share_all_embeddings else []
        if (self.share_all_embeddings or self.share_output_embeddings) and not self.adaptive_cutoffs:
            names.append("decoder.output_projection.weight")
        return dict.fromkeys(names, owner)
