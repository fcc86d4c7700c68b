"""Public files, fetched over the network or taken from a folder, and checked."""

import http.client
import re
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tqdm import tqdm  # type: ignore[import-untyped]

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.checksums import digest_of
from resmlp_mt.data.partial_download import Differs, Part, parts_of, present
from resmlp_mt.data.progress import PAUSE, in_bytes

BLOCK = 1 << 18  # bytes
BEGINNING = 1 << 12  # bytes that tell whether it is a web page
OVERLAP = 1 << 10  # bytes that are asked for again: they tell whether the answer continues what is there
LONGEST_PAUSE = 60.0  # seconds
LARGEST = 1 << 32  # bytes of a file whose size is not known, or a server without an end could fill the disk
RESERVE = 100_000_000  # bytes that such a file leaves free on the disk


@dataclass(frozen=True)
class PublicFile:
    """A file that never changes.

    Attributes:
        name: its name in a folder
        url: where the public finds it
        sha256, md5: of its bytes, in hexadecimal; at least one of them
        size: bytes, where known
        advice: what to do where no address gives it
        mirrors: other public addresses of the same bytes
        zipped: another archive of the same members
    """

    name: str
    url: str
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    advice: str = "try later, or get the file by other means and name its folder"
    mirrors: tuple[str, ...] = ()
    zipped: "PublicFile | None" = None

    def __post_init__(self) -> None:
        if not (self.sha256 or self.md5):
            raise ValueError(f"{self.name}: nothing tells whether its bytes are right")

    def taken_from(self, folder: Path) -> Path:
        """The file in a folder that a person names, checked.

        Raises:
            UserError: it is not there or has other bytes
        """
        path = folder / self.name
        if not path.is_file():
            raise UserError(f"{path}: no such file: get it from {self.url}")
        if wrong := self.wrong(path):
            raise UserError(f"{path}: {wrong}: get the file again from {self.url}")
        return path

    def fetched_into(
        self,
        folder: Path,
        mirrors: Sequence[str] = (),
        attempts: int = 6,
        pause: float = 2.0,
        silent: set[str] | None = None,
    ) -> Path:
        """The file in a folder of ours: there already, or downloaded, checked, and only then given its name.

        What has come outlives killed runs and answers that contradict it (see ``part``), and the next request, to any
        address, asks for the rest. A file of that name with other bytes is renamed, not replaced.

        Args:
            folder: made if missing
            mirrors: addresses of folders that may have the file by its name; they are asked first
            attempts: how many requests in a row to an address may fail without a byte more than before
            pause: seconds before the next request; doubles with every one that brought nothing
            silent: servers that failed in all attempts, for other files too: they are asked last, and added here

        Raises:
            UserError: no network, no address has the file, its bytes are wrong, or the disk is full
        """
        path = folder / self.name
        if self._is(path):
            return path
        if path.exists() and not path.is_file():
            raise UserError(f"{path}: is not a file: move it away")
        with parts_of(path) as parts:
            useless = list(parts)
            if not self._is(path):  # another run may just have ended
                silent = set() if silent is None else silent
                addresses = [_Address(url, self, attempts, pause, silent) for url in self.addresses(mirrors)]
                addresses.sort(key=lambda address: address.server in silent)
                whole = self._from_somewhere(addresses, parts)
                _set_aside(path)
                whole.become(path)
                useless.remove(whole)
            for part in useless:
                part.cut(0)
        return path

    def addresses(self, mirrors: Sequence[str] = ()) -> list[str]:
        """Where the file is asked for, in this order."""
        return [*(f"{mirror.rstrip('/')}/{self.name}" for mirror in mirrors), self.url, *self.mirrors]

    def present_in(self, folder: Path) -> int:
        """How many bytes of the file a folder has, finished or not, as far as their number tells."""
        path = folder / self.name
        there = path.stat().st_size if path.is_file() else 0
        return there if there and self.size in (None, there) else present(path)

    def wrong(self, path: Path) -> str | None:
        """What is wrong with a file that should have these bytes, if anything."""
        if wrong := self.wrong_size(path):
            return wrong
        for algorithm, expected in (("sha256", self.sha256), ("md5", self.md5)):
            if expected and (found := digest_of(path, algorithm)) != expected:
                return f"{algorithm} is {found}, not {expected}"
        return None

    def wrong_size(self, path: Path) -> str | None:
        """What is wrong with the file's size, if anything: ``wrong`` without reading the file."""
        size = path.stat().st_size
        return None if self.size in (None, size) else f"{size:,} bytes, not {self.size:,}"

    def _is(self, path: Path) -> bool:
        return path.is_file() and not self.wrong(path)

    def _from_somewhere(self, addresses: "list[_Address]", parts: tuple[Part, Part]) -> Part:
        for number, address in enumerate(addresses, start=1):
            try:
                return address.completed(parts)
            except _Unavailable as error:
                if number == len(addresses):
                    raise UserError(f"{error}: {self.advice}") from error
                print(f"{error}: trying {addresses[number].url}", file=sys.stderr, flush=True)
        raise AssertionError


class _Unavailable(Exception):
    """An address does not give the file."""


class _TryAgain(Exception):
    """The network or the server failed, perhaps for the moment."""


@dataclass(frozen=True)
class _Address:
    url: str
    file: PublicFile
    attempts: int
    pause: float
    silent: set[str]

    @property
    def server(self) -> str:
        return self.url.partition("://")[2].partition("/")[0]

    def completed(self, parts: tuple[Part, Part]) -> Part:
        """The part that now has all bytes, and the right ones. What was there of the longer part stays there."""
        kept, other = parts
        wrong: str | None = "they contradict those that came before"
        for part in (kept, other, other) if other.size else (kept, other):
            try:
                before = self._download(part)
                if not (wrong := self.file.wrong(part.path)):
                    return part
            except Differs:
                before = part.size
            if part is other:
                part.cut(0)
            elif before < part.size:  # the last answer may have been wrong
                part.cut(before)
                if not before:
                    break
            elif self.file.size is not None and part.size >= self.file.size:
                part.cut(0)
        raise _Unavailable(f"{self.url}: sent other bytes than expected ({wrong})")

    def _download(self, part: Part) -> int:
        """Bring all bytes; returns how many were there before the last request.

        Raises:
            Differs: the address has others
        """
        failures, ranges = 0, True
        while True:
            before = part.size
            try:
                self._receive(part, before - OVERLAP if ranges else 0)
                return before
            except Differs:
                if not ranges or before <= OVERLAP:
                    raise
                ranges = False  # the server may handle ranges wrongly
            except _TryAgain as error:
                failures = 1 if part.size > before else failures + 1
                if failures >= self.attempts:
                    self.silent.add(self.server)
                    raise _Unavailable(f"{error} ({self.attempts} attempts)") from error
                seconds = min(self.pause * 2 ** (failures - 1), LONGEST_PAUSE)
                print(f"{error}: again in {seconds:.0f} s", file=sys.stderr, flush=True)
                time.sleep(seconds)

    def _receive(self, part: Part, start: int) -> None:
        """Ask once for what is missing, and again for what is there from ``start`` on."""
        if self.file.size is not None and part.size >= self.file.size:
            return
        before = part.size
        try:
            with self._answer(start) as response:
                position, total = self._place(response)
                if position > part.size:
                    raise Differs
                block = response.read(BEGINNING) if position == 0 else response.read1(BLOCK)
                self._check(block if position == 0 else b"", total)
                expected = total if self.file.size is None else self.file.size
                with _Bar(self.file.name, part.size, expected) as bar:
                    while block and (expected is None or position < expected):
                        self._check_room(part)
                        part.add(position, block if expected is None else block[: expected - position])
                        position += len(block)
                        if expected is None and position > LARGEST:
                            part.cut(before)
                            raise _Unavailable(f"{self.url}: sends more than {LARGEST:,} bytes, and no end")
                        bar.show(part.size)
                        block = response.read1(BLOCK)
        except urllib.error.HTTPError as error:
            raise self._refused(error, start) from error
        except UserError:  # of the disk
            raise
        except (
            OSError,
            http.client.HTTPException,
            ValueError,
        ) as error:  # (ValueError: a chunk of negative length)
            reason = _one_line(getattr(error, "reason", None) or error)
            raise _TryAgain(f"{self.url}: cannot be downloaded: {reason}") from error
        if expected is not None and part.size < expected:
            raise _TryAgain(f"{self.url}: broke off after {part.size:,} of {expected:,} bytes")
        if expected is None and not response.chunked and self.file.wrong(part.path):
            raise _TryAgain(f"{self.url}: ended after {part.size:,} bytes, perhaps too early")

    def _answer(self, start: int) -> http.client.HTTPResponse:
        headers = {"User-Agent": "resmlp_mt"}  # some servers refuse urllib's default
        if start > 0:
            headers["Range"] = f"bytes={start}-"
        try:
            response = urllib.request.urlopen(urllib.request.Request(self.url, headers=headers), timeout=60)
        except (http.client.InvalidURL, ValueError) as error:  # also for the address of a redirection
            raise _Unavailable(f"{self.url}: leads to no address: {_one_line(error)}") from error
        if not isinstance(response, http.client.HTTPResponse) or response.status not in (200, 203, 206):
            raise _Unavailable(f"{self.url}: does not answer with a file ({getattr(response, 'status', 'no HTTP')})")
        return response

    def _place(self, response: http.client.HTTPResponse) -> tuple[int, int | None]:
        """Where in the file an answer begins, and the size of the file as the answer tells it."""
        if response.status != 206:
            return 0, response.length
        found = re.fullmatch(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", response.headers.get("Content-Range", ""))
        if not found:
            raise Differs
        return int(found[1]), None if found[2] == "*" else int(found[2])

    def _check(self, start: bytes, total: int | None) -> None:
        """What can be seen before all bytes are there, so that hours are not spent on something else."""
        if re.match(rb"(\xef\xbb\xbf)?\s*<", start) and not self.file.name.endswith((".html", ".xml")):
            title = re.search(rb"<title[^>]*>(.*?)</title>", start, re.IGNORECASE | re.DOTALL)
            quoted = f" ({_one_line(title[1].decode('utf-8', 'replace'))!r})" if title else ""
            raise _Unavailable(f"{self.url}: sent a web page{quoted}, not the file")
        if total is not None and self.file.size not in (None, total):
            raise _Unavailable(f"{self.url}: offers {total:,} bytes, not the expected {self.file.size:,}")
        if total is not None and self.file.size is None and total > LARGEST:
            raise _Unavailable(f"{self.url}: offers {total:,} bytes, more than the {LARGEST:,} that it may have")

    def _check_room(self, part: Part) -> None:
        if self.file.size is None and (free := shutil.disk_usage(part.path.parent).free) < RESERVE:
            raise UserError(
                f"{part.path}: {in_bytes(free)} free on its disk, of which a file of unknown size leaves "
                f"{in_bytes(RESERVE)} ({self.url} has sent {in_bytes(part.size)}): make room, then run this again"
            )

    def _refused(self, error: urllib.error.HTTPError, start: int) -> Exception:
        if error.code == 416 and start > 0:
            return Differs()
        message = f"{self.url}: the server answers {error.code} {_one_line(error.reason)}"
        if error.code >= 500 or error.code in (408, 425, 429):  # too busy, too slow, too early, too many requests
            return _TryAgain(message)
        return _Unavailable(message)


class _Bar:
    """How much of a file has come: a bar on a terminal, elsewhere a line every so often."""

    def __init__(self, name: str, size: int, total: int | None):
        self._name, self._total = name, f" of {in_bytes(total)}" if total else ""
        self._told = time.monotonic()
        self._bar = tqdm(
            desc=name,
            initial=size,
            total=total,
            unit="B",
            unit_scale=True,
            disable=not (sys.stderr and sys.stderr.isatty()),
        )

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def show(self, size: int) -> None:
        if not self._bar.disable:
            self._bar.update(size - self._bar.n)
        elif time.monotonic() - self._told >= PAUSE:
            self._told = time.monotonic()
            print(f"{self._name}: {in_bytes(size)}{self._total}", file=sys.stderr, flush=True)


def _set_aside(path: Path) -> None:
    if not path.is_file():
        return
    names = (path.with_name(f"{path.name}.other{number}") for number in count(1))
    other = next(name for name in names if not name.exists())
    try:
        path.rename(other)
    except OSError as error:
        raise UserError(f"{path}: cannot be renamed: {error.strerror or error}") from error
    print(f"{path}: had other bytes than the public file: renamed to {other.name}", file=sys.stderr, flush=True)


def _one_line(text: object) -> str:
    """What a server says, as part of a message: without line ends, colours and other commands to a terminal."""
    printable = "".join(character if character.isprintable() else " " for character in str(text))
    return " ".join(printable.split())[:100]
