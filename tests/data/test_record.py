"""What a folder's record says is ours, and what stays a user's."""

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.record import Place
from resmlp_mt.data.steps import Step, Steps


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def _tree(folder: Path) -> dict[str, bytes | str | None]:
    """Everything in a folder: bytes of files, targets of links."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = content
    return found


def _place(folder: Path, *outputs: str, **more: object) -> Place:
    return Place(folder, [folder / name for name in outputs], **more)


def _make(place: Place, name: str = "make", options: dict[str, int] | None = None, text: str = "ours") -> bool:
    """Run one step that writes all outputs of a place; whether it had to work."""
    worked = []

    def work() -> dict[str, int]:
        worked.append(True)
        for path in place.outputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return {"pairs": 1}

    with Steps.of_folder(place) as steps:
        steps.run(Step(name, [], place.outputs, options or {}), work)
        steps.finish()
    return bool(worked)


def test_what_is_on_record_may_be_written_again(tmp_path: Path) -> None:
    place = _place(tmp_path, "a.txt", "deep/b.txt")
    assert _make(place)
    assert not _make(place)
    assert _make(place, options={"other": 1}, text="new")
    assert (tmp_path / "deep" / "b.txt").read_text() == "new"


@pytest.mark.parametrize("name", ["a.txt", "deep/b.txt", "steps.json", "times.json", "summary.json", ".checksums.json"])
def test_what_is_not_on_record_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / name).write_text("mine")
    before = _tree(tmp_path)
    with pytest.raises(UserError, match=rf"/{re.escape(name)}: is not of an earlier preparation, .* --overwrite$"):
        _make(_place(tmp_path, "a.txt", "deep/b.txt"))
    assert _tree(tmp_path) == before
    assert _make(_place(tmp_path, "a.txt", "deep/b.txt", overwrite=True))
    assert _make(_place(tmp_path, "a.txt", "deep/b.txt"), options={"other": 1})  # now it is ours
    assert (tmp_path / "a.txt").read_text() == "ours"


def test_other_files_stay_and_do_not_disturb(tmp_path: Path) -> None:
    mine = [".notes.tmp", "deep/.hidden.tmp", "deep/.folder.tmp/file", "deep/b.txt.bak", "c.txt"]
    for name in mine:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    for options in ({}, {"other": 1}):
        assert _make(_place(tmp_path, "a.txt", "deep/b.txt"), options=options)
    assert [(tmp_path / name).read_text() for name in mine] == ["mine"] * len(mine)


def test_a_folder_replaced_as_a_whole_must_hold_nothing_else(tmp_path: Path) -> None:
    place = _place(tmp_path, "data/a", folders=[tmp_path / "data"])
    _make(place)
    _make(place)
    (tmp_path / "data" / "deep").mkdir()
    (tmp_path / "data" / "deep" / "notes").write_text("mine")
    with pytest.raises(UserError, match="data/deep/notes: is not of an earlier preparation"):
        _make(place)
    _make(_place(tmp_path, "data/a", folders=[tmp_path / "data"], overwrite=True))


def test_files_that_come_while_a_run_is_on(tmp_path: Path) -> None:
    place = _place(tmp_path, "a.txt", "b.txt")
    with pytest.raises(UserError, match=r"b\.txt: is not of an earlier"), Steps.of_folder(place) as steps:
        steps.run(Step("one", [], place.outputs[:1], {}), lambda: {"pairs": place.outputs[0].write_text("ours")})
        (tmp_path / "b.txt").write_text("mine")
        steps.run(Step("two", [], place.outputs[1:], {}), lambda: {"pairs": place.outputs[1].write_text("ours")})
    assert (tmp_path / "b.txt").read_text() == "mine"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("link", ["deep", "deep/b.txt", ".lock", "steps.json", "data"])
def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path, link: str, overwrite: bool) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for folder in (out, elsewhere):
        folder.mkdir()
    (elsewhere / "b.txt").write_text("mine")
    (out / link).parent.mkdir(exist_ok=True)
    (out / link).symlink_to(elsewhere if link in ("deep", "data") else elsewhere / "b.txt")
    before = _tree(tmp_path)
    with pytest.raises(UserError, match=rf"/{link}: is a symbolic link, .*: remove it$"):
        _make(_place(out, "deep/b.txt", "data/a", folders=[out / "data"], overwrite=overwrite))
    assert _tree(tmp_path) == before


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    _make(_place(tmp_path / "link", "deep/a"))
    assert not _make(_place(tmp_path / "real", "deep/a"))


def test_other_kinds_of_files_are_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    os.mkfifo(tmp_path / ".lock")
    (tmp_path / "deep").write_text("mine")
    for name, message in (("a.txt", r"a\.txt: is not a regular"), ("deep/b", "deep: is not a folder")):
        with pytest.raises(UserError, match=message):
            _make(_place(tmp_path, name, overwrite=True))
    (tmp_path / "a.txt").rmdir()
    with pytest.raises(UserError, match=r"\.lock: is not a regular file"):
        _make(_place(tmp_path, "a.txt"))


OURS = {"make": {"made_from": {}, "outputs": {"a.txt": "0"}, "result": {}, "sum": "0"}}
NO_RECORDS = {
    "empty": "",
    "nothing": "{}",
    "cut off": '{"make": ',
    "a list": "[]",
    "a number": "5",
    "text": '"make"',
    "null": "null",
    "entries that are none": '{"make": 5}',
    "no outputs": '{"make": {"made_from": {}}}',
    "a list of outputs": '{"make": {"outputs": ["a.txt"]}}',
    "sums that are none": '{"make": {"outputs": {"a.txt": 5}}}',
    **{
        name: json.dumps({**OURS, "other": {"outputs": {name: hashlib.sha256(b"mine").hexdigest()}}})
        for name in (
            "../victim.txt", "/victim.txt", "deep/../../victim.txt", "..", ".", "", "/", "deep/", "./a.txt", "deep//b",
            ".lock", "steps.json", ".unfinished/x", "deep/.b", "a\0b", "a\nb", "a.txt\n", "\ud800",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("content", NO_RECORDS.values(), ids=map(repr, NO_RECORDS))
def test_what_is_no_record_of_ours_is_refused_and_nothing_is_removed(tmp_path: Path, content: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for path in (tmp_path / "victim.txt", out / "kept.txt"):
        path.write_text("mine")
    (out / "steps.json").write_text(content)
    with pytest.raises(UserError, match=r"out/steps\.json: is not of an earlier preparation") as error:
        _make(_place(out, "a.txt"))
    assert "\n" not in str(error.value)
    assert (out / "steps.json").read_text() == content
    assert _make(_place(out, "a.txt", overwrite=True))
    assert {path.read_text() for path in (tmp_path / "victim.txt", out / "kept.txt")} == {"mine"}


@pytest.mark.parametrize(
    "change",
    [
        {"result": 5},
        {"result": {"pairs": 2}},
        {"result": None},
        {"made_from": []},
        {"sum": 5},
        {"sum": None},
        {"more": 1},
    ],
)
def test_an_entry_that_somebody_changed_is_made_again(tmp_path: Path, change: dict[str, object]) -> None:
    place = _place(tmp_path, "a.txt")
    _make(place)
    record = json.loads((tmp_path / "steps.json").read_text())
    record["make"].update(change)
    (tmp_path / "steps.json").write_text(json.dumps(record))
    assert _make(place)
    assert not _make(place)


@pytest.mark.parametrize("content", ["[]", "5", '{"make": 5}', '{"make": []}', "{", "null"])
@pytest.mark.parametrize("name", ["times.json", ".checksums.json", "summary.json"])
def test_broken_companions_of_a_record(tmp_path: Path, name: str, content: str) -> None:
    place = _place(tmp_path, "a.txt")
    _make(place)
    (tmp_path / name).write_text(content)
    assert _make(place, options={"other": 1})
    assert _make(place)


def test_left_files_go_if_they_are_as_they_were_made(tmp_path: Path) -> None:
    _make(_place(tmp_path, "a", "b", "c", "deep/d", "e"))
    (tmp_path / "b").write_text("mine")
    (tmp_path / "c").unlink()
    (tmp_path / "deep").rename(tmp_path / "elsewhere")
    (tmp_path / "deep").symlink_to("elsewhere")
    _make(_place(tmp_path, "e"), name="other")
    assert set(_tree(tmp_path)) >= {"b", "elsewhere/d", "e"} and not (tmp_path / "a").exists()
    assert set(json.loads((tmp_path / "steps.json").read_text())) == {"other"}


def test_the_same_step_may_write_other_files(tmp_path: Path) -> None:
    _make(_place(tmp_path, "a"))
    _make(_place(tmp_path, "b"))
    assert {"a", "b"} & set(_tree(tmp_path)) == {"b"}


def test_a_run_that_ends_between_output_and_record_leaves_nothing_foreign(tmp_path: Path) -> None:
    place = _place(tmp_path, "a", "b")
    child = os.fork()
    if child == 0:
        with Steps.of_folder(place) as steps:
            steps.run(Step("make", [], place.outputs, {}), lambda: (tmp_path / "a").write_text("x") and os._exit(0))
    os.waitpid(child, 0)
    assert set(_tree(tmp_path)) == {".lock", ".unfinished", ".unfinished/resmlp_mt", "a", "steps.json"}
    assert _make(place)
    assert set(_tree(tmp_path)) == {".lock", ".checksums.json", "a", "b", "steps.json", "times.json"}


def test_an_output_that_a_killed_run_wrote_anew_is_still_ours(tmp_path: Path) -> None:
    place = _place(tmp_path, "a")
    _make(place)
    child = os.fork()
    if child == 0:
        with Steps.of_folder(
            place
        ) as steps:  # another step, of which the record has nothing but the name of its output
            steps.run(Step("other", [], place.outputs, {}), lambda: (tmp_path / "a").write_text("x") and os._exit(0))
    os.waitpid(child, 0)
    _make(_place(tmp_path, "b"))
    assert not (tmp_path / "a").exists()


def test_a_run_that_fails_leaves_no_claims(tmp_path: Path) -> None:
    place = _place(tmp_path, "a", "b")

    def work() -> dict[str, int]:
        raise UserError("no")

    with pytest.raises(UserError, match="no"), Steps.of_folder(place) as steps:
        steps.run(Step("make", [], place.outputs, {}), work)
    assert set(_tree(tmp_path)) == {".lock"}


@pytest.mark.parametrize("name", ["a", "deep/b", "steps.json", ".lock", ".unfinished/x", "old"])
def test_inputs_are_not_written_over(tmp_path: Path, name: str) -> None:
    _make(_place(tmp_path, "a", "deep/b", "old"))
    (tmp_path / ".unfinished").mkdir()
    before = _tree(tmp_path)
    for overwrite in (False, True):
        place = _place(tmp_path, "a", "deep/b", inputs=[tmp_path / name], overwrite=overwrite)
        with pytest.raises(UserError, match=f"would be written over the input .*{name}"):
            _make(place, options={"other": 1})
    assert _tree(tmp_path) == before
    _make(_place(tmp_path, "a", "deep/b", inputs=[tmp_path / "deep" / "other", tmp_path / "raw" / "a"]))


def test_records_of_earlier_versions(tmp_path: Path) -> None:
    (tmp_path / "steps.json").write_text('{"make": {"made_from": {"rules": 1}, "outputs": {"a": "0"}, "result": {}}}')
    for name in ("a", "unnamed", "summary.json", "times.json", ".checksums.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(UserError, match="unnamed: is not of an earlier"):
        _make(_place(tmp_path, "a", "unnamed"))
    assert _make(_place(tmp_path, "a", "unnamed", unnamed=[tmp_path / "unnamed"]))
    assert "unnamed" in json.loads((tmp_path / "steps.json").read_text())["make"]["outputs"]
