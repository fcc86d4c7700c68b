import torch
from builders import build
from torch import nn

from resmlp_mt.nn import Aff, DecoderLayer, EncoderLayer
from resmlp_mt.nn.cross_attention import CrossAttention


def test_there_is_no_self_attention_no_layer_norm_and_no_positional_embedding():
    model = build()
    kinds = {type(module).__name__ for module in model.modules()}
    assert not kinds & {"LayerNorm", "FusedLayerNorm", "SinusoidalPositionalEmbedding", "LearnedPositionalEmbedding"}
    attentions = [name for name, module in model.named_modules() if isinstance(module, CrossAttention)]
    assert attentions and all(".cross_attention." in name for name in attentions)


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


def test_folding_leaves_no_affine_but_the_last_of_each_stack():
    model = build()
    model.make_generation_fast_()
    left = [name for name, module in model.named_modules() if isinstance(module, Aff)]
    assert left == ["encoder.layer_norm", "decoder.layer_norm"]
    assert all(isinstance(layer.mlp.pre_affine, nn.Identity) for layer in model.encoder.layers)
