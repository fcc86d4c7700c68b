"""A row's folder and its record, without a training."""

import json
from dataclasses import replace
from threading import Event

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.ablations.recipe import RowFolder, read_recipe
from resmlp_mt.lab.trainings.queue import time_left

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


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("record", [None, changed()[:20], changed(training=None)])
def test_a_folder_without_a_record_of_its_files_is_neither_gone_on_with_nor_emptied(row, record, anew):
    row.folder.mkdir(parents=True)
    (row.folder / "checkpoint_last.pt").write_text("somebody's")
    if record is not None:
        (row.folder / "row.json").write_text(record)
    before = sorted(path.name for path in row.folder.iterdir())
    with pytest.raises(UserError, match=r"out/paper: its row\.json does not tell what is in it: remove the folder"):
        row.finish(Event(), anew, {})
    assert sorted(path.name for path in row.folder.iterdir() if path.name != ".lock") == before
    assert not row.finished


def test_another_row_s_record_is_no_reason_to_go_on_but_to_begin_anew(row):
    row.folder.mkdir(parents=True)
    (row.folder / "row.json").write_text(changed())
    with pytest.raises(UserError, match=r"trained with other options .*--retrain paper trains it again"):
        row.finish(Event(), False, {})


def test_the_time_that_is_left_is_that_of_the_rows_before(row):
    other = replace(row, name="relu")
    assert time_left([row, other], {}, 1) is None
    assert time_left([row, other], {"paper": 60.0, "broken": 30.0}, 2) == (60 + 45) / 2
    assert time_left([], {"paper": 60.0}, 2) == 0
    assert time_left([row], {"paper": 60.0}, 4) == 60  # three jobs have nothing to do
