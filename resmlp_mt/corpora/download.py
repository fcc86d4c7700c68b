"""Public files, fetched over the network or taken from a folder, and checked."""

import contextlib
import http.client
import re
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm  # type: ignore[import-untyped]

from resmlp_mt.corpora.checksums import digest_of
from resmlp_mt.corpora.part import Part
from resmlp_mt.errors import UserError
from resmlp_mt.files import atomic_write

BLOCK = 1 << 18  # bytes
BEGINNING = 1 << 12  # bytes that tell whether it is a web page
LONGEST_PAUSE = 60.0  # seconds


@dataclass(frozen=True)
class PublicFile:
    """A file that never changes.

    Attributes:
        name: its name in a folder
        url: where the public finds it
        sha256, md5: of its bytes, in hexadecimal; where neither is known, the sha256 of the first file that came is
            kept beside it as ``NAME.sha256`` and later ones must match
        size: bytes, where known
        advice: what to do where the URL does not give it
    """

    name: str
    url: str
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    advice: str = "try later, or get the file by other means and name its folder"

    def taken_from(self, folder: Path) -> Path:
        """The file in a folder that a person names, checked.

        Raises:
            UserError: it is not there or has other bytes
        """
        path = folder / self.name
        if not path.is_file():
            raise UserError(f"{path}: no such file: get it from {self.url}")
        if wrong := self._wrong(path):
            raise UserError(f"{path}: {wrong}: get the file again from {self.url}")
        return path

    def fetched_into(self, folder: Path, attempts: int = 6, pause: float = 2.0) -> Path:
        """The file in a folder of ours: there already, or downloaded, checked, and only then given its name.

        What has come is kept as ``NAME.part``, also by a killed run, and the next request asks for the rest.

        Args:
            folder: made if missing
            attempts: how many requests in a row may fail without a byte more than before
            pause: seconds before the next request; doubles with every one that brought nothing

        Raises:
            UserError: no network, the server does not have it, its bytes are wrong, or the disk is full
        """
        path = folder / self.name
        if path.is_file() and not self._wrong(path):
            return path
        with Part.of(path) as part:
            glued = self._download(part, attempts, pause)
            wrong = self._wrong(part.path, part.size)
            if wrong and glued:  # perhaps of two versions of the file
                part.clear()
                self._download(part, attempts, pause)
                wrong = self._wrong(part.path, part.size)
            if wrong:
                part.clear()
                raise UserError(f"{self.url}: sent other bytes than expected ({wrong}): {self.advice}")
            if not (self.sha256 or self.md5):
                with atomic_write(self._record(path)) as record:  # as sha256sum writes and checks it
                    record.write(f"{digest_of(part.path, 'sha256')}  {self.name}\n")
            part.become_whole()
        return path

    def present_in(self, folder: Path) -> int:
        """How many bytes of the file a folder has, finished or not, unchecked."""
        for path in (folder / self.name, Part.path_of(folder / self.name)):
            if path.is_file():
                return path.stat().st_size
        return 0

    def _wrong(self, path: Path, size: int | None = None) -> str | None:
        size = path.stat().st_size if size is None else size
        if self.size is not None and size != self.size:
            return f"{size:,} bytes, not {self.size:,}"
        for algorithm, expected in self._expected(path).items():
            found = digest_of(path, algorithm)
            if found != expected:
                return f"{algorithm} is {found}, not {expected}"
        return None

    def _expected(self, path: Path) -> dict[str, str]:
        known = {"sha256": self.sha256, "md5": self.md5}
        if not any(known.values()):
            with contextlib.suppress(OSError):
                known["sha256"] = self._record(path).read_text(encoding="ascii").split()[0]
        return {algorithm: digest for algorithm, digest in known.items() if digest}

    def _record(self, path: Path) -> Path:
        return path.with_name(f"{self.name}.sha256")

    def _download(self, part: Part, attempts: int, pause: float) -> bool:
        """Bring all bytes; whether they came by more than one request."""
        most, failures, requests = part.size, 0, 1 if part.size else 0
        while True:
            try:
                requests += 1
                self._receive(part)
                return requests > 1
            except _TryAgain as error:
                failures = 1 if part.size > most else failures + 1
                most = max(most, part.size)
                if failures >= attempts:
                    raise UserError(f"{error} ({attempts} attempts): {self.advice}") from error
                seconds = min(pause * 2 ** (failures - 1), LONGEST_PAUSE)
                print(f"{error}: again in {seconds:.0f} s", file=sys.stderr, flush=True)
                time.sleep(seconds)

    def _receive(self, part: Part) -> None:
        """Ask once for what is missing."""
        if not part.version and not self._expected(part.whole):
            part.clear()  # nothing would tell whether the rest belongs to it
        if part.size and part.size == self.size:
            return
        headers = {"User-Agent": "resmlp_mt"}  # urllib's own is refused by some
        request = urllib.request.Request(self.url, headers=headers)
        if part.size:
            request.add_header("Range", f"bytes={part.size}-")
            if part.version:
                request.add_header("If-Range", part.version)  # where it has changed, all of it is sent, with status 200
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                total = _total(response, part)
                if part.size == 0:
                    self._begin(part, response, total)
                expected = total if self.size is None else self.size
                with tqdm(
                    desc=self.name, initial=part.size, total=expected, unit="B", unit_scale=True, disable=None
                ) as bar:
                    while block := response.read1(BLOCK):
                        part.append(block)
                        bar.update(len(block))
        except urllib.error.HTTPError as error:
            if error.code == 416 and error.headers.get("Content-Range", "").endswith(f"/{part.size}"):
                return  # nothing follows what is there
            raise self._refused(error, part) from error
        except (OSError, http.client.HTTPException) as error:
            raise _TryAgain(f"{self.url}: cannot be downloaded: {getattr(error, 'reason', None) or error}") from error
        if expected is not None and part.size < expected:
            raise _TryAgain(f"{self.url}: broke off after {part.size:,} of {expected:,} bytes")

    def _begin(self, part: Part, response: http.client.HTTPResponse, total: int | None) -> None:
        start = response.read(BEGINNING)
        page = re.match(rb"\s*<(!doctype html|html|\?xml)", start, re.IGNORECASE)
        if page and not self.name.endswith((".html", ".xml")):
            title = re.search(rb"<title>\s*(.*?)\s*</title>", start, re.IGNORECASE | re.DOTALL)
            quoted = f" ({' '.join(title[1].decode('utf-8', 'replace').split())[:80]!r})" if title else ""
            raise UserError(f"{self.url}: sent a web page{quoted}, not the file: {self.advice}")
        if self.size is not None and total is not None and total != self.size:
            raise UserError(f"{self.url}: offers {total:,} bytes, not the expected {self.size:,}: {self.advice}")
        tag = response.headers.get("ETag", "")
        weak = not tag or tag.startswith("W/")
        part.begin((response.headers.get("Last-Modified") or "") if weak else tag)
        part.append(start)

    def _refused(self, error: urllib.error.HTTPError, part: Part) -> Exception:
        if error.code == 416:
            part.clear()
            return _TryAgain(f"{self.url}: is shorter than what came before")
        message = f"{self.url}: the server answers {error.code} {error.reason}"
        if error.code >= 500 or error.code in (408, 429):  # too busy, too slow, too many requests
            return _TryAgain(message)
        return UserError(f"{message}: {self.advice}")


class _TryAgain(Exception):
    """The network or the server failed, perhaps for the moment."""


def _total(response: http.client.HTTPResponse, part: Part) -> int | None:
    """The size of the whole file as the answer tells it; clears the part that the answer does not continue."""
    if response.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if not found or int(found[1]) != part.size:
            part.clear()
            raise _TryAgain(f"{response.url}: sent another range than asked for")
        return None if found[2] == "*" else int(found[2])
    part.clear()
    return response.length
