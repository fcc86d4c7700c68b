"""The model's options: a field for each. fairseq's command line, the checks and the presets are made from them."""

import os
from collections import Counter
from dataclasses import Field, dataclass, field, fields, make_dataclass, replace
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import MATMULS
from resmlp_mt.nn import LayerConfig, ModelConfig
from resmlp_mt.nn.config import BUILT_IN, OPTIONS, PROBABILITY, option, problem, spelled
from resmlp_mt.nn.mixing_kinds import TOKEN_MIXINGS
from resmlp_mt.translate.options import PRECISIONS

MOST = 1 << 16  # far above all sensible sizes
SIZE: dict[str, Any] = {"fits": lambda value: 1 <= value <= MOST, "expected": f"1 to {MOST:,}"}
POSITIONS: dict[str, Any] = {"fits": lambda value: 2 <= value <= MOST, "expected": f"2 to {MOST:,}"}


@dataclass
class ModelOptions:
    """Options that ``LayerConfig`` does not have; those without a help text are fairseq's, which has one.

    The defaults are the sizes of a Transformer base (Touvron et al. 2021, section 3.6). Sentences of cleaned corpora
    have at most 250 subwords. An option that ``follows`` another one takes its value unless it is set.
    """

    encoder_embed_dim: int = option(512, "", **SIZE)
    encoder_ffn_embed_dim: int = option(2048, "", **SIZE)
    encoder_layers: int = option(6, "", **SIZE)
    decoder_embed_dim: int = option(512, "", follows="encoder_embed_dim", **SIZE)
    decoder_ffn_embed_dim: int = option(2048, "", follows="encoder_ffn_embed_dim", **SIZE)
    decoder_output_dim: int = option(512, "", follows="decoder_embed_dim", **SIZE)
    decoder_layers: int = option(6, "", **SIZE)
    decoder_attention_heads: int = option(8, "", **SIZE)
    dropout: float = option(0.1, "", **PROBABILITY)
    attention_dropout: float = option(0.0, "", **PROBABILITY)
    activation_dropout: float = option(0.0, "", **PROBABILITY)
    encoder_layerdrop: float = option(0.0, "", **PROBABILITY)
    decoder_layerdrop: float = option(0.0, "", **PROBABILITY)
    max_source_positions: int = option(256, "size of the encoder's A: the longest source with </s>", **POSITIONS)
    max_target_positions: int = option(256, "size of the decoder's A: the longest target with </s>", **POSITIONS)
    token_positional_embeddings: bool = option(
        False,
        "add positional embeddings to token embeddings: sinusoidal, or learned with --encoder-learned-pos and "
        "--decoder-learned-pos",
    )
    inference_precision: str = option(
        "fp32",
        "precision of generation, not of training: fp32, or on a CPU bf16 or int8 (weights of linear layers). Give it "
        "to fairseq-generate in --model-overrides",
        choices=PRECISIONS,
    )
    cpu_matmul: str = option(
        "auto",
        "library that multiplies fp32 matrices on a CPU, in training and generation: blas (PyTorch's default), onednn "
        "(needs AVX-512; faster on some processors; with AMX it computes in bfloat16), or auto (onednn on AMD "
        "processors where it is exact)",
        choices=MATMULS,
    )


ALL: dict[str, Field] = {**{each.name: each for each in fields(ModelOptions)}, **OPTIONS}
BASE: dict[str, Any] = {name: each.default for name, each in ALL.items() if "follows" not in each.metadata}

TWELVE_LAYERS = {"encoder_layers": 12, "decoder_layers": 12}
GATED = {"mixing_band": 3, "mixing_dropout": 0.1, "mixing_relative": True, "token_mixing": "gated"}
"""Beyond the paper; presets choose the heads so that there are about as many parameters as in a Transformer."""
GATED_WMT = {**GATED, "mixing_heads": 8}
WMT_EN_DE = {"dropout": 0.15}
MULTI30K = {
    "dropout": 0.2,
    "encoder_embed_dim": 256,
    "encoder_ffn_embed_dim": 512,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "decoder_attention_heads": 4,
    "max_source_positions": 128,
    "max_target_positions": 128,
}
SHORT = {"max_source_positions": 64, "max_target_positions": 64}

PRESETS: dict[str, dict[str, Any]] = {
    "resmlp_transformer": {},
    "resmlp_transformer_wmt_en_de": WMT_EN_DE,
    "resmlp_transformer_wmt_en_fr": {},
    "resmlp_transformer_12_wmt_en_de": {**WMT_EN_DE, **TWELVE_LAYERS},
    "resmlp_transformer_12_wmt_en_fr": TWELVE_LAYERS,
    "resmlp_transformer_gated_wmt_en_de": {**WMT_EN_DE, **GATED_WMT},
    "resmlp_transformer_gated_wmt_en_fr": GATED_WMT,
    "resmlp_transformer_gated_12_wmt_en_de": {**WMT_EN_DE, **GATED_WMT, **TWELVE_LAYERS},
    "resmlp_transformer_gated_12_wmt_en_fr": {**GATED_WMT, **TWELVE_LAYERS},
    # Tolstikhin et al. 2021 have no LayerScale: the Aff that ends a branch starts as the identity
    "mixer_transformer": {"layerscale_init": 1.0, "norm": "layernorm", "token_mixing": "mlp"},
    "resmlp_transformer_multi30k": MULTI30K,
    "resmlp_transformer_multi30k_heads": {**MULTI30K, "mixing_heads": 16, "mixing_relative": True},
    "resmlp_transformer_multi30k_gated": {**MULTI30K, **GATED, **SHORT, "mixing_heads": 16},
    "resmlp_transformer_tiny": {
        "encoder_embed_dim": 64,
        "encoder_ffn_embed_dim": 256,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "decoder_attention_heads": 2,
        **SHORT,
    },
}
"""The named architectures: the values that ``--arch`` gives to options not on the command line, on top of ``BASE``."""


def apply_preset(args: Any, name: str) -> None:
    """Give every option of the model that is missing or None the value of the preset, in place.

    A missing attribute counts as None, because some versions of hydra return None for it (fairseq issue 4675).
    """
    values = {**BASE, **PRESETS[name]}
    for key, each in ALL.items():
        if getattr(args, key, None) is None:
            setattr(args, key, values[key] if key in values else getattr(args, each.metadata["follows"]))


MEANINGLESS = {  # options of fairseq's Transformer that this model does not have
    "no_token_positional_embeddings",  # --token-positional-embeddings adds them; A itself knows the positions
    # LayerNorm: --norm decides about it
    *("normalize_before", "layernorm_embedding", "no_decoder_final_norm", "export"),
    *("cross_self_attention", "xformers_att_config"),  # fairseq's self-attention: there is none
    "input_dim",  # the decoder's embeddings have the layers' width
    "merge_src_tgt_embed",  # fairseq would read translations by another dictionary
    # adaptive input embeddings: fairseq's translation Transformer has none either
    *("adaptive_input", "tie_adaptive_weights", "tie_adaptive_proj"),
    # for loading a trained model with fewer layers: fairseq reads them from --model-overrides only
    "layers_to_keep",
    # kept by fairseq for checkpoints older than this model, or for models that are not this one
    *("base_layers", "base_sublayers", "base_shuffle", "char_inputs", "relu_dropout"),
}


class _WithoutMeaningless:
    """A mixin that keeps the options in ``meaningless`` out of the command line."""

    meaningless = MEANINGLESS

    def _get_all_attributes(self) -> list[str]:
        return [each.name for each in fields(self) if each.name not in self.meaningless]  # type: ignore[arg-type]


@dataclass
class EncoderOptions(_WithoutMeaningless, EncDecBaseConfig):
    """The options ``--encoder-...``, without heads: only the decoder has attention heads."""

    meaningless = MEANINGLESS | {"attention_heads"}


@dataclass
class DecoderOptions(_WithoutMeaningless, DecoderConfig):
    """The options ``--decoder-...``."""


def _for_fairseq(name: str, each: Field) -> tuple[str, Any, Any]:
    """Return a field in the form that fairseq reads: name, type, field."""
    about = each.metadata
    kinds = f"{', '.join(about['mixings'])} mixing: " if "mixings" in about else ""
    return name, each.type, field(default=each.default, metadata={"help": kinds + about["help"]})


OwnOptions: Any = make_dataclass(
    "OwnOptions", [_for_fairseq(name, each) for name, each in ALL.items() if each.metadata["help"]]
)


@dataclass
class ResMLPTransformerConfig(_WithoutMeaningless, OwnOptions, TransformerConfig):
    """The options of fairseq's Transformer that keep their meaning, and those of ResMLP and its variants."""

    encoder: EncoderOptions = field(default_factory=EncoderOptions)
    decoder: DecoderOptions = field(default_factory=DecoderOptions)
    no_token_positional_embeddings: bool = True

    def _get_type(self, attribute_name: str) -> Any:
        """fairseq's hook; it looks choices up when called, as ``register_mixing`` adds to those of token mixing."""
        choices = ALL[attribute_name].metadata.get("choices") if attribute_name in ALL else None
        return ChoiceEnum(list(choices)) if choices else super()._get_type(attribute_name)


def model_config(cfg: TransformerConfig, source_symbols: int, target_symbols: int) -> ModelConfig:
    """Return the sizes and kinds of a model with these options, for dictionaries with these numbers of entries."""
    common = {name: getattr(cfg, name) for name in ("dropout", "attention_dropout", "activation_dropout")}
    for name, each in OPTIONS.items():  # fairseq's choices are enumerations
        common[each.name] = str(getattr(cfg, name)) if each.type is str else getattr(cfg, name)

    def layer(side: EncDecBaseConfig, **more: Any) -> LayerConfig:
        return LayerConfig(
            dim=side.embed_dim,
            hidden_dim=side.ffn_embed_dim,
            attention_heads=cfg.decoder.attention_heads,
            **more,
            **common,
        )

    def positions(side: EncDecBaseConfig) -> str:
        if cfg.no_token_positional_embeddings:
            return "none"
        return "learned" if side.learned_pos else "sinusoidal"

    source_dim = 0 if cfg.no_cross_attention else cfg.encoder.embed_dim
    return ModelConfig(
        source_symbols=source_symbols,
        target_symbols=target_symbols,
        encoder=layer(cfg.encoder, positions=cfg.max_source_positions),
        decoder=layer(cfg.decoder, positions=cfg.max_target_positions, causal=True, source_dim=source_dim),
        encoder_layers=cfg.encoder.layers,
        decoder_layers=cfg.decoder.layers,
        decoder_input_dim=cfg.decoder.embed_dim,  # as fairseq builds the embeddings
        decoder_output_dim=cfg.decoder.output_dim,
        scale_embeddings=not cfg.no_scale_embedding,
        share_all_embeddings=cfg.share_all_embeddings,
        share_output_embeddings=cfg.share_decoder_input_output_embed,
        encoder_positions=positions(cfg.encoder),
        decoder_positions=positions(cfg.decoder),
        adaptive_cutoffs=tuple(cfg.adaptive_softmax_cutoff or ()),
        adaptive_factor=cfg.adaptive_softmax_factor,
    )


def check_options(args: Any, target_symbols: int) -> None:
    """Check that options, after the preset was applied, are possible and go together."""

    def require(condition: bool, message: str | None) -> None:
        if not condition:
            raise UserError(message)

    wrong = problem({name: getattr(args, name) for name in ALL}, ALL)
    require(wrong is None, wrong)
    for name, heads in ("encoder", "mixing_heads"), ("decoder", "mixing_heads"), ("decoder", "decoder_attention_heads"):
        width, parts = getattr(args, f"{name}_embed_dim"), getattr(args, heads)
        require(width % parts == 0, f"--{name}-embed-dim {width} is not a multiple of {spelled(heads)} {parts}")
        idle = getattr(args, f"{name}_learned_pos", False) and not args.token_positional_embeddings
        require(not idle, f"--{name}-learned-pos needs --token-positional-embeddings")
    noise = "--quant-noise-scalar is not for these models: give --quant-noise-pq"
    require(not getattr(args, "quant_noise_scalar", 0), noise)
    if getattr(args, "share_all_embeddings", False) or getattr(args, "share_decoder_input_output_embed", False):
        out, dim = args.decoder_output_dim, args.decoder_embed_dim
        require(out == dim, f"shared embeddings need --decoder-output-dim {out} to equal --decoder-embed-dim {dim}")
    cutoff = getattr(args, "adaptive_softmax_cutoff", None)
    criterion = getattr(args, "criterion", "adaptive_loss" if cutoff else None)
    if cutoff is None:
        require(criterion != "adaptive_loss", "--criterion adaptive_loss needs --adaptive-softmax-cutoff")
        return
    whole = isinstance(cutoff, list) and bool(cutoff) and all(type(each) is int for each in cutoff)
    rises = whole and cutoff == sorted(set(cutoff)) and cutoff[0] > 0 and cutoff[-1] < target_symbols
    wanted = f"give whole numbers that rise and end below {target_symbols}, the target dictionary"
    require(rises, f"--adaptive-softmax-cutoff is {cutoff!r}: {wanted}")
    shared = getattr(args, "share_decoder_input_output_embed", False)
    require(not shared, "--share-decoder-input-output-embed: an adaptive softmax shares nothing: leave it out")
    require(criterion == "adaptive_loss", f"--adaptive-softmax-cutoff needs --criterion adaptive_loss, not {criterion}")


def check_memory(sizes: ModelConfig) -> None:
    """Check that this machine can hold the model: the memory of A grows with the square of the positions."""
    sides = (sizes.encoder, sizes.encoder_layers), (sizes.decoder, sizes.decoder_layers)
    layers = Counter(replace(side.of_layer(n), causal=False) for side, count in sides for n in range(count))
    with torch.device("meta"):  # shapes without values; for embeddings and triangles, PyTorch would import sympy, 66 MB
        ours = [(layer, times) for layer, times in layers.items() if layer.token_mixing in BUILT_IN]
        mixings = [(TOKEN_MIXINGS[layer.token_mixing](layer), times) for layer, times in ours]
    needs = sum(4 * times * each.numel() for mixing, times in mixings if mixing for each in mixing.parameters())
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    given = f"--max-source-positions {sizes.encoder.positions}, --max-target-positions {sizes.decoder.positions}"
    problem = f"A needs {needs / 1e9:,.1f} GB, and as much for its gradients; this machine has {has / 1e9:,.1f} GB"
    if 2 * needs > has:  # training also needs gradients, generation also the loaded checkpoint
        raise UserError(f"{given}: {problem}: lower them")
