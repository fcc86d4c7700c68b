"""The layers alone: torch.compile makes one graph of each; cross-attention is PyTorch's."""

import pytest
import torch
from torch import nn

from resmlp_mt.nn import DecoderLayer, EncoderLayer, LayerConfig
from resmlp_mt.nn.cross_attention import CrossAttention
from resmlp_mt.nn.mixing_kinds import TOKEN_MIXINGS

KINDS = {
    **{kind: {"token_mixing": kind} for kind in TOKEN_MIXINGS},
    "heads": {"mixing_heads": 4, "mixing_relative": True},
    "layernorm": {"norm": "layernorm"},
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_torch_compile_makes_one_graph_of_a_layer(options, causal):
    torch.compiler.reset()
    dropout = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}
    cfg = LayerConfig(8, 16, 10, causal, source_dim=8 if causal else 0, attention_heads=2, **dropout, **options)
    layer = DecoderLayer(cfg) if causal else EncoderLayer(cfg)
    x, memory = torch.randn(6, 3, 8), torch.randn(6, 3, 8)
    padding = torch.arange(6).unsqueeze(1) >= torch.tensor([6, 4, 5])
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    out = compiled(x, memory, padding.t())[0] if causal else compiled(x, padding)
    out.square().sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_cross_attention_and_its_weights_are_pytorch_s_for_each_beam():
    ours, theirs = CrossAttention(8, 8, 2), nn.MultiheadAttention(8, 2)
    for name in "weight", "bias":
        parts = [getattr(each, name).data for each in (ours.q_proj, ours.k_proj, ours.v_proj)]
        getattr(theirs, f"in_proj_{name}").data = torch.cat(parts)
    theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
    x, encoded, padding = torch.randn(5, 6, 8), torch.randn(7, 3, 8), torch.arange(7) >= torch.tensor([[7], [4], [2]])
    of_beams, mask = encoded.repeat_interleave(2, 1), padding.repeat_interleave(2, 0)
    expected, weights = theirs(x, of_beams, of_beams, mask, average_attn_weights=False)
    found, shown = ours(x, ours.source(encoded, padding), need_weights=True)
    torch.testing.assert_close((found, shown.transpose(0, 1)), (expected, weights))
