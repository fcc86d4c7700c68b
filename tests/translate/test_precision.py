"""Reduced precision: nearly the scores of fp32, and the promises within its own rounding."""

from argparse import Namespace

import pytest
import torch
from builders import build, decode_in_steps, logits, pairs
from torch import nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.precision import BFloat16Linear, Int8Linear, lower_precision_

CFG = Namespace(generation=Namespace(no_beamable_mm=False, beam=4, print_alignment=None))
SIZES = (5, 9), (3, 9), (7, 2)


def prepared(precision, preset="resmlp_transformer_tiny", **options):
    sizes = {"encoder_embed_dim": 64, "encoder_ffn_embed_dim": 96}
    model = build(preset, scatter=0.03, inference_precision=precision, **sizes, **options).float()
    model.prepare_for_inference_(CFG)
    return model


def assert_near(got, expected, share):
    for one, other in zip(got, expected, strict=True):
        assert (one.double() - other.double()).abs().max() <= share * other.double().abs().max()


@pytest.mark.parametrize("preset", ["resmlp_transformer_tiny", "resmlp_transformer_12_wmt_en_de"])
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_scores_are_nearly_those_of_fp32(precision, preset):
    expected, got = (logits(prepared(each, preset), *pairs(*SIZES)) for each in ("fp32", precision))
    assert_near(got, expected, 0.05)
    assert all((one != other).any() for one, other in zip(got, expected, strict=True))


@pytest.mark.parametrize(
    ("options", "mixings"),
    [
        ({"token_mixing": "separable"}, 4 * 1),  # linear layers of four mixings
        ({"norm": "layernorm", "mixing_heads": 4}, 0),
        ({"token_mixing": "gated", "mixing_heads": 4, "mixing_band": 2}, 4 * 3),
    ],
)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_so_are_those_of_variants_and_a_sentence_is_alone(precision, options, mixings):
    expected, model = logits(prepared("fp32", **options), *pairs(*SIZES)), prepared(precision, **options)
    for left_pad in False, True:
        assert_near(logits(model, *pairs(*SIZES), left_pad, extra=3), expected, 0.05)
    linear = sum(isinstance(module, BFloat16Linear | Int8Linear) for module in model.modules())
    assert linear == 16 + mixings + 1  # 8 of the MLPs, 8 of attention; the projection to the vocabulary


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_layers_to_leave_stay_as_they_are(precision):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    lower_precision_(model, precision, leave=["2"])
    assert [type(layer) is nn.Linear for layer in model] == [False, False, True]


@pytest.mark.parametrize("bias", [True, False])
def test_bf16_is_the_product_of_rounded_numbers(bias):
    torch.manual_seed(0)
    linear, x = nn.Linear(24, 10, bias=bias), torch.randn(3, 2, 24)
    weight, rounded = linear.weight.bfloat16().double(), x.bfloat16().double()
    expected = rounded @ weight.t() + (linear.bias.double() if bias else 0)
    got = BFloat16Linear(linear)(x)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), expected, rtol=2**-7, atol=2**-7)  # the sum is rounded too


@pytest.mark.parametrize("bias", [True, False])
def test_int8_is_the_rounded_product(bias):
    """Written out: every row of weights and of inputs in steps of a 127th of its largest."""
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
    torch.testing.assert_close(Int8Linear(linear)(x), expected)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_steps_equal_teacher_forcing(precision):
    model = prepared(precision)
    sources, targets = pairs((5, 9), (3, 9))
    stepped, beams = decode_in_steps(model, sources, targets, False, drop_at=4)
    for (i, j), rows in stepped.items():
        assert_near([rows], [logits(model, [sources[i]], [beams[i][j]])[0][: len(rows)]], 0.02)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_only_fp32_is_lowered(precision):
    with pytest.raises(UserError, match=f"{precision} is for fp32 on a CPU: leave out --fp16 and give --cpu"):
        build(inference_precision=precision).half().prepare_for_inference_(CFG)


def test_no_other_precision():
    with pytest.raises(UserError, match="--inference-precision is 'int4': give one of fp32, bf16, int8"):
        build(inference_precision="int4")
