"""Tuning by a recipe: as many trials for each row, rounds from which the best go on, and a table of all trials."""

import json

import pytest
from test_ablate import run_forked

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.ablations import tuning
from resmlp_mt.lab.ablations.recipe import read_recipe
from resmlp_mt.lab.ablations.tuning import Result, choices, round_of
from scripts import in_process

TUNE = """
subset: nowhere
epochs: {relu: 36}
tune:
  trials: 4
  rounds: [2, 4]
  space:
    all: {rate: ["--lr 1e-9", "--lr 0.01"], clip: ["", "--clip-norm 1", "--clip-norm 2"]}
    relu: {norm: [--norm layernorm]}
"""


@pytest.fixture
def recipe(write_recipe, tmp_path):
    path = write_recipe(tmp_path / "recipe.yaml")
    path.write_text(path.read_text() + TUNE)
    return path


def test_every_row_has_as_many_trials_all_different_and_its_share_of_a_round(recipe):
    read = read_recipe(recipe)
    for row in read.rows:
        first, *others = chosen = choices(read, row)
        assert first == "" and len(set(chosen)) == 4 and chosen == choices(read, row)
        assert all("--lr" in each and ("--norm layernorm" in each) == (row == "relu") for each in others)
    assert set(choices(read, "paper")) != set(choices(read, "broken"))  # each row draws its own
    this = round_of(read, {"paper": [2], "relu": [1, 3]}, 4)
    assert this.epochs == {"paper.2": 4, "relu.1": 6, "relu.3": 6}  # in proportion to 24 and 36 epochs
    assert this.own_options("relu.3") == ["--activation-fn", "relu", *choices(read, "relu")[2].split()]


def test_the_best_and_the_row_as_it_stands_go_on_and_nothing_is_repeated(recipe, work, tmp_path, monkeypatch, capsys):
    commands = []

    def train(command, output, log, *others):
        commands.append(command)
        if log.parent.name == "paper.4":
            log.write_text("FloatingPointError: gradients are Nan/Inf\n")
            raise UserError("fairseq-train failed")
        run_forked(command, output, log, *others)

    monkeypatch.setattr("resmlp_mt.lab.trainings.queue.run", train)
    arguments = (recipe, "--work", work, "--out", tmp_path / "out", "--jobs", 2, "--rows", "paper")
    for _ in range(2):
        in_process("ablate", monkeypatch)(*arguments)
        assert [command[0] for command in commands] == 6 * ["fairseq_cli.train"]
    in_process("ablate", monkeypatch)(*arguments[:-1], "relu", "--table")  # the other rows' trials are kept
    trials = json.loads((tmp_path / "out" / "tuning.json").read_text())["trials"]
    assert [each["epochs"] for each in trials] == [4, 4, 2, 2, 2, 2]
    *others, diverged = trials
    second, first = others[:2], others[2:]
    assert [each["perplexity"] for each in second] == sorted(each["perplexity"] for each in second)
    assert (diverged["trial"], diverged["perplexity"]) == (4, None)
    best = next(each["trial"] for each in first if each["trial"] != 1)
    assert {each["trial"] for each in second} == {1, best}
    assert first[-1]["trial"] not in (1, best) and "--lr 1e-9" in first[-1]["options"]  # too low to learn anything
    table = (tmp_path / "out" / "tuning.md").read_text()
    assert all(f"| paper | {each['trial']} | {each['epochs']} | {each['perplexity']:.2f} |" in table for each in others)
    assert "valid. perplexity" in capsys.readouterr().out
    left = tmp_path / "out" / "4-epochs" / f"paper.{({2, 3} - {best}).pop()}" / ".left"  # of a trial that did not go on
    left.parent.mkdir()
    left.touch()
    in_process("ablate", monkeypatch)(*arguments, "--retrain", "paper")
    assert len(commands) == 12 and not left.exists()
    recipe.write_text(recipe.read_text().replace("--dropout 0.1", "--dropout 0.2"))
    for out, told in ("out", "A table: no trial is finished"), ("o:x", "fairseq misreads names that contain"):
        with pytest.raises(UserError, match=told):
            in_process("ablate", monkeypatch)(recipe, "--work", work, "--out", tmp_path / out, "--table")
    assert "| paper | 1 | 4 |" in (tmp_path / "out" / "tuning.md").read_text()


def test_of_what_diverged_the_unchanged_row_alone_goes_on(recipe, tmp_path, monkeypatch):
    trained = []

    def diverged(_, trials):
        return [Result(each.name[:-2], int(each.name[-1]), "", 2, None, 0.0, {}) for each in trials]

    monkeypatch.setattr(tuning, "results", diverged)
    monkeypatch.setattr(tuning.queue, "digests", lambda data: {})
    monkeypatch.setattr(tuning.queue, "train_all", lambda trials, _: trained.append([each.name for each in trials]))
    tuning.tune(read_recipe(recipe), tmp_path, tmp_path, 1, frozenset({"paper"}), frozenset(), train=True)
    assert trained == [[f"paper.{number}" for number in (1, 2, 3, 4)], ["paper.1"]]


def test_too_few_different_trials_are_told(recipe):
    recipe.write_text(recipe.read_text().replace("trials: 4", "trials: 7"))  # --lr 0.01 is what the row has anyhow
    with pytest.raises(UserError, match="paper has fewer than 7 different trials"):
        choices(read_recipe(recipe), "paper")
