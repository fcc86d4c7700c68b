"""The operators of kernels.cpp, compared with the plain forms, for sizes that fill registers and some that do not."""

import pytest
import torch

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn.cross_attention import CrossAttention
from resmlp_mt.nn.memory import PagedMemory
from resmlp_mt.translate import kernels
from resmlp_mt.translate.compiled import own_cache
from resmlp_mt.translate.search import best_totals


@pytest.fixture(autouse=True)
def operators(cache):
    torch.manual_seed(0)
    kernels.load(own_cache())
    return torch.ops.resmlp_mt


@torch.no_grad()
@pytest.mark.parametrize(("channels", "heads"), [(256, 4), (20, 2), (6, 1)])
@pytest.mark.parametrize(("positions", "beams"), [(1, 1), (3, 2), (16, 4), (40, 7)])
def test_cross_attention(channels, heads, positions, beams):
    plain, padding = CrossAttention(channels, channels, heads).eval(), torch.zeros(3, positions, dtype=torch.bool)
    padding[1, positions // 2 + 1 :] = True
    source, x = plain.source(torch.randn(positions, 3, channels), padding), torch.randn(1, 3 * beams, channels)
    torch.testing.assert_close(kernels.CompiledCrossAttention(plain)(x, source)[0], plain(x, source)[0])


@pytest.mark.parametrize(("channels", "heads"), [(256, 16), (20, 2), (6, 1)])
@pytest.mark.parametrize("positions", [1, 5, 33])
def test_weighted_sum(operators, channels, heads, positions):
    buffer, rows = torch.randn(positions, 7, channels), torch.randint(positions * 7, (5, positions))
    weights = torch.randn(5, heads, positions)
    expected = PagedMemory(buffer, rows).weighted_sum(weights)
    torch.testing.assert_close(operators.weighted_sum(buffer, rows, weights), expected)


@pytest.mark.parametrize(("beams", "count"), [(1, 8), (4, 8), (6, 12)])
@pytest.mark.parametrize("symbols", [30, 1031])
def test_best_totals(operators, beams, count, symbols):
    logits, scores, barred = 3 * torch.randn(3 * beams, symbols), torch.randn(3, beams), torch.zeros(symbols)
    barred[1] = -torch.inf
    scores[1, beams // 2 :] = -torch.inf if beams > 1 else 0.0  # beams that have ended
    given = logits, scores, barred, count, 2
    for found, expected in zip(operators.best(*given), best_totals(*given), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_compiler_that_sees_no_vectors(monkeypatch):
    """Such a compiler would make code that is 60 times as slow, without a warning."""
    monkeypatch.setattr("torch._inductor.cpu_vec_isa.pick_vec_isa", lambda: False)
    monkeypatch.setattr(kernels, "cpuinfo", lambda *names: "flags : avx avx2")
    with pytest.raises(UserError, match=r"cannot use this processor's vectors: .*, such as re\.py\?"):
        kernels.vectors()
