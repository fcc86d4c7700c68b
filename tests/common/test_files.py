"""Files that appear whole or not at all; locks; how lines are read."""

import gzip
import os
import stat
from functools import partial

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, atomic_folder, atomic_write, lock, read_lines, remove_unfinished
from scripts import small_files


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_write_makes_folders_and_honours_the_umask(tmp_path):
    path = tmp_path / "new" / "folder" / ("ä" * 127)  # the longest possible name
    old = os.umask(0o027)
    try:
        with atomic_write(path) as file:
            file.write("ä\u2028\n")
            assert not path.exists()
    finally:
        os.umask(old)
    assert path.read_bytes() == "ä\u2028\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert _names(path.parent) == [path.name]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_an_error_while_writing_leaves_what_was_there(tmp_path, error):
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("old")
    with pytest.raises(type(error)), atomic_write(tmp_path / "a.txt") as file:
        file.write("new")
        raise error
    with pytest.raises(type(error)), atomic_folder(tmp_path / "out", replace=True) as folder:
        (folder / "a").write_text("new")
        raise error
    assert (tmp_path / "a.txt").read_text() == (tmp_path / "out" / "a").read_text() == "old"
    assert _names(tmp_path) == ["a.txt", "out"]


def test_file_too_large_while_writing(tmp_path):
    told = r"a\.bin: cannot be written: File too large$"
    with pytest.raises(UserError, match=told), atomic_write(tmp_path / "a.bin", "wb") as file, small_files(1000):
        file.write(bytes(100_000))
    assert _names(tmp_path) == []


def test_names_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    for name in "file/below/it", "", "x" * 300, "/dev/null", "stdout":
        with pytest.raises(UserError, match=f"^{tmp_path / name}: "), atomic_write(tmp_path / name) as file:
            file.write("x")
    assert _names(tmp_path) == ["file", "stdout"]
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and (tmp_path / "stdout").is_symlink()


def test_a_folder_appears_when_it_is_complete_and_replaces_an_old_one_where_told_so(tmp_path):
    out = tmp_path / "deep" / "out"
    for name in "a", "b":
        with atomic_folder(out, replace=True) as folder:
            (folder / name).write_text(name)
            assert out.exists() == (name == "b")
    assert _names(out.parent) == ["out"] and (out / "b").read_text() == "b"
    with pytest.raises(UserError, match="out: cannot be written"), atomic_folder(out):
        pass
    assert _names(out) == ["b"]


def test_what_a_killed_run_left_of_a_name_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    users = ["mine", ".a.tmp", ".a.mine.tmp", ".c.01234567.tmp"]
    for name in users[1:]:
        (tmp_path / name).write_text("mine")
    child = os.fork()
    if child == 0:
        with atomic_write(tmp_path / "a"), atomic_folder(tmp_path / "b") as folder:
            (folder / "link").symlink_to(tmp_path / "mine")
            os._exit(0)
    os.waitpid(child, 0)
    assert len(_names(tmp_path)) == len(users) + 2
    for name in "a", "b", "[a-z]":
        remove_unfinished(tmp_path / name)
    assert _names(tmp_path) == sorted(users) and _names(tmp_path / "mine") == ["file"]


def test_breaks_of_text_mode_stay_inside(tmp_path):
    path = tmp_path / "a.txt"
    nasty = "a\rb\vc\fd\x1ce\x1df\x1eg\x85h\u2028i\u2029j\x00k"
    path.write_bytes(f"{nasty}\r\n\r\nlast".encode())
    assert list(read_lines(path)) == [nasty, "", "last"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: whole[: len(whole) // 2], r"cannot be read after line \d+: .*end-of-stream"),
        (lambda whole: b"<html>", "cannot be read after line 0: Not a gzipped file"),
        (lambda whole: whole[:-9] + b"x" + whole[-8:], "cannot be read"),
        (lambda whole: gzip.compress(b"good\nalso\n\xe4\nnever\n"), "3: not UTF-8 .*iconv"),
    ],
)
def test_gzip_and_damaged_gzip(tmp_path, change, message):
    path = tmp_path / "a.gz"
    path.write_bytes(whole := gzip.compress(b"".join(b"%d\n" % i for i in range(5000))))
    assert list(read_lines(path)) == [str(i) for i in range(5000)]
    path.write_bytes(change(whole))
    with pytest.raises(UserError, match=rf"a\.gz: ?{message}"):
        list(read_lines(path))


def test_a_lock_has_one_holder_and_can_be_waited_for(tmp_path, monkeypatch):
    opened = partial(open, tmp_path / "lock", "w")
    with opened() as first, opened() as second, opened() as third:
        lock(first, "")
        with pytest.raises(UserError, match="taken"):
            lock(second, "taken")
        # The first lock is released while the third waits for it.
        monkeypatch.setattr("resmlp_mt.common.files.time.sleep", lambda seconds: first.close())
        lock(third, "taken", patience=60)
        assert first.closed


def test_a_broken_record_is_an_empty_one(tmp_path):
    path = tmp_path / "a.json"
    for content in b'{"a": 1', b"[1, 2]", b'{"a": "\xe4"}', b'{"a": ' + 100_000 * b"[" + 100_000 * b"]" + b"}":
        path.write_bytes(content)
        record = JsonFile(path)
        assert record.values == {}
        record.values["b"] = 1
        record.save()
        assert JsonFile(path).values == {"b": 1}
