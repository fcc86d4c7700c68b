"""Steps on record: what is ours and is made again when it must be, and what stays a user's; the disk."""

import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.progress import Progress
from resmlp_mt.data.steps import Step, Steps, check_disk, text_bytes


def _tree(folder: Path) -> dict[str, bytes | str | None]:
    """Everything in a folder: bytes of files, targets of links."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = content
    return found


def _make(folder: Path, *names: str, name: str = "make", options: dict[str, int] | None = None, **more: object) -> bool:
    """Run one step that writes some files; whether it had to work."""
    outputs, worked = [folder / each for each in names], []

    def work() -> dict[str, int]:
        worked.append(True)
        for path in outputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("ours")
        return {"pairs": 12}

    with Steps.of_folder(folder, outputs, **more) as steps:
        steps.run(Step(name, [], outputs, options or {}), work)
        steps.finish()
    return bool(worked)


def test_a_step_is_done_again_where_something_differs(tmp_path: Path) -> None:
    assert _make(tmp_path, "a", "deep/b")
    assert not _make(tmp_path, "a", "deep/b")
    assert _make(tmp_path, "a", "deep/b", options={"other": 1})
    (tmp_path / "a").write_text("changed")
    assert _make(tmp_path, "a", "deep/b", options={"other": 1})
    (tmp_path / "a").unlink()
    assert _make(tmp_path, "a", "deep/b", options={"other": 1})
    assert not _make(tmp_path, "a", "deep/b", options={"other": 1})


def test_inputs_and_libraries_count_too(tmp_path: Path) -> None:
    text = tmp_path / "text"
    done = []
    for content, libraries in (("1", []), ("1", []), ("2", []), ("2", ["numpy"])):
        text.write_text(content)
        step = Step("make", [text], [tmp_path / "out" / "a"], {}, libraries)
        with Steps.of_folder(tmp_path / "out", step.outputs, step.inputs) as steps:
            steps.run(step, lambda step=step: done.append(step) or {"pairs": step.outputs[0].write_text("ours")})
            steps.finish()
    assert len(done) == 3


def test_times_are_kept_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        _make(tmp_path, "a")
    assert json.loads((tmp_path / "times.json").read_text())["make"]["pairs"] == 12
    assert "seconds" not in (tmp_path / "steps.json").read_text()
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"make: 12 pairs in 0\.\d s, [\d,]+ pairs/s", lines[1])
    assert lines[2:] == ["make: nothing changed, reused"]


@pytest.mark.parametrize("name", ["deep/b", "data-bin/notes/mine", "steps.json"])
def test_what_is_not_on_record_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = _tree(tmp_path)
    with pytest.raises(UserError, match=rf"/{re.escape(name)}: is not of an earlier preparation, .* --overwrite$"):
        _make(tmp_path, "a", "deep/b")
    assert _tree(tmp_path) == before
    assert _make(tmp_path, "a", "deep/b", overwrite=True)
    (tmp_path / "data-bin/notes/mine").unlink(missing_ok=True)  # (where the step does not replace the folder)
    assert _make(tmp_path, "a", "deep/b", options={"other": 1})  # now it is ours


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("link", ["deep", "deep/b", "steps.json"])
def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path, link: str, overwrite: bool) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for folder in (out, elsewhere):
        folder.mkdir()
    (elsewhere / "b").write_text("mine")
    (out / link).parent.mkdir(exist_ok=True)
    (out / link).symlink_to(elsewhere if link == "deep" else elsewhere / "b")
    before = _tree(tmp_path)
    with pytest.raises(UserError, match=rf"/{link}: is a symbolic link, .*: remove it$"):
        _make(out, "deep/b", overwrite=overwrite)
    assert _tree(tmp_path) == before


@pytest.mark.parametrize("content", ["", "{}", '{"files": 5, "steps": {}}'])
def test_what_is_no_record_of_ours_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "steps.json").write_text(content)
    with pytest.raises(UserError, match=r"/steps\.json: is not of an earlier preparation"):
        _make(tmp_path, "a")
    assert (tmp_path / "steps.json").read_text() == content
    assert _make(tmp_path, "a", overwrite=True)


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


@pytest.mark.parametrize("name", ["a", "deep/b", "steps.json", "data-bin/x", "old"])
def test_inputs_are_not_written_over(tmp_path: Path, name: str) -> None:
    _make(tmp_path, "a", "deep/b", "old")
    before = _tree(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(UserError, match=f"would be written over the input .*{name}"):
            _make(tmp_path, "a", "deep/b", inputs=[tmp_path / name], overwrite=overwrite)
    assert _tree(tmp_path) == before
    _make(tmp_path, "a", "deep/b", inputs=[tmp_path / "deep" / "other"])


def test_one_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resmlp_mt.data.steps.PATIENCE", 0)
    with (
        Steps.of_folder(tmp_path, []),
        pytest.raises(UserError, match="another run is preparing it: wait"),
    ):
        _make(tmp_path, "a")


def test_progress_in_a_log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Progress("silent") as progress:
        progress.add(10, {"empty": 1})
    assert progress.outcome == {"kept": 9, "dropped": {"empty": 1}}
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("resmlp_mt.common.progress.PAUSE", 0.0)
    with Progress("learn", total=3000, unit="merges") as progress:
        progress.add(0)
        progress.add(1000, {"ratio": 2, "empty": 1})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "learn: 0 s so far"
    assert re.fullmatch(r"learn: 1,000 of 3,000 merges, [\d,]+ merges/s, dropped: 1 empty, 2 ratio", lines[1])


def test_what_a_failed_run_did_not_make_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no text"), Steps.of_folder(tmp_path, [tmp_path / "a"]):
        raise UserError("no text")
    (tmp_path / "a").write_text("a user's")
    with pytest.raises(UserError, match="is not of an earlier preparation"):
        _make(tmp_path, "a")
    assert (tmp_path / "a").read_text() == "a user's"


def _sized(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_what_a_killed_run_left_unfinished_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match=r"1\.0 kB free on its disk, but about 3\.0 kB needed"):
        check_disk(tmp_path, 1000)
    _sized(tmp_path / "tokenized" / ".train.1.en.01234567.tmp", 1000)
    _sized(tmp_path / ".data-bin.01234567.tmp" / "new" / "train.bin", 1000)
    check_disk(tmp_path, 1000)
    with pytest.raises(UserError, match=r"about 1\.0 kB needed \(1 bytes of downloads"):
        check_disk(tmp_path, 1000, download=1)


def test_the_text_of_a_file(tmp_path: Path) -> None:
    assert [text_bytes(_sized(tmp_path / name, 1000)) for name in ("a.en", "a.en.gz")] == [1000, 3000]
