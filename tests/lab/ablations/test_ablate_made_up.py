"""The command with made-up trainings: rows run again or retrained, with seeds, on other subsets."""

import json
import re
import sys
from functools import partial
from itertools import pairwise, product
from pathlib import Path

import numpy
import pytest
import torch
from builders import binarize
from sacrebleu.significance import PairedTest
from score.generated import generate_output

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.ablations.table import difference
from resmlp_mt.score.scoring import paired_bootstrap
from scripts import printed

PERPLEXITY = {("paper", 1): 5.0, ("paper", 3): 5.4, ("relu", 1): 4.0, ("relu", 3): 4.1}
REFERENCE = [f"number {number} is a sentence of the made-up text." for number in range(20)]


def translation(row, seed):
    """Return translations; the first words of some are wrong."""
    return ["wrong" * (number < 8 - seed - 3 * (row == "relu")) + line for number, line in enumerate(REFERENCE)]


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    (folder / "data-bin").mkdir(parents=True)
    (folder / "data-bin" / "dict.en.txt").write_text("word 1\n")
    for subset, side in product(("test", "valid"), ("de", "en")):
        binarize(folder / "data-bin", subset, side, [[2]] * len(REFERENCE), "de-en")
        (folder / f"{subset}.{side}").write_text("".join(f"{line}\n" for line in REFERENCE))
    return folder


@pytest.fixture
def commands(monkeypatch):
    """Replace fairseq's commands by instant ones; return what was started: ("train" or the subset, row, seed)."""
    begun = []

    def run(command, output, log, held, stop, tell=lambda seconds: None):
        module, *words = map(str, command)
        option = dict(pairwise(words))
        if module == "fairseq_cli.train":
            folder, seed = Path(option["--save-dir"]), int(option["--seed"])
            begun.append(("train", folder.name, seed))
            if folder.name == "broken":
                raise UserError("fairseq-train failed: --dropout is 2.0")
            lines = ["fairseq_cli.train | num. shared model params: 9 (num. trained: 9)"]
            perplexity = str(PERPLEXITY.get((folder.name, seed), 6.0))
            history = {"args": None, "extra_state": {}, "optimizer_history": [{}]}
            for epoch in range(1, int(option["--max-epoch"]) + 1):
                updates = str(5 * epoch)
                for kind, told in (
                    ("train_inner", {"wps": "100", "num_updates": updates}),
                    ("train", {"epoch": epoch, "train_num_updates": updates}),
                    ("valid", {"epoch": epoch, "valid_ppl": perplexity, "valid_num_updates": updates}),
                ):
                    lines.append(f"{kind} | {json.dumps(told)}")
                torch.save({"model": {"weight": torch.ones(1)}, **history}, folder / f"checkpoint{epoch}.pt")
            log.write_text("".join(f"2026-01-01 | INFO | {line}\n" for line in lines))
            tell(60.0)
        else:
            folder = Path(option["--path"]).parent
            seed = int(folder.parent.name.removeprefix("seed")) if folder.parent.name.startswith("seed") else 1
            begun.append((option["--gen-subset"], folder.name, seed))
            words = (line.replace(".", " .") for line in translation(folder.name, seed))
            output.write_text(generate_output(dict(enumerate(words))))

    monkeypatch.setattr("resmlp_mt.lab.trainings.queue.run", run)
    return begun


@pytest.fixture
def ablate(work, commands, monkeypatch, capsys, tmp_path):
    for picture in "drawing.save", "draw_curves":  # slow, and tested elsewhere
        monkeypatch.setattr(f"resmlp_mt.lab.ablations.table.{picture}", lambda *arguments: None)
    monkeypatch.setattr("resmlp_mt.score.scoring.PairedTest", partial(PairedTest, n_samples=50))  # not 1,000
    run = printed("ablate", monkeypatch, capsys)
    return lambda recipe, *arguments: run(recipe, "--work", work, "--out", tmp_path / "out", *arguments)


@pytest.fixture
def recipe(write_recipe, tmp_path):
    """A function that writes a recipe with the lines of ``settings`` instead of the seed, and no row ``broken``."""

    def write(settings, name="recipe"):
        path = write_recipe(tmp_path / f"{name}.yaml", max_epoch=2)
        path.write_text(path.read_text().replace("seed: 1", settings).replace("  broken: --dropout 2\n", ""))
        return path

    return write


def test_every_row_is_trained_once_a_seed_and_a_seed_more_trains_only_that(ablate, commands, recipe):
    out = ablate(recipe("seeds: [3, 1]"), "--jobs", 2)
    done = {("paper", 3), ("relu", 3), ("paper", 1), ("relu", 1)}
    assert {(row, seed) for kind, row, seed in commands if kind == "train"} == done and len(commands) == 2 * len(done)
    assert "to run: 4 trainings, 2 at a time" in out and "relu, seed 3: finished" in out
    commands.clear()
    more = recipe("seeds: [3, 1, 2]")
    more.write_text(more.read_text().replace("A table", "More"))
    ablate(more)
    assert {(row, seed) for _, row, seed in commands} == {("paper", 2), ("relu", 2)}
    commands.clear()
    other = recipe("seeds: [3, 1]")
    with pytest.raises(UserError, match=r"table\.json: is of 'More', not 'A table': move table"):
        ablate(other, "--retrain", "paper")  # it has no seed 2
    assert not commands  # it is told before anything is trained
    other.write_text(other.read_text().replace("--beam 4", "--beam 2").replace("A table", "More"))
    assert "to run" not in ablate(other)  # no training is needed
    assert {kind for kind, *_ in commands} == {"test"}


def test_the_table_has_means_spreads_intervals_and_pairs_of_the_same_seed(ablate, recipe, tmp_path):
    ablate(recipe("seeds: [3, 1]"))
    table = json.loads((tmp_path / "out" / "table.json").read_text())
    runs = {(run["name"], run["seed"]): run for run in table["figures"]}
    for seed in 3, 1:
        compared = paired_bootstrap(translation("relu", seed), translation("paper", seed), REFERENCE, "en")
        assert runs["relu", seed]["bootstrap"] == compared
        assert runs["paper", seed]["bootstrap"] is None
    relu, paper = ([runs[name, seed]["scores"]["sacrebleu"]["score"] for seed in (3, 1)] for name in ("relu", "paper"))
    spread = {"mean": pytest.approx(numpy.mean(relu)), "sd": pytest.approx(numpy.std(relu, ddof=1))}
    assert table["over seeds"]["relu"]["sacrebleu"] == spread
    found = table["differences"]["relu"]["sacrebleu"]
    assert found == vars(difference(relu, paper))
    assert found["low"] < found["mean"] < found["high"]
    over_seeds = f"{numpy.mean(relu):.2f} +- {numpy.std(relu, ddof=1):.2f}"
    assert f"| relu | 2 | 4.05 +- 0.07 | {over_seeds} |" in (tmp_path / "out" / "table.md").read_text()


def test_settings_are_chosen_on_valid_and_test_is_scored_once(ablate, commands, recipe, tmp_path):
    choosing = recipe("subset: valid", "choosing")
    choosing.write_text(choosing.read_text().replace("test.en", "valid.en"))
    assert "Scores: valid, valid.en." in ablate(choosing)
    assert not (tmp_path / "out" / "table.md").exists()
    before = (tmp_path / "out" / "table.valid.json").read_bytes()
    (tmp_path / "out" / "training.png").touch()  # both tables share it; it is not drawn here
    commands.clear()

    assert "Scores: test, test.en." in ablate(recipe("subset: test", "last"), "--rows", "relu")
    assert commands == [("test", "relu", 1)]  # the training is the same
    assert (tmp_path / "out" / "table.valid.json").read_bytes() == before


@pytest.mark.parametrize("name", ["table.png", "training.png", "table.md", "tuning.md"])
def test_a_user_s_files_are_not_written_over(ablate, commands, recipe, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(UserError, match=f"{name}: is not of an earlier run"):
        ablate(recipe("tune: {trials: 1, rounds: [1], space: {}}" if name == "tuning.md" else "seed: 1"))
    assert not commands


def test_another_text_or_subset_is_told_before_any_training(ablate, commands, recipe, work):
    (work / "test.en").write_text("one line\n")
    for settings, message in (("seed: 1", "test set, which has 20 sentences"), ("subset: tset", "no such file")):
        with pytest.raises(UserError, match=message):
            ablate(recipe(settings))
    assert not commands


def test_a_training_that_fails_is_told_and_does_not_stop_the_others(ablate, recipe, capsys, tmp_path):
    path = recipe("seeds: [1, 2]")
    path.write_text(f"{path.read_text()}  broken: --dropout 2\n")
    with pytest.raises(UserError, match=r"not finished: broken, seed 1; broken, seed 2$"):
        ablate(path)
    output, errors = capsys.readouterr()
    assert errors.splitlines() == [f"broken, seed {seed}: fairseq-train failed: --dropout is 2.0" for seed in (1, 2)]
    assert "paper, seed 2: finished" in output and "relu, seed 2: finished" in output
    assert re.search(r"^\| broken \|( +\|)+$", (tmp_path / "out" / "table.md").read_text(), re.MULTILINE)


def test_a_row_with_other_options_needs_retrain(ablate, commands, recipe, tmp_path, capsys, monkeypatch):
    path = recipe("seed: 1")
    ablate(path)
    (tmp_path / "out" / "relu" / "left").touch()
    path.write_text(path.read_text().replace("fn relu", "fn relu --dropout 0.2"))
    commands.clear()
    with pytest.raises(UserError, match="not finished: relu"):
        ablate(path)
    assert "out/relu: trained with other options, see row.json: --retrain relu" in capsys.readouterr().err
    ablate(path, "--table")
    assert not commands
    ablate(path, "--rows", "relu", "--retrain", "relu")
    assert commands == [("train", "relu", 1), ("test", "relu", 1)]
    assert not (tmp_path / "out" / "relu" / "left").exists()
    commands.clear()
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr("resmlp_mt.lab.ablations.table.train_all", lambda *_: sys.exit())
        ablate(path, "--retrain", "paper", "relu")
    ablate(path)  # goes on after the break
    assert {row for kind, row, _ in commands if kind == "train"} == {"paper", "relu"}
