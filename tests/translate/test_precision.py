"""Reduced precision: nearly the scores of fp32, and the promises up to its own rounding."""

import pytest
import torch
from builders import GENERATING, build, decode_in_steps, logits, pairs
from torch import nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate import precision as lowered
from resmlp_mt.translate.precision import BFloat16Linear, CompiledInt8Linear, Int8Linear, PackedLinear

SIZES = (5, 9), (3, 9), (7, 2)
needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")
needs_bf16 = pytest.mark.skipif(not lowered.has_bfloat16(), reason="no bf16 of oneDNN here")


def prepared(precision, **options):
    model = build(scatter=0.03, inference_precision=precision, **options).float()
    model.prepare_for_inference_(GENERATING)
    return model


def assert_near(got, expected, share):
    for one, other in zip(got, expected, strict=True):
        assert (one.double() - other.double()).abs().max() <= share * other.double().abs().max()


KINDS = [
    ({}, 17),  # 8 linear layers of the MLPs, 8 of attention; the projection to the vocabulary
    ({"token_mixing": "separable"}, 17 + 4 * 1),  # one in each of four mixings
    ({"norm": "layernorm", "mixing_heads": 4}, 17),
    ({"token_mixing": "gated", "mixing_heads": 4, "mixing_band": 2}, 17 + 4 * 3),
    ({"token_mixing": "attention", "mixing_heads": 4}, 17 + 4 * 2),
    ({"token_mixing": "synthesizer", "mixing_heads": 4}, 17 + 4 * 2),
    ({"token_mixing": "dynamic"}, 17 + 4 * 3),
    ({"token_mixing": "ssru"}, 17 + 4 * 1),
    ({"token_mixing": "ema", "mixing_heads": 4}, 17 + 4 * 2),
    ({"token_mixing": "mlp"}, 17),
]


@pytest.mark.parametrize(("options", "layers"), KINDS)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_scores_are_nearly_those_of_fp32(precision, options, layers):
    expected, model = logits(prepared("fp32", **options), *pairs(*SIZES)), prepared(precision, **options)
    for left_pad in False, True:
        got = logits(model, *pairs(*SIZES), left_pad, extra=3)
        assert_near(got, expected, 0.05)
        assert all((one != other).any() for one, other in zip(got, expected, strict=True))
    assert sum(isinstance(module, BFloat16Linear | Int8Linear) for module in model.modules()) == layers


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_int8_is_the_rounded_product(bias, fast, monkeypatch):
    """The product written out: rows of weights and of inputs are rounded to steps of a 127th of their largest entry."""
    monkeypatch.setattr(lowered, "has_int8", lambda: fast)
    torch.manual_seed(0)
    linear, x = nn.Linear(24, 10, bias=bias), torch.randn(3, 2, 24)
    x[1, 0] = 0
    weight_steps = linear.weight.abs().max(1).values / 127
    expected = torch.zeros(3, 2, 10)
    for t in range(3):
        for b in range(2):
            step = x[t, b].abs().max() / 127 + 1e-37
            for i in range(10):
                product = torch.dot(torch.round(x[t, b] / step), torch.round(linear.weight[i] / weight_steps[i]))
                expected[t, b, i] = product * step * weight_steps[i] + (linear.bias[i] if bias else 0)
    assert Int8Linear(linear).weight.is_floating_point() != fast
    torch.testing.assert_close(Int8Linear(linear)(x), expected)


@pytest.mark.parametrize("options", [options for options, _ in KINDS])
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_steps_equal_teacher_forcing(precision, options):
    model = prepared(precision, **options)
    sources, targets = pairs((5, 9), (3, 9))
    stepped, beams = decode_in_steps(model, sources, targets, False, drop_at=4)
    for (i, j), rows in stepped.items():
        assert_near([rows], [logits(model, [sources[i]], [beams[i][j]])[0][: len(rows)]], 0.02)


def test_only_fp32_is_lowered():
    with pytest.raises(UserError, match="int8 is for fp32 on a CPU: leave out --fp16 and give --cpu"):
        build(inference_precision="int8").half().prepare_for_inference_(GENERATING)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("made", "dtype", "fast"),
    [
        (BFloat16Linear, torch.bfloat16, True),
        (BFloat16Linear, torch.bfloat16, False),
        pytest.param(PackedLinear, torch.float32, True, marks=needs_onednn),
        pytest.param(lambda linear: PackedLinear(BFloat16Linear(linear)), torch.bfloat16, True, marks=needs_bf16),
    ],
)
@torch.no_grad()
def test_bf16_and_packed_are_the_product_of_rounded_numbers(made, dtype, fast, bias, monkeypatch):
    monkeypatch.setattr(lowered, "has_bfloat16", lambda: fast)
    torch.manual_seed(0)
    linear = nn.Linear(24, 70, bias=bias)
    layer, tolerance = made(linear), 1e-6 if dtype == torch.float32 else 2**-7  # the sum is rounded too
    for shape in (0, 24), (24,), (1, 24), (5, 24), (3, 40, 24), (300, 24):
        x = torch.randn(shape)
        weight, rounded = linear.weight.to(dtype).double(), x.to(dtype).double()
        expected = rounded @ weight.t() + (linear.bias.double() if bias else 0)
        got = layer(x)
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=4 * tolerance)
    x = torch.randn(24, 6).t()
    assert torch.equal(layer(x), layer(x.contiguous()))


@pytest.mark.skipif(not lowered.has_int8(), reason="where it is not used, sums of 16 bits overflow")
@pytest.mark.parametrize("bias", [True, False])
def test_the_compiled_form_of_an_int8_layer_computes_the_same(bias):
    torch.manual_seed(0)
    for size in 16, 512:
        layer, x = Int8Linear(nn.Linear(size, 40, bias=bias)), 3 * torch.randn(5, 2, size)
        x[1] = 0.0
        torch.testing.assert_close(CompiledInt8Linear(layer)(x), layer(x), rtol=1e-5, atol=1e-5)
