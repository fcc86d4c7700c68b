"""Files that appear whole or not at all; locks; lines that stay lines."""

import errno
import gzip
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import (
    JsonFile,
    atomic_folder,
    atomic_write,
    lock,
    read_lines,
    unfinished_within,
)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- atomic_write


def test_write_makes_folders_and_honours_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.txt"
    old = os.umask(0o027)
    try:
        with atomic_write(path) as file:
            file.write("ä\u2028\n")
            assert not path.exists()
    finally:
        os.umask(old)
    assert path.read_bytes() == "ä\u2028\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert _names(path.parent) == ["a.txt"]


def test_a_name_as_long_as_there_may_be_is_one(tmp_path: Path) -> None:
    name = "ä" * 127
    with atomic_write(tmp_path / name), atomic_folder(tmp_path / f"x{name[1:]}"):
        pass
    assert _names(tmp_path) == sorted([name, f"x{name[1:]}"])


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_an_error_while_writing_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
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


def test_file_too_large_while_writing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with (
            pytest.raises(UserError, match=r"a\.bin: cannot be written: File too large$"),
            atomic_write(tmp_path / "a.bin", "wb") as file,
        ):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
            file.write(bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert _names(tmp_path) == []


@pytest.mark.parametrize("name", ["file/below/it", "folder", "x" * 300])
def test_names_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=str(tmp_path)) as error, atomic_write(tmp_path / name) as file:
        file.write("x")
    assert "\n" not in str(error.value)
    assert _names(tmp_path) == ["file", "folder"]


def test_a_device_or_a_link_to_a_stream_is_not_replaced(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w") as stream:
        (tmp_path / "stdout").symlink_to(f"/proc/self/fd/{stream.fileno()}")
        for path in Path("/dev/null"), tmp_path / "stdout":
            with pytest.raises(UserError, match=f"{path}: is not a regular file"), atomic_write(path) as file:
                file.write("x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and (tmp_path / "stdout").is_symlink()


# --- read_lines


def test_breaks_of_text_mode_stay_inside(tmp_path: Path) -> None:
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
    ],
)
def test_gzip_and_damaged_gzip(tmp_path: Path, change: Callable[[bytes], bytes], message: str) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(whole := gzip.compress(b"".join(b"%d\n" % i for i in range(5000))))
    assert list(read_lines(path)) == [str(i) for i in range(5000)]
    path.write_bytes(change(whole))
    with pytest.raises(UserError, match=rf"a\.gz: {message}"):
        list(read_lines(path))


def test_broken_utf8_tells_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nalso\n\xe4\nnever\n")
    with pytest.raises(UserError, match=r"a\.txt:3: not UTF-8 .*iconv") as error:
        list(read_lines(path))
    assert "\n" not in str(error.value)


# --- atomic_folder


def test_a_folder_appears_when_it_is_complete(tmp_path):
    with atomic_folder(tmp_path / "deep" / "out") as folder:
        (folder / "a").write_text("one")
        assert not (tmp_path / "deep" / "out").exists()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
    assert (tmp_path / "deep" / "out" / "a").read_text() == "one"


def test_an_old_folder_is_replaced_whole_where_told_so(tmp_path):
    for name in "a", "b":
        with atomic_folder(tmp_path / "out", replace=True) as folder:
            (folder / name).write_text(name)
    with pytest.raises(UserError, match="out: cannot be written"), atomic_folder(tmp_path / "out"):
        pass
    assert _names(tmp_path / "out") == ["b"]


# --- unfinished_within


def test_what_is_unfinished_is_in_one_place_and_gone_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with unfinished_within(out):
        with atomic_write(out / "deep" / "a"), atomic_folder(out / "folder") as folder:
            with atomic_write(folder / "b") as inner:
                inner.write("b")
            assert _names(out) == [".unfinished", "deep"] and _names(out / "deep") == []
            assert len(_names(out / ".unfinished")) == 2
        with atomic_write(tmp_path / "c"):
            assert len(_names(tmp_path)) == 2
    assert _names(out) == ["deep", "folder"] and _names(out / "folder") == ["b"]
    with atomic_write(out / "e"):
        assert len(_names(out)) == 3


def test_what_a_killed_run_left_is_cleared(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    child = os.fork()
    if child == 0:
        with unfinished_within(tmp_path), atomic_write(tmp_path / "a"), atomic_folder(tmp_path / "b") as folder:
            (folder / "link").symlink_to(tmp_path / "mine")
            os._exit(0)
    os.waitpid(child, 0)
    assert len(_names(tmp_path / ".unfinished")) == 2
    with unfinished_within(tmp_path):
        assert _names(tmp_path / ".unfinished") == []
    assert _names(tmp_path) == ["mine"] and _names(tmp_path / "mine") == ["file"]


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_user_s_folder_of_that_name_is_left_alone(tmp_path: Path, kind: str) -> None:
    (tmp_path / "mine").mkdir()
    path = tmp_path / ".unfinished"
    if kind == "file":
        path.write_text("mine")
    elif kind == "folder":
        path.mkdir()
        (path / "file").write_text("mine")
    else:
        path.symlink_to("mine")
    with pytest.raises(UserError, match=r"\.unfinished: is not of this toolkit"), unfinished_within(tmp_path):
        pass
    assert _names(tmp_path) == [".unfinished", "mine"]
    assert kind != "folder" or _names(path) == ["file"]


# --- lock


def test_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "lock", "w") as first, open(tmp_path / "lock", "w") as second:
        lock(first, "")
        with pytest.raises(UserError, match="taken"):
            lock(second, "taken")
        # It is given back while it is waited for.
        monkeypatch.setattr("resmlp_mt.common.files.time.sleep", lambda seconds: first.close())
        lock(second, "taken", patience=60)
        assert first.closed


def test_a_disk_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("portalocker.portalocker.LOCKER", flock)
    with open(tmp_path / "lock", "w") as file, pytest.raises(UserError, match="lock: cannot be locked: Function not"):
        lock(file, "taken", patience=60)


# --- JsonFile


@pytest.mark.parametrize(
    "content", [b'{"a": 1', b"[1, 2]", b'{"a": "\xe4"}', b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
)
def test_a_broken_record_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    record = JsonFile(path)
    assert record.values == {}
    record.values["b"] = 1
    record.save()
    assert JsonFile(path).values == {"b": 1}


def test_a_pipe_is_no_record(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    assert JsonFile(tmp_path / "a.json").values == {}
