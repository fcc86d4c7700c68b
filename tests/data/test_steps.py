"""Recorded steps: what is reused or made again, which files are a user's and stay, and room on the disk."""

import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.steps import Step, Steps, check_disk


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resmlp_mt.data.steps.PATIENCE", 0)


def _tree(folder: Path) -> dict[str, bytes | str | bool]:
    """Return everything in a folder: bytes of files, targets of links."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
    }


def _make(folder: Path, *names: str, name: str = "make", options=None, libraries=(), **more: object) -> bool:
    """Run one step that writes some files; return whether it was done, not reused."""
    outputs, worked = [folder / each for each in names], []

    def work() -> dict[str, int]:
        worked.append(True)
        for path in outputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("ours")
        return {"pairs": 12}

    with Steps.of_folder(folder, outputs, **more) as steps:
        steps.run(Step(name, more.get("inputs", []), outputs, options or {}, libraries), work)
        steps.finish()
    return bool(worked)


def test_a_step_is_done_again_where_something_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, text = tmp_path / "out", tmp_path / "text"
    text.write_text("1")
    asked = {"inputs": [text]}
    changes = [
        lambda: None,
        lambda: asked.update(options={"other": 1}),
        lambda: (out / "a").write_text("changed"),
        lambda: (out / "deep" / "b").unlink(),
        lambda: text.write_text("2"),
        lambda: asked.update(libraries=["numpy"]),
    ]
    for change in changes:
        change()
        assert _make(out, "a", "deep/b", **asked)
        assert re.fullmatch(r"make\nmake: 12 pairs in 0\.\d s, [\d,]+ pairs/s\n", capsys.readouterr().out)
        assert not _make(out, "a", "deep/b", **asked)
        assert capsys.readouterr().out == "make: nothing changed, reused\n"
    assert json.loads((out / "times.json").read_text())["make"]["pairs"] == 12  # times have a file of their own
    assert "seconds" not in (out / "steps.json").read_text()
    with Steps.of_folder(out, []), pytest.raises(UserError, match="another run is preparing it: wait"):
        _make(out, "a")


@pytest.mark.parametrize(
    ("name", "content"), [("deep/b", "mine"), ("steps.json", ""), ("steps.json", '{"files": 5, "steps": {}}')]
)
def test_what_is_not_on_record_is_refused_by_name(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
    before = _tree(tmp_path)
    with pytest.raises(UserError, match=rf"/{re.escape(name)}: is not of an earlier preparation, .* --overwrite$"):
        _make(tmp_path, "a", "deep/b")
    assert _tree(tmp_path) == before
    assert _make(tmp_path, "a", "deep/b", overwrite=True)
    assert _make(tmp_path, "a", "deep/b", options={"other": 1})  # now it is ours


@pytest.mark.parametrize(
    ("link", "overwrite"), [("deep", False), ("deep/b", True), ("steps.json", True), ("data-bin/c", True)]
)
def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path, link: str, overwrite: bool) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for folder in (out, elsewhere):
        folder.mkdir()
    (elsewhere / "b").write_text("mine")
    (out / link).parent.mkdir(exist_ok=True)
    (out / link).symlink_to(elsewhere if link in ("deep", "data-bin/c") else elsewhere / "b")
    before = _tree(tmp_path)
    with pytest.raises(UserError, match=rf"/{link}: is a symbolic link, .*: remove it$"):
        _make(out, "deep/b", overwrite=overwrite)
    assert _tree(tmp_path) == before


def test_a_file_in_the_place_of_data_bin_stays(tmp_path: Path) -> None:
    (tmp_path / "data-bin").write_text("mine")
    with pytest.raises(UserError, match="/data-bin: is not of an earlier preparation, and would be lost: move it away"):
        _make(tmp_path, "a", overwrite=True)
    assert (tmp_path / "data-bin").read_text() == "mine"


def test_what_other_options_have_left_goes(tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    _make(out, "a", "b", "deep/c", "linked/d", "e")
    (out / "linked").rename(elsewhere)
    (out / "linked").symlink_to(elsewhere)
    record = json.loads((out / "steps.json").read_text())
    record["files"].append("../victim")
    (out / "steps.json").write_text(json.dumps(record))
    (tmp_path / "victim").write_text("mine")
    _make(out, "e", name="other")
    assert set(_tree(out)) - {"deep", "linked"} == {".lock", "e", "steps.json", "times.json"}
    assert (elsewhere / "d").exists() and (tmp_path / "victim").exists()
    assert set(json.loads((out / "steps.json").read_text())["steps"]) == {"other"}


def test_a_run_that_ends_between_output_and_record_leaves_nothing_foreign(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        with Steps.of_folder(tmp_path, [tmp_path / "a", tmp_path / "b"]) as steps:
            step = Step("make", [], [tmp_path / "a", tmp_path / "b"], {})
            steps.run(step, lambda: (tmp_path / "a").write_text("x") and os._exit(0))
    os.waitpid(child, 0)
    assert (tmp_path / "a").exists()
    assert _make(tmp_path, "b", name="another")
    assert set(_tree(tmp_path)) == {".lock", "b", "steps.json", "times.json"}


@pytest.mark.parametrize("name", ["deep/b", "steps.json", "old"])
def test_inputs_are_not_written_over(tmp_path: Path, name: str) -> None:
    _make(tmp_path, "a", "deep/b", "old")
    before = _tree(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(UserError, match=f"would be written over the input .*{name}"):
            _make(tmp_path, "a", "deep/b", inputs=[tmp_path / name], overwrite=overwrite)
    assert _tree(tmp_path) == before
    (tmp_path / "deep" / "other").write_text("mine")
    _make(tmp_path, "a", "deep/b", inputs=[tmp_path / "deep" / "other"])


def test_what_a_failed_run_did_not_make_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no text"), Steps.of_folder(tmp_path, [tmp_path / "a"]):
        raise UserError("no text")
    (tmp_path / "a").write_text("a user's")
    with pytest.raises(UserError, match="is not of an earlier preparation"):
        _make(tmp_path, "a")
    assert (tmp_path / "a").read_text() == "a user's"


def test_what_a_killed_run_left_unfinished_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match=r"1\.0 kB free on its disk, but about 3\.0 kB needed"):
        check_disk(tmp_path, 1000)
    for name in "tokenized/.train.1.en.01234567.tmp", ".data-bin.01234567.tmp/new/train.bin":
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(bytes(1000))
    check_disk(tmp_path, 1000)
    with pytest.raises(UserError, match=r"about 1\.0 kB needed \(1 bytes of downloads"):
        check_disk(tmp_path, 1000, download=1)
