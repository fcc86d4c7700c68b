"""Presets, options that no model can have, what layers start with, and older checkpoints, without newer options."""

from argparse import Namespace

import pytest
import torch
from builders import build, dictionary

from resmlp_mt import ResMLPTransformerModel
from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.options import PRESETS, apply_preset
from resmlp_mt.nn import Aff, DecoderLayer, EncoderLayer

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


@pytest.mark.parametrize("name", PRESETS)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mixing_heads": 3}, "--encoder-embed-dim 64 is not a multiple of --mixing-heads 3"),
        (
            {"mixing_heads": 64, "decoder_embed_dim": 32},
            "--decoder-embed-dim 32 is not a multiple of --mixing-he",
        ),
        ({"decoder_attention_heads": 3}, "--decoder-embed-dim 64 is not a multiple of --decoder-attention-heads 3"),
        ({"mixing_heads": 0}, "--mixing-heads is 0: give 1 or more"),
        (
            {"mixing_heads": 2, "token_mixing": "conv"},
            "--mixing-heads 2 is for --token-mixing linear or gated, not",
        ),
        ({"encoder_layers": 0}, "--encoder-layers is 0: give 1 to 65,536"),
        ({"decoder_ffn_embed_dim": "wide"}, "--decoder-ffn-embed-dim is 'wide': give something like 2048"),
        ({"max_source_positions": 1}, "--max-source-positions is 1: give 2 to 65,536"),
        ({"dropout": 1.0}, "--dropout is 1.0: give a number from 0 to below 1"),
        ({"mixing_kernel": 2}, "--mixing-kernel is 2: give an odd number from 1"),
        ({"token_mixing": "attention"}, "--token-mixing is 'attention': give one of linear, gated, none"),
        ({"inference_precision": "fp8"}, "--inference-precision is 'fp8': give one of fp32, bf16, int8"),
        ({"decoder_learned_pos": True}, "--decoder-learned-pos needs --token-positional-embeddings"),
        ({"norm": "batch"}, "--norm is 'batch': give one of affine, layernorm"),
        ({"activation_fn": "step"}, "--activation-fn is 'step': give one of relu, .*silu, hardswish"),
        (
            {"share_all_embeddings": True, "decoder_output_dim": 8},
            "shared embeddings need --decoder-output-dim 8 to",
        ),
        ({"adaptive_softmax_cutoff": [9, 99]}, r"--adaptive-softmax-cutoff \[9, 99\] must rise and end below 44"),
        (
            {"max_source_positions": 65536, "mixing_heads": 64},  # 2 layers x 64 heads x 65536 x 65536 x 4 bytes
            r"--max-source-positions 65536, .* needs 2,199\.\d GB, .*; this machine has [\d,.]+ GB: lower them",
        ),
        ({"max_target_positions": 65536, "token_mixing": "mlp", "mixing_expansion": 64}, r"needs 4,398\.\d GB"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(UserError, match=message) as caught:
        build(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [("2 64\nw1 1 2 men\n", "could not convert .*'men'"), ("9 2\nw1 5 6\n", r"64\D+2\D"), ("", r"\(\)")],
)
def test_embeddings_that_are_none_are_refused(tmp_path, content, message):
    (tmp_path / "words.vec").write_text(content)
    with pytest.raises(UserError, match=rf"words\.vec: no embeddings of 64 numbers .*{message}"):
        build(separate=True, encoder_embed_path=str(tmp_path / "words.vec"))


def test_embeddings_are_taken_from_a_file(tmp_path):
    (tmp_path / "words.vec").write_text(f"1 64\nw1 {' '.join(map(str, range(64)))}\n")
    model = build(separate=True, encoder_embed_path=str(tmp_path / "words.vec"), scatter=0)
    words = model.encoder.embed_tokens.weight[model.encoder.dictionary.index("w1")]
    assert words.tolist() == list(range(64))


def test_a_checkpoint_from_before_these_options_is_the_paper_s_model():
    args = Namespace()
    apply_preset(args, "resmlp_transformer_tiny")
    for name in [*vars(args)]:
        if name.startswith(("mixing_", "token_")) or name == "norm":
            delattr(args, name)

    class Task:
        source_dictionary = target_dictionary = dictionary()

    names = ResMLPTransformerModel.build_model(args, Task).state_dict().keys()
    assert names == build().state_dict().keys()
    layer = {name.removeprefix("decoder.layers.1.") for name in names if name.startswith("decoder.layers.1.mixing")}
    affines = {f"mixing.{place}_affine.{part}" for place in ("pre", "post") for part in ("alpha", "beta")}
    assert layer == {"mixing.mixing.weight", "mixing.mixing.bias", *affines}


def test_each_branch_starts_at_layerscale():
    model = build(scatter=0.0, layerscale_init=0.3)
    for name, module in model.named_modules():
        if isinstance(module, Aff):
            start = 0.3 if name.endswith("post_affine") else 1.0
            assert torch.equal(module.alpha.float(), torch.full((64,), start)) and (module.beta == 0).all(), name


def test_at_layerscale_zero_every_layer_is_the_identity():
    model = build(scatter=0.0, layerscale_init=0.0)
    x, memory = torch.randn(5, 2, 64).double(), torch.randn(4, 2, 64).double()
    for module in model.modules():
        if isinstance(module, EncoderLayer):
            assert torch.equal(module(x, None), x)
        if isinstance(module, DecoderLayer):
            assert torch.equal(module(x, memory)[0], x)
