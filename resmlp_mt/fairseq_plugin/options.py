"""The model's options on fairseq's command line: its Transformer's, and those of ``LayerConfig``."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import MATMULS
from resmlp_mt.fairseq_plugin.presets import BASE, FOLLOWS
from resmlp_mt.nn import LayerConfig, ModelConfig
from resmlp_mt.nn.config import OPTIONS, PROBABILITY, problem
from resmlp_mt.translate.options import PRECISIONS

MEANINGLESS = {
    # positional embeddings: off unless --token-positional-embeddings, as A knows the positions
    "no_token_positional_embeddings",
    # LayerNorm: --norm says whether and where there is any
    *("normalize_before", "layernorm_embedding", "no_decoder_final_norm", "export"),
    # self-attention: there is none
    *("cross_self_attention", "xformers_att_config"),
    # adaptive input embeddings: fairseq's translation Transformer has none either
    *("adaptive_input", "tie_adaptive_weights", "tie_adaptive_proj"),
    # for loading a trained model with fewer layers: fairseq reads them from --model-overrides only
    "layers_to_keep",
    # kept by fairseq for checkpoints older than this model, or for models that are not this one
    *("base_layers", "base_sublayers", "base_shuffle", "char_inputs", "relu_dropout"),
}
"""Options of fairseq's Transformer that this model does not have."""


class _WithoutMeaningless:
    """Keeps options that this model does not have out of its command line."""

    def _get_all_attributes(self) -> list[str]:
        return [each.name for each in fields(self) if each.name not in MEANINGLESS]  # type: ignore[arg-type]


@dataclass
class EncoderOptions(_WithoutMeaningless, EncDecBaseConfig):
    """``--encoder-...``; no heads: attention is the decoder's."""

    def _get_all_attributes(self) -> list[str]:
        return [name for name in super()._get_all_attributes() if name != "attention_heads"]


@dataclass
class DecoderOptions(_WithoutMeaningless, DecoderConfig):
    """``--decoder-...``"""


def _of_layers(name: str) -> tuple[str, Any, Any]:
    """A field of ``LayerConfig`` as fairseq reads it: name, type, field."""
    each = OPTIONS[name]
    about = each.metadata
    kind = ChoiceEnum(list(about["choices"])) if "choices" in about else each.type
    kinds = f"{' and '.join(about['mixings'])} mixing: " if "mixings" in about else ""
    return name, kind, field(default=each.default, metadata={"help": kinds + about["help"]})


LayerOptions: Any = make_dataclass("LayerOptions", map(_of_layers, OPTIONS))


@dataclass
class ResMLPTransformerConfig(_WithoutMeaningless, LayerOptions, TransformerConfig):
    """The options of fairseq's Transformer that keep their meaning, and those of ResMLP and its variants."""

    encoder: EncoderOptions = field(default_factory=EncoderOptions)
    decoder: DecoderOptions = field(default_factory=DecoderOptions)
    no_token_positional_embeddings: bool = True
    max_source_positions: int = field(
        default=BASE["max_source_positions"],
        metadata={"help": "size of A in the encoder: the longest source, in subwords and </s>"},
    )
    max_target_positions: int = field(
        default=BASE["max_target_positions"],
        metadata={"help": "size of A in the decoder: the longest target, in subwords and </s>"},
    )
    token_positional_embeddings: bool = field(
        default=BASE["token_positional_embeddings"],
        metadata={
            "help": "add positional embeddings to the tokens': sinusoidal, or learned with --encoder-learned-pos and "
            "--decoder-learned-pos"
        },
    )
    inference_precision: ChoiceEnum(PRECISIONS) = field(  # type: ignore[valid-type]
        default="fp32",
        metadata={
            "help": "precision of generation, not of training: fp32, bf16, or int8 (weights of linear layers; CPU); "
            "best given to generation by --model-overrides"
        },
    )
    cpu_matmul: ChoiceEnum(MATMULS) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "help": "which library multiplies fp32 matrices on a CPU, in training and generation: blas (PyTorch's own "
            "choice), onednn (faster on some processors; in bfloat16 where they have AMX), or auto: onednn on AMD's, "
            "where it is exact"
        },
    )

    def _get_type(self, attribute_name: str) -> Any:
        """fairseq's hook; choices are those at the time: ``register_mixing`` adds to those of token mixing."""
        choices = OPTIONS[attribute_name].metadata.get("choices") if attribute_name in OPTIONS else None
        return ChoiceEnum(list(choices)) if choices else super()._get_type(attribute_name)


def layer_config(cfg: TransformerConfig, causal: bool) -> LayerConfig:
    """The layers of one side: the decoder's, which are causal, or the encoder's."""
    side = cfg.decoder if causal else cfg.encoder
    options: dict[str, Any] = {  # fairseq's choices are enumerations
        each.name: str(getattr(cfg, name)) if each.type is str else getattr(cfg, name) for name, each in OPTIONS.items()
    }
    return LayerConfig(
        dim=side.embed_dim,
        hidden_dim=side.ffn_embed_dim,
        positions=cfg.max_target_positions if causal else cfg.max_source_positions,
        causal=causal,
        source_dim=cfg.encoder.embed_dim if causal and not cfg.no_cross_attention else 0,
        attention_heads=cfg.decoder.attention_heads,
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.activation_dropout,
        **options,
    )


def model_config(cfg: TransformerConfig, source_symbols: int, target_symbols: int) -> ModelConfig:
    """The sizes and kinds of a model of these options, for dictionaries of so many entries."""

    def positions(side: EncDecBaseConfig) -> str:
        if cfg.no_token_positional_embeddings:
            return "none"
        return "learned" if side.learned_pos else "sinusoidal"

    return ModelConfig(
        source_symbols=source_symbols,
        target_symbols=target_symbols,
        encoder=layer_config(cfg, causal=False),
        decoder=layer_config(cfg, causal=True),
        encoder_layers=cfg.encoder.layers,
        decoder_layers=cfg.decoder.layers,
        decoder_input_dim=cfg.decoder.embed_dim,  # as fairseq builds the embeddings
        decoder_output_dim=cfg.decoder.output_dim,
        pad=1,
        scale_embeddings=not cfg.no_scale_embedding,
        share_all_embeddings=cfg.share_all_embeddings,
        share_output_embeddings=cfg.share_decoder_input_output_embed,
        encoder_positions=positions(cfg.encoder),
        decoder_positions=positions(cfg.decoder),
        adaptive_cutoffs=tuple(cfg.adaptive_softmax_cutoff or ()),
        adaptive_factor=cfg.adaptive_softmax_factor,
    )


def check_options(args: Any, target_symbols: int) -> None:
    """Refuse options that do not go together or that no model can have; --model-overrides may say anything.

    Args:
        args: the options, preset applied
        target_symbols: entries of the target dictionary
    """

    def require(condition: bool, message: str) -> None:
        if not condition:
            raise UserError(message)

    wrong = problem({name: getattr(args, name) for name in OPTIONS})
    require(wrong is None, str(wrong))
    for option, usual in {**BASE, **dict.fromkeys(FOLLOWS, BASE["encoder_embed_dim"])}.items():
        value = getattr(args, option)
        fits = isinstance(value, int | float) if isinstance(usual, float) else isinstance(value, type(usual))
        require(fits, f"--{option.replace('_', '-')} is {value!r}: give something like {usual!r}")
    sizes = [f"{side}_{size}" for side in ("encoder", "decoder") for size in ("embed_dim", "ffn_embed_dim", "layers")]
    for name, least in {**dict.fromkeys(sizes, 1), "max_source_positions": 2, "max_target_positions": 2}.items():
        value = getattr(args, name)
        require(value >= least, f"--{name.replace('_', '-')} is {value}: give {least} or more")
    for name in "dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop":
        value = getattr(args, name, None) or 0.0
        require(PROBABILITY["fits"](value), f"--{name.replace('_', '-')} is {value}: give {PROBABILITY['expected']}")
    for name, choices in ("inference_precision", PRECISIONS), ("cpu_matmul", MATMULS):
        value = getattr(args, name, None) or choices[0]
        require(value in choices, f"--{name.replace('_', '-')} {value}: give one of {', '.join(choices)}")
    for side in "encoder", "decoder":
        dim, heads = getattr(args, f"{side}_embed_dim"), args.mixing_heads
        require(dim % heads == 0, f"--{side}-embed-dim {dim} is not a multiple of --mixing-heads {heads}")
        idle = getattr(args, f"{side}_learned_pos", False) and not args.token_positional_embeddings
        require(not idle, f"--{side}-learned-pos needs --token-positional-embeddings")
    dim, heads = args.decoder_embed_dim, args.decoder_attention_heads
    fits = heads >= 1 and dim % heads == 0
    require(fits, f"--decoder-embed-dim {dim} is not a multiple of --decoder-attention-heads {heads}")
    if getattr(args, "share_all_embeddings", False) or getattr(args, "share_decoder_input_output_embed", False):
        out = args.decoder_output_dim
        require(out == dim, f"shared embeddings need --decoder-output-dim {out} to equal --decoder-embed-dim {dim}")
    _check_adaptive_softmax(args, target_symbols, require)
    _check_memory(args, require)


def _check_adaptive_softmax(args: Any, target_symbols: int, require: Callable[[bool, str], None]) -> None:
    cutoff = getattr(args, "adaptive_softmax_cutoff", None)
    if cutoff is None:
        return
    # a list, unless a checkpoint or --model-overrides gives a string, which fairseq would run as Python
    whole = isinstance(cutoff, list) and bool(cutoff) and all(type(each) is int for each in cutoff)
    require(whole, f"--adaptive-softmax-cutoff is {cutoff!r}: give whole numbers")
    rises = cutoff == sorted(set(cutoff)) and cutoff[0] > 0 and cutoff[-1] < target_symbols
    require(
        rises, f"--adaptive-softmax-cutoff {cutoff} must rise and end below {target_symbols}, the target dictionary"
    )
    criterion = getattr(args, "criterion", "adaptive_loss")
    require(criterion == "adaptive_loss", f"--adaptive-softmax-cutoff needs --criterion adaptive_loss, not {criterion}")


def _check_memory(args: Any, require: Callable[[bool, str], None]) -> None:
    """Refuse more positions than this machine can hold the mixings of: their memory grows with the square."""
    of_a = {"linear": args.mixing_heads, "gated": args.mixing_heads, "mlp": 2 * args.mixing_expansion}
    matrices = of_a.get(args.token_mixing, 0)
    needs = {
        "source": args.encoder_layers * matrices * args.max_source_positions**2 * 4,  # bytes
        "target": args.decoder_layers * matrices * args.max_target_positions**2 * 4,
    }
    side = max(needs, key=lambda side: needs[side])
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    require(
        2 * sum(needs.values()) <= has,  # a training has gradients beside them, generation what it loads them from
        f"--max-{side}-positions {getattr(args, f'max_{side}_positions')}: the token mixing of its layers needs "
        f"{needs[side] / 1e9:,.1f} GB, and as much for its gradients; this machine has {has / 1e9:,.1f} GB: lower it",
    )
