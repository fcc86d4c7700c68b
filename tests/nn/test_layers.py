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


def layer(causal, **options):
    torch.manual_seed(0)
    source_dim = 8 if causal else 0
    cfg = LayerConfig(8, 16, 10, causal, source_dim=source_dim, attention_heads=2, layerscale_init=1.0, **options)
    return (DecoderLayer if causal else EncoderLayer)(cfg)


def run(layer, x, memory, padding):
    """Return the layer's output, T x B x C; sentences end before the padding (T x B)."""
    return layer(x, padding) if isinstance(layer, EncoderLayer) else layer(x, memory, padding.t())[0]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_torch_compile_makes_one_graph_of_a_layer(options, causal):
    torch.compiler.reset()
    plain = layer(causal, dropout=0.1, attention_dropout=0.1, activation_dropout=0.1, **options)
    x, memory = torch.randn(6, 3, 8), torch.randn(6, 3, 8)
    padding = torch.arange(6).unsqueeze(1) >= torch.tensor([6, 4, 5])
    compiled = torch.compile(run, fullgraph=True, backend="eager")
    compiled(plain, x, memory, padding).square().sum().backward()
    assert all(parameter.grad is not None for parameter in plain.parameters())
