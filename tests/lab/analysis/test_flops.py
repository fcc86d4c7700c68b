"""The formulas, compared with torch's count of what the models run; resmlp-mt cost, compared with sums by hand."""

import json
from argparse import Namespace

import pytest
import torch
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from resmlp_mt.data.binarized import made_up_dictionary
from resmlp_mt.lab.analysis import flops
from resmlp_mt.lab.models import training_args
from resmlp_mt.nn.mixing_kinds import TOKEN_MIXINGS
from scripts import SCRIPTS, printed_by

VOCABULARY = 52
SIZES = ("--encoder-embed-dim", "24", "--encoder-ffn-embed-dim", "40", "--decoder-attention-heads", "2")
RESMLP = ("resmlp_transformer_12_wmt_en_de", *SIZES, "--encoder-layers", "3", "--decoder-layers", "2")
MIXINGS = [name for name in TOKEN_MIXINGS if name != "linear"]
MODELS = {
    "resmlp": RESMLP,
    **{mixing: (*RESMLP, "--token-mixing", mixing) for mixing in MIXINGS},
    "mlp of 2 units": (*RESMLP, "--token-mixing", "mlp", "--mixing-expansion", "2"),
    "conv of 5 positions": (*RESMLP, "--token-mixing", "conv", "--mixing-kernel", "5"),
    "heads and relative": (*RESMLP, "--mixing-heads", "4", "--mixing-relative"),
    "gated with a band": (*RESMLP, "--token-mixing", "gated", "--mixing-heads", "4", "--mixing-band", "3"),
    "mixed": (*RESMLP, "--mixing-of-encoder-layers", "ema,gated,attention", "--mixing-of-decoder-layers", "ssru"),
    "mixer": ("mixer_transformer", *RESMLP[1:]),
    "transformer": (
        "transformer_wmt_en_de", *SIZES, "--encoder-attention-heads", "2", "--encoder-layers", "1",
        "--decoder-layers", "2", "--decoder-embed-dim", "24", "--decoder-ffn-embed-dim", "40",
    ),
    "fconv": (
        "fconv_wmt_en_de", "--encoder-embed-dim", "24", "--decoder-embed-dim", "24", "--decoder-out-embed-dim", "20",
        "--encoder-layers", "[(16, 3)] * 2 + [(28, 1)] * 1", "--decoder-layers", "[(16, 3)] + [(20, 5)] * 2",
    ),
    "lstm": (
        "lstm_luong_wmt_en_de", "--encoder-embed-dim", "24", "--decoder-embed-dim", "24",
        "--decoder-out-embed-dim", "20", "--encoder-hidden-size", "32", "--decoder-hidden-size", "32",
        "--encoder-layers", "3", "--decoder-layers", "3",
    ),
}  # fmt: skip


def options_of(arch, *words):
    return training_args(["data", "--arch", arch, *words], arch)


def conv_tbc(x, weight, *rest, **_):
    """2 x output positions x sentences x kernel x channels in x channels out; the backward pass is matrix products."""
    length, batch, _ = x
    kernel, inputs, outputs = weight
    return 2 * (length + 2 * (rest[1] if len(rest) > 1 else 0) - kernel + 1) * batch * kernel * inputs * outputs


def addmm_(into, left, right, **_):
    return 2 * left[0] * left[1] * right[1]


UNKNOWN_TO_TORCH = {torch.ops.aten.conv_tbc: conv_tbc, torch.ops.aten.addmm_: addmm_}


def counted(args, source, target, batch, backward):
    """Return torch's count, without fused attention, whose products the counter does not see."""
    symbols = made_up_dictionary(VOCABULARY)
    model = TranslationTask(TranslationConfig(), symbols, symbols).build_model(args)
    sentences = torch.randint(symbols.nspecial, VOCABULARY, (batch, source + target))
    with FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_TORCH) as counter, sdpa_kernel(SDPBackend.MATH):
        out, _ = model(sentences[:, :source], torch.full((batch,), source), sentences[:, source:])
        if backward:
            out.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("name", MODELS)
def test_the_formula_is_what_torch_counts_and_a_training_step_is_three_forward_passes(name, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    args = options_of(*MODELS[name])
    model = flops.of_options(args, VOCABULARY)
    for source, target in (7, 5), (4, 9):
        assert counted(args, source, target, 3, backward=False) == 3 * model.forward(source, target)
    expected = flops.TRAINING * 2 * model.forward(30, 40)
    # a little less is run: no gradient reaches an LSTM's first state or a convolution's padding
    assert 0.97 * expected < counted(args, 30, 40, 2, backward=True) <= expected


def test_what_is_not_counted_has_no_formula():
    assert flops.of_options(options_of("lightconv"), VOCABULARY) is None


estimate_cost = printed_by("cost")


def test_the_cost_of_resmlp6_by_hand(estimate_cost):
    result = json.loads(estimate_cost("en-de", "--gpu", "A100", "--utilization", "0.5", "--json"))
    costs = {cost["system"]: cost for cost in result["costs"]}
    assert list(costs) == ["lstm", "convs2s", "transformer", "resmlp6", "resmlp12", "gated6", "gated12"]
    d, vocabulary, length = 512, 32_000, 30
    mlp, attention, mixing, output = 8 * d * 2 * d, 8 * d * d + 4 * length * d, 2 * length * d, 2 * d * vocabulary
    per_token, cost = 6 * (mlp + mixing) + 6 * (mlp + mixing + attention) + output, costs["resmlp6"]
    assert cost["flops_per_target_token"] == per_token
    assert cost["target_tokens"] == 300_000 * 8 * 3_584
    assert cost["training_flops"] == pytest.approx(3 * per_token * 300_000 * 8 * 3_584)
    assert cost["gpu_hours"] == pytest.approx(cost["training_flops"] / (312e12 * 0.5) / 3600)
    assert costs["lstm"]["target_tokens"] == 12 * 4_500_000 * 30


def test_the_utilization_is_what_the_log_of_ott_et_al_shows(estimate_cost):
    big = {"embed_dim": 1024, "ffn_embed_dim": 4096, "layers": 6}
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in big.items()}
    model = flops.of_options(Namespace(arch="transformer", **sizes), 40_000)
    shown = 3 * model.forward(37, 37) / 37 * 1.67e6 / 128 / 125e12
    assert json.loads(estimate_cost("en-fr", "--json"))["flops_per_second"] == pytest.approx(shown * 125e12, rel=0.05)


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_the_table_says_that_it_is_an_estimate_and_stands_in_the_readme(estimate_cost, pair):
    out = estimate_cost(pair, "--markdown")
    assert out in (SCRIPTS.parent / f"examples/wmt14_{pair.replace('-', '_')}/README.md").read_text(encoding="utf-8")
    assert out.startswith("| estimate |") and f"| {pair} resmlp12 |" in out
    assert out.endswith("Estimates, for V100 at 14% of 125 TFLOP/s (half precision).\n")
