"""The named architectures: what ``--arch`` fills in where the command line is silent."""

from typing import Any

from resmlp_mt.nn.config import OPTIONS

BASE: dict[str, Any] = {
    "dropout": 0.1,
    "encoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048,
    "encoder_layers": 6,
    "decoder_attention_heads": 8,
    "decoder_layers": 6,
    "max_source_positions": 256,
    "max_target_positions": 256,
    "token_positional_embeddings": False,
    **{name: each.default for name, each in OPTIONS.items()},
}
"""Touvron et al. 2021, section 3.6: a Transformer base's sizes, LayerScale 0.2. Cleaned corpora end at 250 subwords."""

TWELVE_LAYERS = {"encoder_layers": 12, "decoder_layers": 12}
GATED = {"mixing_band": 3, "mixing_dropout": 0.1, "mixing_relative": True, "token_mixing": "gated"}
"""Beyond the paper; with as many heads as make the parameters about those of a Transformer."""
GATED_WMT = {**GATED, "mixing_heads": 8}
WMT_EN_DE = {"dropout": 0.15}
WMT_EN_FR = {"dropout": 0.1}
MIXER = {"layerscale_init": 1.0, "norm": "layernorm", "token_mixing": "mlp"}
"""MLP-Mixer (Tolstikhin et al. 2021) has no LayerScale: the Aff that ends a branch starts as the identity."""
MULTI30K = {
    "dropout": 0.2,
    "encoder_embed_dim": 256,
    "encoder_ffn_embed_dim": 512,
    "encoder_layers": 3,
    "decoder_attention_heads": 4,
    "decoder_layers": 3,
    "max_source_positions": 128,
    "max_target_positions": 128,
}

PRESETS: dict[str, dict[str, Any]] = {
    "resmlp_transformer": {},
    "resmlp_transformer_wmt_en_de": WMT_EN_DE,
    "resmlp_transformer_wmt_en_fr": WMT_EN_FR,
    "resmlp_transformer_12_wmt_en_de": {**WMT_EN_DE, **TWELVE_LAYERS},
    "resmlp_transformer_12_wmt_en_fr": {**WMT_EN_FR, **TWELVE_LAYERS},
    "resmlp_transformer_gated_wmt_en_de": {**WMT_EN_DE, **GATED_WMT},
    "resmlp_transformer_gated_wmt_en_fr": {**WMT_EN_FR, **GATED_WMT},
    "resmlp_transformer_gated_12_wmt_en_de": {**WMT_EN_DE, **GATED_WMT, **TWELVE_LAYERS},
    "resmlp_transformer_gated_12_wmt_en_fr": {**WMT_EN_FR, **GATED_WMT, **TWELVE_LAYERS},
    "mixer_transformer": MIXER,
    "resmlp_transformer_multi30k": MULTI30K,
    "resmlp_transformer_multi30k_heads": {**MULTI30K, "mixing_heads": 16, "mixing_relative": True},
    "resmlp_transformer_multi30k_gated": {
        **MULTI30K,
        **GATED,
        "max_source_positions": 64,
        "max_target_positions": 64,
        "mixing_heads": 16,
    },
    "resmlp_transformer_tiny": {
        "encoder_embed_dim": 64,
        "encoder_ffn_embed_dim": 256,
        "encoder_layers": 2,
        "decoder_attention_heads": 2,
        "decoder_layers": 2,
        "max_source_positions": 64,
        "max_target_positions": 64,
    },
}

FOLLOWS = {
    "decoder_embed_dim": "encoder_embed_dim",
    "decoder_ffn_embed_dim": "encoder_ffn_embed_dim",
    "decoder_input_dim": "decoder_embed_dim",
    "decoder_output_dim": "decoder_embed_dim",
}
"""Options that take another option's value unless set, in the order in which they are settled."""


def apply_preset(args: Any, name: str) -> None:
    """Give every option of the model that is missing or None the value of the preset.

    Asks for None rather than for a missing attribute, because some versions of hydra answer None for both (fairseq
    issue 4675).

    Args:
        args: the options, changed in place
        name: one of PRESETS
    """
    for option, value in {**BASE, **PRESETS[name]}.items():
        if getattr(args, option, None) is None:
            setattr(args, option, value)
    for option, other in FOLLOWS.items():
        if getattr(args, option, None) is None:
            setattr(args, option, getattr(args, other))
