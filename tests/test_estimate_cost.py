import json
from argparse import Namespace

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.analysis import flops
from scripts import SCRIPTS, printed

BIG = {"embed_dim": 1024, "ffn_embed_dim": 4096, "layers": 6}


@pytest.fixture
def estimate_cost(monkeypatch, capsys):
    return printed("cost", monkeypatch, capsys)


def test_the_costs_of_all_systems_by_hand(estimate_cost):
    result = json.loads(estimate_cost("en-de", "--gpu", "A100", "--utilization", "0.5", "--json"))
    costs = {cost["system"]: cost for cost in result["costs"]}
    assert list(costs) == ["lstm", "convs2s", "transformer", "resmlp6", "resmlp12", "gated6", "gated12"]
    d, vocabulary, length = 512, 32_000, 30
    mlp, attention, mixing, output = 8 * d * 2 * d, 8 * d * d + 4 * length * d, 2 * length * d, 2 * d * vocabulary
    gated = mixing + 6 * d * d  # values, gates, output
    bands = 6 * 2 * d * 8 * 7 + 6 * 2 * d * 8 * 4  # of eight heads, three positions far
    by_hand = {
        "transformer": 6 * (mlp + attention) + 6 * (mlp + 2 * attention) + output,
        "resmlp6": 6 * (mlp + mixing) + 6 * (mlp + mixing + attention) + output,
        "resmlp12": 12 * (mlp + mixing) + 12 * (mlp + mixing + attention) + output,
        "gated6": 6 * (mlp + gated) + 6 * (mlp + gated + attention) + bands + output,
    }
    for system, per_token in by_hand.items():
        assert costs[system]["flops_per_target_token"] == per_token
    cost = costs["resmlp6"]
    assert cost["target_tokens"] == 300_000 * 8 * 3_584
    assert cost["training_flops"] == pytest.approx(3 * by_hand["resmlp6"] * 300_000 * 8 * 3_584)
    assert cost["gpu_hours"] == pytest.approx(cost["training_flops"] / (312e12 * 0.5) / 3600)
    assert costs["lstm"]["target_tokens"] == 12 * 4_500_000 * 30


def test_the_utilization_is_what_the_log_of_ott_et_al_shows(estimate_cost):
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in BIG.items()}
    big = flops.of_options(Namespace(arch="transformer", **sizes), 40_000)
    shown = 3 * big.per_target_token(37, 37) * 1.67e6 / 128 / 125e12
    assert json.loads(estimate_cost("en-fr", "--json"))["flops_per_second"] == pytest.approx(shown * 125e12, rel=0.05)


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_the_table_says_that_it_is_an_estimate_and_stands_in_the_readme(estimate_cost, pair):
    out = estimate_cost(pair, "--markdown")
    assert out in (SCRIPTS.parent / f"examples/wmt14_{pair.replace('-', '_')}/README.md").read_text(encoding="utf-8")
    assert out.startswith("| estimate |") and f"| {pair} resmlp12 |" in out
    assert out.endswith("Estimates, for V100 at 14% of 125 TFLOP/s (half precision).\n")


def test_what_cannot_be_estimated_is_refused(estimate_cost):
    with pytest.raises(UserError, match="no pair en-cs: give en-de or en-fr"):
        estimate_cost("en-cs")
    with pytest.raises(SystemExit):
        estimate_cost("--utilization", "1.5")


def test_it_can_be_started_anywhere_and_a_pair_counts_once(estimate_cost, monkeypatch, tmp_path):
    here = estimate_cost("en-fr")
    monkeypatch.chdir(tmp_path)
    assert estimate_cost("en-fr", "en-fr") == here


def test_without_the_recipes_they_are_named(estimate_cost, monkeypatch, tmp_path):
    monkeypatch.setattr(flops, "ROOT", tmp_path)
    with pytest.raises(UserError, match=r"train\.sh: no such file: the recipes are in the checkout"):
        estimate_cost("en-de")
