from argparse import Namespace

import pytest
import torch
from builders import build

from resmlp_mt.fairseq_plugin.presets import PRESETS, apply_preset

# Touvron et al. 2021, section 3.6, and the design: width, MLP, layers, heads, dropout, positions
EXPECTED = {
    "resmlp_transformer": (512, 2048, 6, 8, 0.1, 256),
    "resmlp_transformer_wmt_en_de": (512, 2048, 6, 8, 0.15, 256),
    "resmlp_transformer_wmt_en_fr": (512, 2048, 6, 8, 0.1, 256),
    "resmlp_transformer_12_wmt_en_de": (512, 2048, 12, 8, 0.15, 256),
    "resmlp_transformer_12_wmt_en_fr": (512, 2048, 12, 8, 0.1, 256),
    "resmlp_transformer_gated_wmt_en_de": (512, 2048, 6, 8, 0.15, 256),
    "resmlp_transformer_gated_wmt_en_fr": (512, 2048, 6, 8, 0.1, 256),
    "resmlp_transformer_gated_12_wmt_en_de": (512, 2048, 12, 8, 0.15, 256),
    "resmlp_transformer_gated_12_wmt_en_fr": (512, 2048, 12, 8, 0.1, 256),
    "mixer_transformer": (512, 2048, 6, 8, 0.1, 256),
    "resmlp_transformer_multi30k": (256, 512, 3, 4, 0.2, 128),
    "resmlp_transformer_multi30k_heads": (256, 512, 3, 4, 0.2, 128),
    "resmlp_transformer_multi30k_gated": (256, 512, 3, 4, 0.2, 64),
    "resmlp_transformer_tiny": (64, 256, 2, 2, 0.1, 64),
}


def heads_of(name):
    """Matrices A in a layer; beyond the paper."""
    return 8 if "_gated" in name and "wmt" in name else 16 if name.endswith(("_heads", "_gated")) else 1


def test_every_preset_is_expected():
    assert set(PRESETS) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_preset_says_what_the_paper_says(name):
    width, hidden, layers, heads, dropout, positions = EXPECTED[name]
    args = Namespace()
    apply_preset(args, name)
    for side in "encoder", "decoder":
        assert getattr(args, f"{side}_embed_dim") == width
        assert getattr(args, f"{side}_ffn_embed_dim") == hidden
        assert getattr(args, f"{side}_layers") == layers
    assert args.decoder_attention_heads == heads
    assert args.dropout == dropout
    mixer = name == "mixer_transformer"  # Tolstikhin et al. 2021: an MLP over positions, LayerNorm, no LayerScale
    assert args.layerscale_init == (1.0 if mixer else 0.2)
    gated = "_gated" in name  # beyond the paper, as heads are
    mixing = "mlp" if mixer else "gated" if gated else "linear"
    assert (args.token_mixing, args.norm) == (mixing, "layernorm" if mixer else "affine")
    heads = heads_of(name), heads_of(name) > 1
    assert args.mixing_dropout == (0.1 if gated else 0.0)
    assert args.mixing_band == (3 if gated else 0)
    assert (args.mixing_heads, args.mixing_relative, args.token_positional_embeddings) == (*heads, False)
    assert args.max_source_positions == args.max_target_positions == positions


def test_the_command_line_wins_and_none_means_missing():
    args = Namespace(encoder_embed_dim=128, dropout=0.0, encoder_layers=None, decoder_ffn_embed_dim=99)
    apply_preset(args, "resmlp_transformer_tiny")
    assert (args.encoder_embed_dim, args.decoder_embed_dim, args.dropout) == (128, 128, 0.0)
    assert (args.encoder_layers, args.decoder_ffn_embed_dim, args.decoder_output_dim) == (2, 99, 128)


def parameters_by_formula(vocabulary, dim, hidden, layers, positions, units, heads, band):
    """Embeddings; A and b; two Aff a branch and one a stack; four projections of attention; two layers of MLP.

    In the place of A and b MLP-Mixer has two layers with so many units between; LayerNorm is as large as Aff. With
    heads there are so many A and b, and for each as many terms as there are distances. A gated mixing has three
    projections, and one to the weights of its band.
    """
    mixing = positions * positions + positions + 4 * dim
    if units:
        mixing += units * (2 * positions + 1) - positions * positions
    distances = 0
    if heads > 1:
        mixing += (heads - 1) * (positions * positions + positions)
        distances = heads * ((2 * positions - 1) + positions)  # the encoder's, the decoder's
    if band:
        mixing += 3 * (dim * dim + dim)
        distances += heads * (2 * band + 1 + band + 1) * (dim + 1)
    mlp = dim * hidden + hidden + hidden * dim + dim + 4 * dim
    attention = 4 * (dim * dim + dim) + 4 * dim
    return vocabulary * dim + layers * (2 * mixing + distances + 2 * mlp + attention) + 4 * dim


@pytest.mark.parametrize("name", EXPECTED)
def test_parameters_are_what_the_equations_need(name):
    width, hidden, layers, _, _, positions = EXPECTED[name]
    with torch.device("meta"):  # shapes without values
        model = build(name, share_all_embeddings=True)
    units = 4 * positions if name == "mixer_transformer" else 0
    expected = parameters_by_formula(
        44, width, hidden, layers, positions, units, heads_of(name), band=3 if "_gated" in name else 0
    )
    assert sum(p.numel() for p in model.parameters()) == expected
