"""The layers alone: torch.compile makes one graph of each."""

import pytest
import torch

from resmlp_mt.nn import DecoderLayer, EncoderLayer, LayerConfig
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
