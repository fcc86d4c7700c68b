"""Presets, impossible options, and initial values of layers."""

from argparse import Namespace
from collections import Counter

import pytest
import torch
from builders import build, dictionary
from fairseq.models.transformer import TransformerModel, base_architecture

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.options import PRESETS, apply_preset
from resmlp_mt.nn import Aff

# Touvron et al. 2021, section 3.6, and the design: width, MLP, layers, heads, dropout, positions
EXPECTED = {
    "resmlp_transformer": (512, 2048, 6, 8, 0.1, 256),
    **{f"resmlp_transformer_{kind}wmt_en_de": (512, 2048, 6, 8, 0.15, 256) for kind in ("", "gated_")},
    **{f"resmlp_transformer_{kind}wmt_en_fr": (512, 2048, 6, 8, 0.1, 256) for kind in ("", "gated_")},
    **{f"resmlp_transformer_{kind}12_wmt_en_de": (512, 2048, 12, 8, 0.15, 256) for kind in ("", "gated_")},
    **{f"resmlp_transformer_{kind}12_wmt_en_fr": (512, 2048, 12, 8, 0.1, 256) for kind in ("", "gated_")},
    "mixer_transformer": (512, 2048, 6, 8, 0.1, 256),
    "resmlp_transformer_multi30k": (256, 512, 3, 4, 0.2, 128),
    "resmlp_transformer_multi30k_heads": (256, 512, 3, 4, 0.2, 128),
    "resmlp_transformer_multi30k_gated": (256, 512, 3, 4, 0.2, 64),
    "resmlp_transformer_tiny": (64, 256, 2, 2, 0.1, 64),
}


@pytest.mark.parametrize("name", {**EXPECTED, **PRESETS})
def test_the_preset_says_what_the_paper_says(name):
    args = Namespace()
    apply_preset(args, name)
    for side in "encoder", "decoder":
        sizes = [getattr(args, f"{side}_{size}") for size in ("embed_dim", "ffn_embed_dim", "layers")]
        positions = args.max_source_positions if side == "encoder" else args.max_target_positions
        assert (*sizes, args.decoder_attention_heads, args.dropout, positions) == EXPECTED[name]
    assert not args.token_positional_embeddings
    found = args.token_mixing, args.norm, args.layerscale_init, args.mixing_dropout, args.mixing_band
    gated = "_gated" in name  # beyond the paper, as heads are
    if name == "mixer_transformer":  # Tolstikhin et al. 2021: an MLP over positions, LayerNorm, no LayerScale
        assert found == ("mlp", "layernorm", 1.0, 0.0, 0)
    else:
        assert found == (("gated", "affine", 0.2, 0.1, 3) if gated else ("linear", "affine", 0.2, 0.0, 0))
    heads = 8 if gated and "wmt" in name else 16 if name.endswith(("_heads", "_gated")) else 1
    assert (args.mixing_heads, args.mixing_relative) == (heads, heads > 1)


def test_quantization_noise_is_on_the_embeddings_of_both_sides():
    model, noisy = build(quant_noise_pq=0.5, quant_noise_pq_block_size=8), []
    for side in model.encoder, model.decoder:
        side.quant_noise.register_forward_hook(lambda module, *_: noisy.append(module))
    tokens = torch.tensor([[5, 6, 2]])
    model(tokens, torch.tensor([3]), tokens)
    assert noisy == [model.encoder.quant_noise, model.decoder.quant_noise]


def test_layers_are_left_out_in_training_alone():
    model, ran = build(encoder_layerdrop=0.5, decoder_layerdrop=0.5), Counter()
    layers = [*model.encoder.layers.children(), *model.decoder.layers.children()]
    for layer in layers:
        layer.register_forward_hook(lambda module, *_: ran.update([module]))
    tokens = torch.tensor([[5, 6, 2]])
    for _ in range(40):
        model(tokens, torch.tensor([3]), tokens)
    assert all(8 < ran[layer] < 32 for layer in layers)
    ran.clear()
    model.eval()(tokens, torch.tensor([3]), tokens)
    assert ran == Counter(layers)


def test_the_command_line_wins_and_none_means_missing():
    args = Namespace(encoder_embed_dim=128, dropout=0.0, encoder_layers=None, decoder_ffn_embed_dim=99)
    apply_preset(args, "resmlp_transformer_tiny")
    assert (args.encoder_embed_dim, args.decoder_embed_dim, args.dropout) == (128, 128, 0.0)
    assert (args.encoder_layers, args.decoder_ffn_embed_dim, args.decoder_output_dim) == (2, 99, 128)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mixing_heads": 3}, "--encoder-embed-dim 64 is not a multiple of --mixing-heads 3"),
        ({"decoder_attention_heads": 3}, "--decoder-embed-dim 64 is not a multiple of --decoder-attention-heads 3"),
        ({"mixing_heads": 2, "token_mixing": "conv"}, "--mixing-heads 2 is for --token-mixing linear or gated or "),
        ({"mixing_kernel": 5}, "--mixing-kernel 5 is for --token-mixing dynamic or conv or depthwise or separable"),
        ({"criterion": "adaptive_loss"}, "--criterion adaptive_loss needs --adaptive-softmax-cutoff"),
        ({"adaptive_softmax_cutoff": [9], "criterion": "nll"}, "needs --criterion adaptive_loss, not nll"),
        ({"decoder_ffn_embed_dim": "wide"}, "--decoder-ffn-embed-dim is 'wide': give something like 2048"),
        ({"encoder_embed_dim": 65537}, "--encoder-embed-dim is 65537: give 1 to 65,536"),
        ({"dropout": 1.0}, "--dropout is 1.0: give a number from 0 to below 1"),
        ({"token_mixing": "atention"}, "--token-mixing is 'atention': give one of linear, gated, ema,"),
        ({"mixing_of_encoder_layers": "gated,atention"}, "-encoder-layers is 'gated,atention': give .*--user-dir"),
        ({"mixing_of_decoder_layers": "ssru,ema,ema"}, "ssru,ema,ema is for 3 layers: give 2, as --decoder-layers"),
        ({"mixing_band": 2, "mixing_of_decoder_layers": "linear,ssru"}, "--mixing-band 2 is for .* not linear, ssru"),
        ({"decoder_learned_pos": True}, "--decoder-learned-pos needs --token-positional-embeddings"),
        ({"quant_noise_scalar": 0.5}, "--quant-noise-scalar is not for these models: give --quant-noise-pq"),
        ({"share_all_embeddings": True, "decoder_output_dim": 8}, "shared embeddings need --decoder-output-dim 8 to"),
        ({"adaptive_softmax_cutoff": [9, 99]}, r"--adaptive-softmax-cutoff is \[9, 99\]: .* end below 44"),
        ({"max_target_positions": 65536, "mixing_heads": 64, "mixing_of_decoder_layers": "ssru,linear"}, " 1,099.5 GB"),
        # 2 layers x 64 heads x 65536 x 65536 x 4 bytes
        ({"max_source_positions": 65536, "mixing_heads": 64}, r"needs 2,199\.\d GB, .* has [\d,.]+ GB: lower them"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        build(**options)


def test_embeddings_are_taken_from_a_file(tmp_path):
    (tmp_path / "words.vec").write_text(f"1 64\nw1 {' '.join(map(str, range(64)))}\n")
    model = build(separate=True, encoder_embed_path=str(tmp_path / "words.vec"), scatter=0)
    assert model.encoder.embed_tokens.weight[model.encoder.dictionary.index("w1")].tolist() == list(range(64))


def test_weights_start_as_large_as_those_of_fairseq_s_transformer_and_a_as_a_linear_layer_s():
    sizes = {"encoder_embed_dim": 64, "encoder_ffn_embed_dim": 256, "encoder_layers": 2, "decoder_layers": 2}
    torch.manual_seed(0)
    base_architecture(args := Namespace(**sizes, decoder_output_dim=32))
    task = Namespace(source_dictionary=dictionary(), target_dictionary=dictionary())
    theirs, ours = TransformerModel.build_model(args, task).state_dict(), build(scatter=0, decoder_output_dim=32)
    weights = {name: weight for name, weight in ours.state_dict().items() if weight.dim() == 2}
    like = {name: name.replace("cross_attention.attention", "encoder_attn").replace("mlp.", "") for name in weights}
    found = {name: weights[name].std() / theirs[other].std() for name, other in like.items() if other in theirs}
    assert len(found) == 20 and all(0.9 < ratio < 1.1 for ratio in found.values()), found
    a = ours.encoder.layers[0].mixing.mixing.weight.detach()
    assert a.abs().max() <= 64**-0.5 and a.std().item() == pytest.approx(64**-0.5 / 3**0.5, rel=0.1)


def test_each_branch_starts_at_layerscale():
    model = build(scatter=0.0, layerscale_init=0.3)
    for name, module in model.named_modules():
        if isinstance(module, Aff):
            start = 0.3 if name.endswith("post_affine") else 1.0
            assert torch.equal(module.alpha.float(), torch.full((64,), start)) and (module.beta == 0).all(), name
