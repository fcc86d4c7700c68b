"""Files that appear whole or not at all, locks, checksums, and text read line by line without surprises."""

import codecs
import contextlib
import errno
import fcntl
import gzip
import hashlib
import json
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from resmlp_mt.common.errors import UserError

PathLike = str | os.PathLike[str]
Read = Callable[[PathLike], Iterable[str]]  # a function that returns the lines of a file, as ``read_lines`` does
Line = TypeVar("Line", str, bytes)
LARGEST_JSON = 1 << 24  # bytes; our own records are far smaller
LONGEST_LINE = 1 << 26  # bytes; a small compressed file can hold a line much larger than the memory
LONGEST_SENTENCE = 1 << 20  # bytes of a line of raw text; a longer line is no sentence, and may be endless


@contextlib.contextmanager
def one_line_write_errors(path: PathLike) -> Iterator[None]:
    """Turn an ``OSError`` in the block into a one-line error: the file or folder ``path`` cannot be written."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.errno == errno.ENOENT and Path(path).parent.is_dir()):
            raise  # the error is about another file, which is read meanwhile
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error


def _unfinished(path: Path, stamp: str) -> Path:
    """Return the path for unfinished content; the name is cut, as the whole name may have the limit of 255 bytes."""
    return path.parent / f".{path.name[:50]}.{stamp}.tmp"


def remove_unfinished(path: Path) -> None:
    """Remove what a killed run left of a file or folder. No other process may be writing it at the same time."""
    for left in path.parent.glob(f".*.{'[0-9a-f]' * 8}.tmp"):
        if left != _unfinished(path, left.name[-12:-4]):  # of another name; no glob, as names may hold * or [
            continue
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_write(path: PathLike, mode: str = "w") -> Iterator[IO]:
    """Open ``path`` for writing, and make its folder if missing; the file appears complete or stays as it was."""
    path = Path(path)
    temporary = _unfinished(path, secrets.token_hex(4))  # not by tempfile, whose files ignore the umask
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
    try:
        with one_line_write_errors(path):
            check_can_be_written(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, mode.replace("w", "x"), encoding=encoding, newline=newline) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_whole(path: PathLike, content: str | bytes) -> None:
    """Write a file by ``atomic_write``."""
    with atomic_write(path, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)


def write_json(path: PathLike, values: Any) -> None:
    """Write JSON values to a file, indented."""
    write_whole(path, json.dumps(values, indent=1) + "\n")


def read_object(path: PathLike) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if the file holds anything else, or more than ``LARGEST_JSON`` bytes."""
    with open(path, "rb") as file:
        content = file.read(LARGEST_JSON + 1)
    try:
        values = json.loads(content) if len(content) <= LARGEST_JSON else None
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


@contextlib.contextmanager
def atomic_folder(path: PathLike, replace: bool = False) -> Iterator[Path]:
    """Make a folder that appears complete or not at all: yield an empty one, which gets its final name at the end.

    With ``replace`` it may replace an old one, in two steps: a kill between them leaves no folder, never a mixture.
    """
    path = Path(path)
    temporary = _unfinished(path, secrets.token_hex(4))
    new = temporary / "new"
    try:
        with one_line_write_errors(path):
            new.mkdir(parents=True)
            yield new
            for file in filter(Path.is_file, new.rglob("*")):
                with open(file, "rb+") as stream:
                    os.fsync(stream.fileno())
            if replace and path.exists():
                os.rename(path, temporary / "old")
            os.rename(new, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_outputs(outputs: Iterable[PathLike], inputs: Iterable[PathLike]) -> None:
    """Check that no output is an input, or a folder that contains one."""
    read = {os.path.realpath(path): path for path in inputs}
    for output in outputs:
        place = os.path.realpath(output)
        for where, path in read.items():
            if os.path.commonpath([where, place]) == place:
                raise UserError(f"{output}: would be written over the input {path}: choose another name")


def check_new(path: PathLike) -> None:
    """Check that there is no file or folder ``path`` yet."""
    if os.path.lexists(path):
        raise UserError(f"{path}: is there already: move it away, or choose another name")


def check_replaced(record: Path, others: Iterable[Path]) -> None:
    """Check that files to be replaced are of an earlier run: then its ``record``, which a run writes first, exists."""
    for path in others:
        if path.exists() and not record.exists():
            raise UserError(f"{path}: is not of an earlier run: move it away, or choose another folder")


def open_input(path: PathLike, decompressed: bool = True) -> IO[bytes]:
    """Open a file to read its bytes, decompressed if its name ends in ``.gz``."""
    try:
        return cast(IO[bytes], gzip.open(path) if decompressed and str(path).endswith(".gz") else open(path, "rb"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def user_cache() -> Path:
    """Return the folder for files of this user that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def check_can_be_written(path: PathLike) -> None:
    """Check, before long work, that its output file can be written at the end."""
    place = Path(os.path.abspath(path))
    # A device, which root could replace by a file, or /dev/stdout, even if that is redirected to a file
    if (place.exists() and not place.is_file()) or (place.is_symlink() and os.readlink(place).startswith("/proc/")):
        raise UserError(f"{path}: is not a regular file: choose another name")
    folder = next(each for each in place.parents if os.path.lexists(each))
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise UserError(f"{path}: {folder} is no folder that can be written: choose another place")


def read_lines(path: PathLike) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file (or ``.gz``) without their ends, LF or CRLF.

    Other characters that Python takes for line ends (lone CR, U+0085, ...) stay inside, so that files stay aligned.
    A byte order mark at the file's start is dropped.
    """
    with open_input(path) as stream:
        for number, line in enumerate(binary_lines(stream, str(path), LONGEST_LINE), start=1):
            mark = codecs.BOM_UTF8 if number == 1 else b""
            yield decoded(line.removeprefix(mark).removesuffix(b"\r"), path, number)


def decoded(content: bytes, path: PathLike, first: int = 1) -> str:
    """Decode the content of a file, or of a part of it that begins with line number ``first``."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = first + content.count(b"\n", 0, error.start)
        raise UserError(f"{path}:{line}: not UTF-8 ({error.reason}): convert it, for example with iconv") from error


def binary_lines(stream: IO[bytes], name: str, longest: int = LONGEST_SENTENCE) -> Iterator[bytes]:
    """Yield the lines of a binary stream, of at most ``longest`` bytes, without their LF, which the last may lack."""
    number = 0
    try:
        while line := stream.readline(longest + 1):
            number += 1
            if len(line) > longest:
                raise UserError(f"{name}:{number}: more than {longest:,} bytes: give text, a sentence a line")
            yield line.removesuffix(b"\n")
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{name}: cannot be read after line {number}: {error}") from error


def aligned(sides: Sequence[Iterator[Line]], names: Sequence[str]) -> Iterator[tuple[Line, ...]]:
    """Yield tuples with one line of each side; sides of different lengths are an error."""
    for number, lines in enumerate(zip_longest(*sides)):
        if None in lines:
            short = names[lines.index(None)]
            long = next(name for name, line in zip(names, lines, strict=True) if line is not None)
            raise UserError(f"{short} ends after line {number} but {long} goes on: the sides must be aligned")
        yield lines


def read_parallel(paths: Sequence[PathLike]) -> Iterator[tuple[str, ...]]:
    """Yield tuples with one line of each of several aligned files, which ``read_lines`` reads."""
    return aligned(list(map(read_lines, paths)), list(map(str, paths)))


class JsonFile:
    """A mapping kept in a JSON file: change ``values``, then ``save``. A missing or invalid file gives an empty one."""

    def __init__(self, path: PathLike):
        self._path = path
        self.values: dict[str, Any] = {}
        with contextlib.suppress(OSError):
            if Path(path).is_file():  # reading a pipe would block
                self.values = read_object(path) or {}

    def save(self) -> None:
        write_json(self._path, self.values)


def lock(file: IO[Any], refusal: str, patience: float = 0.0) -> None:
    """Lock an open file for this process and its children, until all have closed it; try for ``patience`` seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            taken = isinstance(error, BlockingIOError)  # else there are no locks on that disk
            if not taken or time.monotonic() >= end:
                file.close()
                raise UserError(refusal if taken else f"{file.name}: cannot be locked: {error.strerror}") from error
        time.sleep(0.05)


def checksum(path: PathLike, algorithm: str = "sha256") -> str:
    """Return the checksum of a file's bytes, in hexadecimal."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open_input(path, decompressed=False) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
