"""examples/your_own_mixing: registered from outside, trained, generated with, drawn, pruned; it keeps the promises."""

import json
from argparse import Namespace

import fairseq_cli.generate
import fairseq_cli.train
import pytest
import torch
from builders import build
from fairseq.utils import import_user_module
from fairseq_plugin import test_promises
from fairseq_plugin.in_this_process import preprocess, run, training

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from resmlp_mt.fairseq_plugin.trained import model_of
from resmlp_mt.nn import TokenMixing
from resmlp_mt.nn.mixing_kinds import TOKEN_MIXINGS
from scripts import ROOT, printed

EXAMPLE = ROOT / "examples" / "your_own_mixing"


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Register the mixing for the tests of this file only."""
    import_user_module(Namespace(user_dir=str(EXAMPLE)))
    yield
    del TOKEN_MIXINGS["window"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with ``bin`` and ``checkpoint_last.pt``."""
    folder = tmp_path_factory.mktemp("window")
    preprocess(folder / "text", [f"a{i % 5} b{i % 3} c d e f g\n" for i in range(16)], folder / "bin")
    options = "--user-dir", EXAMPLE, "--token-mixing", "window", "--max-update", 3
    run(fairseq_cli.train, *training(folder, folder, *options))
    return folder


def test_it_is_trained_and_generated_with(trained, capsys):
    checkpoint = load_checkpoint(trained / "checkpoint_last.pt")
    assert checkpoint["optimizer_history"][-1]["num_updates"] == 3
    assert type(model_of("", checkpoint).decoder.layers[1].mixing.mixing).__name__ == "WindowMixing"
    capsys.readouterr()
    run(
        fairseq_cli.generate, trained / "bin", "--path", trained / "checkpoint_last.pt", "--user-dir", EXAMPLE,
        *("--beam", 2, "--max-len-b", 9, "--cpu", "--num-workers", 0, "--required-batch-size-multiple", 1),
    )  # fmt: skip
    assert sum(line.startswith("H-") for line in capsys.readouterr().out.splitlines()) == 16


def test_it_is_drawn_and_pruned(trained, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    plot = printed("plot", monkeypatch, capsys)
    plot(trained / "checkpoint_last.pt", "--out", tmp_path, "--user-dir", EXAMPLE, "--length", 8, "--prune", 0.9)
    (one,) = json.loads((tmp_path / "mixing.json").read_text())["checkpoints"]
    for layer in one["mixing"]:
        (profile,) = layer["heads"]
        means = dict(zip(profile["offsets"], profile["mean"], strict=True))
        assert all((mean != 0) == (abs(offset) <= 3) for offset, mean in means.items())
    pruned = load_checkpoint(tmp_path / "pruned-0.9.pt")
    assert model_of("", pruned).encoder.layers[0].mixing.mixing.rows(0, 8).count_nonzero() == 7  # of 64


def test_it_keeps_the_promises():
    dropping = build(token_mixing="window", mixing_dropout=0.3).decoder.layers[0].mixing.mixing
    assert dropping.dropout.p == 0.3
    variant = build(token_mixing="window"), test_promises.options_of({"token_mixing": "window"})
    folded = test_promises.fold_copy(variant[0])
    for is_folded in False, True:
        test_promises.test_batch_and_padding_do_not_matter(variant, folded, is_folded)
        test_promises.test_steps_equal_teacher_forcing(variant, folded, is_folded, left_pad=True)
    test_promises.test_a_batch_trains_as_its_sentences_alone_do(variant)
    test_promises.test_no_position_sees_a_later_one(variant)
    test_promises.test_folding_moves_scores_by_rounding_only(variant, folded)


def test_it_may_read_values_of_tensors_as_it_is_made(monkeypatch):
    class Slopes(TOKEN_MIXINGS["window"]):
        def __init__(self, config):
            super().__init__(config)
            self.slope = float(torch.ones(1))

    monkeypatch.setitem(TOKEN_MIXINGS, "slopes", Slopes)
    assert build(token_mixing="slopes").encoder.layers[0].mixing.mixing.slope == 1


def test_without_its_code_a_checkpoint_is_refused(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(TOKEN_MIXINGS, "window")
    plot = printed("plot", monkeypatch, capsys)
    with pytest.raises(UserError, match=r"checkpoint_last\.pt: --token-mixing is 'window': give one of .*--user-dir"):
        plot(trained / "checkpoint_last.pt", "--out", tmp_path / "out")
    monkeypatch.setitem(TOKEN_MIXINGS, "window", TokenMixing)  # the fixture deletes it at the end
