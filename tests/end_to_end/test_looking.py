"""resmlp-mt plot on what fairseq-train left, and fairseq-generate on what it left."""

import pytest
import torch
from fairseq_commands import VALID

from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from scripts import printed

pytest.importorskip("matplotlib")


@pytest.fixture
def plot_mixing(monkeypatch, capsys):
    """The command without its pictures, which take most of the time."""
    monkeypatch.setattr("resmlp_mt.lab.analysis.pictures.png", lambda figure: b"")
    return printed("plot", monkeypatch, capsys)


def longest(path):
    """Positions of the longest line, ``</s>`` included."""
    return max(len(line.split()) + 1 for line in path.read_text().splitlines())


def test_a_pruned_checkpoint_translates_and_is_zero_where_it_says(plot_mixing, generate, trained, corpus, tmp_path):
    path = trained[0] / "checkpoint_best.pt"
    positions = {"encoder": longest(corpus / "train.bpe.de"), "decoder": longest(corpus / "train.bpe.en")}
    out = plot_mixing(path, "--out", tmp_path, "--prune", "0.1", "1")
    shown = {side: int(out.split(f"{side}: positions 1 to ")[1].split()[0]) for side in positions}
    assert all(positions[side] / 2 < shown[side] <= positions[side] for side in positions)

    hypotheses = {
        name: generate("--max-len-b", 9, path=file).lines("H") for name, file in
        {"whole": path, "0.1": tmp_path / "pruned-0.1.pt", "1": tmp_path / "pruned-1.pt"}.items()
    }  # fmt: skip
    assert all(len(found) == VALID for found in hypotheses.values())
    assert hypotheses["1"] != hypotheses["whole"]  # a bag of words
    whole, pruned = (load_checkpoint(file)["model"] for file in (path, tmp_path / "pruned-1.pt"))
    for key in whole:
        if key.endswith("mixing.mixing.weight"):
            length = shown[key.split(".")[0]]
            whole[key][:length, :length] = 0
        assert torch.equal(pruned[key], whole[key])


def test_an_average_is_shown_up_to_the_longest_sentence_of_the_training(plot_mixing, trained, corpus, tmp_path):
    state = load_checkpoint(trained[0] / "checkpoint_best.pt")
    torch.save({**state, "last_optimizer_state": {}}, tmp_path / "average.pt")
    lines = plot_mixing(tmp_path / "average.pt", "--out", tmp_path).splitlines()
    source, target = (longest(corpus / f"train.bpe.{side}") for side in ("de", "en"))
    assert lines[:2] == [f"encoder: positions 1 to {source}", f"decoder: positions 1 to {target}"]
