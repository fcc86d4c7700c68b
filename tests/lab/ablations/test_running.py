"""A row's folder and its record, without a training."""

import json
import os
from dataclasses import replace
from threading import Event

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.ablations.recipe import read_recipe
from resmlp_mt.lab.ablations.running import RowFolder, finish_rows, time_left

RECORD = {
    "training": {"options": ["--lr", "1"], "data": {"dict.en.txt": "0"}},
    "processor_seconds": [1.5, 0.0],
    "trained": {"on": "2026-01-01"},
    "search": ["--beam", "4"],
}


@pytest.fixture
def row(write_recipe, tmp_path):
    recipe = read_recipe(write_recipe(tmp_path / "recipe.yaml"))
    return RowFolder("paper", 1, tmp_path / "data-bin", {"dict.en.txt": "0"}, tmp_path / "out" / "paper", recipe)


def changed(**changes):
    return json.dumps({key: value for key, value in (RECORD | changes).items() if value is not None})


BROKEN = {
    "no record": None,
    "cut": changed()[:20],
    "list": "[1]",
    "number": "5",
    "training missing": changed(training=None),
    "training a list": changed(training=[1]),
    "options a number": changed(training={"options": 5, "data": {}}),
    "options of numbers": changed(training={"options": [5], "data": {}}),
    "data a list": changed(training={"options": [], "data": ["x"]}),
    "seconds missing": changed(processor_seconds=None),
    "seconds text": changed(processor_seconds=["1"]),
    "seconds no number": changed(processor_seconds=[float("nan")]),
    "seconds negative": changed(processor_seconds=[-1]),
    "trained a list": changed(trained=["today"]),
    "trained of numbers": changed(trained={"on": 5}),
    "search text": changed(search="--beam 4"),
    "search of texts": changed(search={"test": "--beam 4"}),
    "search of lists": changed(search=[["--beam", "4"]]),
}


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("record", BROKEN.values(), ids=[name.replace(" ", "-") for name in BROKEN])
def test_a_folder_without_a_record_of_its_files_is_neither_gone_on_with_nor_emptied(row, record, anew):
    row.folder.mkdir(parents=True)
    (row.folder / "checkpoint_last.pt").write_text("somebody's")
    if record is not None:
        (row.folder / "row.json").write_text(record)
    before = sorted(path.name for path in row.folder.iterdir())
    with pytest.raises(UserError, match=r"out/paper: its row\.json does not tell what is in it: remove the folder"):
        row.finish(Event(), anew)
    assert sorted(path.name for path in row.folder.iterdir() if path.name != ".lock") == before
    assert not row.finished


def test_another_row_s_record_is_no_reason_to_go_on_but_to_begin_anew(row):
    row.folder.mkdir(parents=True)
    (row.folder / "row.json").write_text(changed())
    with pytest.raises(UserError, match=r"trained with other options .*--anew paper trains it again"):
        row.finish(Event())


def test_a_folder_that_cannot_be_read_is_one_line(row):
    row.folder.mkdir(parents=True)
    (row.folder / "row.json").write_text(changed(training=row._training, trained={}))
    row.log.symlink_to("nowhere/train.log")
    [(_, error)] = finish_rows([row], 10**9)
    assert error == f"{row.log}: No such file or directory"


def test_what_a_kill_leaves_before_the_record_is_nobody_s(row, monkeypatch):
    row.folder.mkdir(parents=True)
    for name in ".lock", ".row.json.x.tmp":
        (row.folder / name).touch()
    row._check_folder()
    os.mkdir(row.folder / "checkpoints")
    with pytest.raises(UserError):
        row._check_folder()


def test_the_time_that_is_left_is_that_of_the_rows_before(row):
    other = replace(row, name="relu")
    assert time_left([row, other], {}, 1) is None
    assert time_left([row, other], {"paper": 60.0, "broken": 30.0}, 2) == (60 + 45) / 2
    assert time_left([], {"paper": 60.0}, 2) == 0
    assert time_left([row], {"paper": 60.0}, 4) == 60  # three jobs have nothing to do
