"""The command with made-up trainings."""

import json
import math
import os
from itertools import pairwise
from pathlib import Path

import pytest
import sacrebleu
from made_runs import kaplan_loss
from score.generated import generate_output

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.scaling import laws
from scripts import printed

REFERENCE, HYPOTHESIS = "ein Satz aus fünf Wörtern", "ein Satz aus fünf Worten"
LAW = {"N_c": 100, "alpha": 0.3, "D_c": 5, "beta": 0.4}


@pytest.fixture
def trained(monkeypatch):
    """Replace fairseq's commands by instant ones; return the names of the cells begun. One without mixing diverges."""
    begun = []

    def train(command, output, log, held, stop, tell=lambda seconds: None):
        option = dict(pairwise(map(str, command)))
        if command[0] == "fairseq_cli.generate":
            best = Path(option["--path"])
            text = REFERENCE if best.parent.name.startswith("none") else HYPOTHESIS
            assert (best.name, best.read_text()) == ("checkpoint_best.pt", "weights")
            output.write_text(generate_output(dict.fromkeys(range(6), text)))
            return
        folder = Path(option["--save-dir"])
        family, size, pairs, _ = folder.name.split("-")
        begun.append(folder.name)
        width, layers = int(option["--encoder-embed-dim"]), int(option["--encoder-layers"])
        lines = []
        for updates in range(10, int(option["--max-update"]) + 1, 10):
            nats = kaplan_loss(width**2 * layers, int(pairs) * updates / 40, LAW) + (family == "none") * 0.1
            told = {"valid_loss": "9", "valid_nll_loss": str(nats / math.log(2)), "valid_num_updates": str(updates)}
            lines.append(f"valid | {json.dumps(told)}")
            lines.append(f'train_inner | {{"update": {updates / 2}, "num_updates": "{updates}"}}')
        if (family, pairs, size) == ("none", "20", "l"):
            lines = [*lines[:2], "FloatingPointError: gradients are Nan/Inf"]
        log.write_text("".join(f"2026-01-01 | INFO | {line}\n" for line in lines))
        (folder / "checkpoint_best.pt").write_text("weights")
        tell(60.0)
        if "FloatingPointError" in lines[-1]:
            raise UserError("fairseq-train failed: gradients are Nan/Inf")
        if folder.name == "transformer-s-5-seed1" and begun.count(folder.name) == 1:
            raise UserError("fairseq-train failed: no space left on device")

    monkeypatch.setattr("resmlp_mt.lab.trainings.queue.run", train)
    monkeypatch.setattr(laws, "RESAMPLES", 20)
    monkeypatch.setattr("resmlp_mt.lab.scaling.study.study_picture", lambda study: b"a picture")  # takes seconds
    return begun


@pytest.fixture
def scale(work, trained, monkeypatch, capsys, tmp_path):
    run = printed("scale", monkeypatch, capsys)
    return lambda recipe, *arguments: run(recipe, "--work", work, "--out", tmp_path / "out", *arguments)


def test_the_page_from_one_command_and_a_broken_study_goes_on(scale, trained, write_study, monkeypatch, tmp_path):
    recipe, out = write_study(), tmp_path / "out"
    out.mkdir()
    (out / "scaling.md").write_text("mine")
    with pytest.raises(UserError, match=r"scaling\.md: is not of an earlier run"):
        scale(recipe)
    (out / "scaling.md").unlink()
    with pytest.raises(UserError, match="not finished: transformer-s-5-seed1"):
        scale(recipe, "--jobs", 2)
    assert len(trained) == 29
    assert "Trends" in (text := (out / "scaling.md").read_text()) and "](scaling.png)" in text
    assert (out / "scaling.png").read_bytes() == b"a picture"

    told = scale(recipe)
    assert trained[29:] == ["transformer-s-5-seed1"]
    assert "29 of 29 trainings are finished. 1 diverged and are left out: none-l-20-seed1." in told
    assert "updates that were done twice: transformer-s-5-seed1 (2 runs)." in (out / "scaling.md").read_text()
    assert not list(out.glob("cells/*/checkpoint*.pt"))
    study = json.loads((out / "scaling.json").read_text())
    assert study.keys() >= {"command", "commit", "date", "machine", "trained", "tables"}
    cell = {"family": "transformer", "size": "m", "pairs": 10, "seed": 2}
    run = next(run for run in study["runs"] if run["cell"] == cell)
    assert run["updates"] == [10, 20, 30, 40] and run["losses"][-1] == pytest.approx(kaplan_loss(256, 10, LAW))
    differences = study["tables"]["Loss minus that of transformer"]["rows"]
    assert differences["none, m"][1:] == 3 * ["+0.100"] and differences["none, l"][3] == ""
    bleu = sacrebleu.corpus_bleu(6 * [HYPOTHESIS], [6 * [REFERENCE]]).score
    assert 0 < bleu < 99 and run["bleu"] == pytest.approx(bleu)
    differences = study["tables"]["BLEU minus that of transformer"]["rows"]
    assert differences["heads, m"][1:] == 3 * ["+0.0"] and differences["none, m"][1:] == 3 * [f"{100 - bleu:+.1f}"]
    trends = study["tables"]["Trends of the difference"]["rows"]
    assert trends["none minus transformer, BLEU"][1].startswith(f"{100 - bleu:.3g} [")
    monkeypatch.setattr("resmlp_mt.lab.drawing.wants_pictures", lambda: False)
    scale(recipe, "--retrain", "heads-s-5-seed1")
    assert trained[30:] == ["heads-s-5-seed1"] and "](scaling.png)" not in (out / "scaling.md").read_text()
    told = scale(write_study(("--beam 4", "--beam 2")), "--table")
    assert "none-l-20-seed1. 28 have no translation by --beam 2, so no BLEU: --retrain" in told


def test_samples_are_made_once_and_others_refused(scale, trained, write_study, monkeypatch, tmp_path):
    recipe, replace = write_study(), os.replace

    def killed(source, target):
        if Path(target).name == "sample.json":
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "replace", killed)  # a kill between a sample and its record leaves no sample
        scale(recipe, "--table")
    with pytest.raises(UserError, match="no cell is finished"):
        scale(recipe, "--table")
    record = tmp_path / "out" / "data" / "10" / "sample.json"
    assert json.loads(record.read_text())["seed"] == 1
    record.write_text("{}")
    with pytest.raises(UserError, match="data/10: a sample of other data: remove it, or choose another --out"):
        scale(recipe, "--table")
    assert not trained


def test_a_dry_run_tells_cells_and_hours_and_writes_nothing(scale, trained, write_study, work, tmp_path):
    told = scale(write_study(), "--dry-run").splitlines()
    assert told[0].split()[:2] == ["cell", "non-embedding"] and told[0].endswith("hours so far")
    assert len(told) == 1 + 29 and float(told[-1].split()[-1]) > 0
    (work / "tokens.de").write_text("ein Satz .\n" * 6)
    with pytest.raises(UserError, match=r"tokens\.de: tokens, not running text"):
        scale(write_study(("valid.de", "tokens.de")), "--dry-run")
    (work / "tokens.de").unlink()
    assert not trained and not (tmp_path / "out").exists()
