"""Files that appear whole or not at all, locks, checksums, and text read line by line without surprises."""

import contextlib
import contextvars
import errno
import gzip
import hashlib
import json
import os
import secrets
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import portalocker

from resmlp_mt.common.errors import UserError

PathLike = str | os.PathLike[str]
Line = TypeVar("Line", str, bytes)
LARGEST_JSON = 1 << 24  # bytes; our own records are far smaller
LONGEST_LINE = 1 << 26  # bytes; a little compressed file can hold a line of many times the memory
LONGEST_SENTENCE = 1 << 20  # bytes of a line of raw text; what is longer is no sentence, and may have no end
UNFINISHED = ".unfinished"  # the folder that holds all unfinished files while its parent folder is being prepared
PAUSE = 0.05  # seconds between two attempts to lock a file
TAKEN = (errno.EACCES, errno.EAGAIN)  # by another run; other errors come from disks that have no locks

_unfinished: contextvars.ContextVar[Path | None] = contextvars.ContextVar("unfinished", default=None)


@contextlib.contextmanager
def writing(path: PathLike) -> Iterator[None]:
    """Tell in one line where a file or folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def unfinished_within(folder: PathLike) -> Iterator[None]:
    """Until the end, ``atomic_write`` and ``atomic_folder`` have what is unfinished below a folder in one place.

    That is the hidden ``FOLDER/.unfinished``, which is gone at the end. What a killed run left in it goes first.

    Args:
        folder: exists, and is ours alone for the time
    """
    path = Path(os.path.abspath(folder), UNFINISHED)
    with writing(path):
        if os.path.lexists(path):
            ours = path.is_dir() and not path.is_symlink() and all(path.match(".*.tmp") for path in path.iterdir())
            if not ours:
                raise UserError(f"{path}: is not of this toolkit, which needs the name: move it away")
            shutil.rmtree(path)
        path.mkdir()
    before = _unfinished.set(path)
    try:
        yield
    finally:
        _unfinished.reset(before)
        shutil.rmtree(path, ignore_errors=True)


def _place_of_unfinished(path: Path) -> Path:
    place = _unfinished.get()
    return place if place and place.parent in Path(os.path.abspath(path)).parents else path.parent


def _hidden(path: Path) -> str:
    """How the name of what is unfinished begins; cut, as a name may already have the 255 bytes that there may be."""
    return f".{path.name[:50]}."


@contextlib.contextmanager
def atomic_write(path: PathLike, mode: str = "w") -> Iterator[IO]:
    """Open ``path`` for writing so that it appears complete or stays as it was.

    Writes go to a temporary file in the same folder (or ``unfinished_within`` another), which takes the final name
    (``os.replace``) only after a flush to disk. Whatever goes wrong on the way, the temporary file is removed. Text is
    UTF-8 with ``\\n`` line ends.

    Args:
        path: the final name; its folder is made if missing
        mode: ``"w"`` for text or ``"wb"`` for bytes
    """
    path = Path(path)
    # Not by tempfile, whose files are private: open() applies the umask, which cannot be read without changing it for
    # all threads.
    temporary = _place_of_unfinished(path) / f"{_hidden(path)}{secrets.token_hex(4)}.tmp"
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
    try:
        with writing(path):
            # /dev/stdout, also where it is a file
            to_a_stream = path.is_symlink() and os.readlink(path).startswith("/proc/")
            if to_a_stream or (path.exists() and not path.is_file()):  # root could replace /dev/null itself
                raise UserError(f"{path}: is not a regular file: choose another name")
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, mode.replace("w", "x"), encoding=encoding, newline=newline) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_json(path: PathLike, values: Any) -> None:
    """Write JSON values to a file, indented, by ``atomic_write``."""
    with atomic_write(path) as file:
        json.dump(values, file, indent=1)
        file.write("\n")


def read_object(path: PathLike, most: int) -> dict[str, Any] | None:
    """The JSON object in a file; None if the file holds anything else, or more than so many bytes."""
    with open(path, "rb") as file:
        content = file.read(most + 1)
    try:
        values = json.loads(content) if len(content) <= most else None
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


@contextlib.contextmanager
def atomic_folder(path: PathLike, replace: bool = False) -> Iterator[Path]:
    """Make a folder that appears complete or not at all: yields an empty one, which takes the name at the end.

    Args:
        path: the final name
        replace: in the place of an old one; a folder cannot be exchanged in one go: a kill in between leaves none,
            never a mixture
    """
    path = Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        place = _place_of_unfinished(path)
        with tempfile.TemporaryDirectory(dir=place, prefix=_hidden(path), suffix=".tmp") as temporary:
            new = Path(temporary, "new")
            new.mkdir()
            yield new
            for file in filter(Path.is_file, new.rglob("*")):
                with open(file, "rb+") as stream:
                    os.fsync(stream.fileno())
            if replace and path.exists():
                os.rename(path, Path(temporary, "old"))
            os.rename(new, path)


def check_outputs(outputs: Iterable[PathLike], inputs: Iterable[PathLike]) -> None:
    """Refuse to write onto what is read.

    Args:
        outputs: files and folders that a command is about to write or replace
        inputs: files and folders that it reads
    """
    read = {os.path.realpath(path): path for path in inputs}
    for output in outputs:
        place = os.path.realpath(output)
        for where, path in read.items():
            if os.path.commonpath([where, place]) == place:
                raise UserError(f"{output}: would be written over the input {path}: choose another name")


def opened(path: PathLike, decompressed: bool = True) -> IO[bytes]:
    """Open a file to read its bytes, decompressed if its name ends in ``.gz``."""
    try:
        return cast(IO[bytes], gzip.open(path) if decompressed and str(path).endswith(".gz") else open(path, "rb"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def check_can_be_written(path: PathLike) -> None:
    """See, before long work, that a file can be written at its end."""
    place = Path(os.path.abspath(path))
    if place.exists() and not place.is_file():
        raise UserError(f"{path}: is not a regular file: choose another name")
    folder = next(each for each in place.parents if os.path.lexists(each))
    if not folder.is_dir():
        raise UserError(f"{path}: {folder} is not a folder: choose another name")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"{path}: {folder} cannot be written: choose another place")


def read_lines(path: PathLike) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file (gzipped if its name ends in ``.gz``) without their line ends, as a stream.

    Lines end at ``\n`` alone: characters at which Python's own text mode also breaks (lone CR, U+0085, U+2028, ...)
    stay inside their line, so that the files of a parallel corpus keep their alignment. The CR of a CRLF is dropped.
    """
    number = 0
    try:
        with opened(path) as stream:
            for number, line in enumerate(binary_lines(stream, str(path), LONGEST_LINE), start=1):
                yield line.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}:{number}: not UTF-8 ({error.reason}): convert the file to UTF-8, for example with iconv"
        ) from error


def binary_lines(stream: IO[bytes], name: str, longest: int = LONGEST_SENTENCE) -> Iterator[bytes]:
    """Yield the lines of a binary stream without their ``\n``, which the last line may lack.

    Args:
        name: what it is called in messages
        longest: bytes that a line may have, with its end
    """
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
    """Yield the lines of several sides side by side.

    Args:
        sides: their lines, as ``read_lines`` or ``binary_lines`` give them
        names: what the sides are called in messages
    """
    for number, lines in enumerate(zip_longest(*sides)):
        if None in lines:
            short = ", ".join(name for name, line in zip(names, lines, strict=True) if line is None)
            long = ", ".join(name for name, line in zip(names, lines, strict=True) if line is not None)
            raise UserError(
                f"{short} ends after line {number} but {long} goes on: the sides must be aligned line by line"
            )
        yield lines


def read_parallel(paths: Sequence[PathLike]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of aligned files side by side, each as ``read_lines`` does."""
    return aligned(list(map(read_lines, paths)), list(map(str, paths)))


class JsonFile:
    """A mapping kept in a file. A file that is missing, broken, huge or holds anything else is an empty one.

    Args:
        path: the file; appears with the first ``save``

    Attributes:
        values: the mapping, as JSON values; change it and ``save``
    """

    def __init__(self, path: PathLike):
        self._path = path
        self.values: dict[str, Any] = {}
        with contextlib.suppress(OSError):
            if Path(path).is_file():  # a pipe would be waited for
                self.values = read_object(path, LARGEST_JSON) or {}

    def save(self) -> None:
        """Write the file."""
        write_json(self._path, self.values)


def lock(file: IO[Any], refusal: str, patience: float = 0.0) -> None:
    """Lock a file for this process, and for the child processes that have it open: until all of them have closed it.

    Args:
        file: open for writing
        refusal: the message where another run has the lock
        patience: seconds for which it is tried again
    """
    end = time.monotonic() + patience
    while True:
        try:
            portalocker.lock(file, portalocker.LOCK_EX | portalocker.LOCK_NB)
            return
        except portalocker.LockException as error:
            why = error.args[0]
            if isinstance(why, OSError) and why.errno not in TAKEN:
                raise UserError(
                    f"{file.name}: cannot be locked: {why.strerror}: choose a folder on another disk"
                ) from error
            if time.monotonic() >= end:
                raise UserError(refusal) from error
        time.sleep(PAUSE)


def lock_folder(folder: Path, refusal: str, patience: float = 0.0) -> IO[str]:
    """Make a folder if it is missing and lock its ``.lock``, which is returned open; arguments as those of ``lock``."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".lock", "a")  # noqa: SIM115 (closed by the caller)
    try:
        lock(file, refusal, patience)
    except UserError:
        file.close()
        raise
    return file


def checksum(path: PathLike, algorithm: str = "sha256") -> str:
    """The checksum of a file's bytes, in hexadecimal."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with opened(path, decompressed=False) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
