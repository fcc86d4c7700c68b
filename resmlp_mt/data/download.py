"""Public files, fetched by curl or taken from a folder, and checked."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import checksum, lock
from resmlp_mt.common.workers import end_with_parent

PARTS = ".downloads"  # the folder of what has come in part, in that of the files
RETRIES = 5  # of curl, after a second, then two, four, ...
CURL = [
    *("curl", "--fail", "--location", "--continue-at", "-", "--connect-timeout", "30"),
    *("--speed-limit", "1", "--speed-time", "60"),  # bytes a second, seconds: what is slower has stopped
    *("--retry-max-time", "50"),  # fewer seconds: after a stall curl's own retry would throw away what it brought
]
CANNOT_RESUME = (33, 36)  # statuses of curl: the server has no ranges, or none from there


@dataclass(frozen=True)
class PublicFile:
    """A file that never changes, known by at least one sum of its bytes, in hexadecimal."""

    name: str  # in a folder
    url: str  # where the public finds it
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None  # bytes, where known
    mirrors: tuple[str, ...] = ()  # other public addresses of the same bytes

    def taken_from(self, folder: Path) -> Path:
        """The file in a folder that a person names, checked."""
        path = folder / self.name
        if not path.is_file():
            raise UserError(f"{path}: no such file: get it from {self.url}")
        if wrong := self.wrong(path):
            raise UserError(f"{path}: {wrong}: get the file again from {self.url}")
        return path

    def fetched_into(self, folder: Path) -> Path:
        """The file in a folder of ours: there already, or downloaded, checked, and only then given its name.

        What has come outlives a killed run: the next one asks for the rest.
        """
        path, part = folder / self.name, folder / PARTS / self.name
        if path.exists():
            if not path.is_file() or (wrong := self.wrong(path)):
                raise UserError(f"{path}: {wrong if path.is_file() else 'is not a file'}: move it away")
            return path
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            with open(part.with_name(f"{self.name}.lock"), "a") as file:
                lock(file, f"{part}: another run is downloading it: wait for it")
                if not path.exists():  # else that run has just ended
                    self._fetch(part)
                    with open(part, "rb") as complete:
                        os.fsync(complete.fileno())
                    os.replace(part, path)
        except OSError as error:
            raise UserError(f"{part}: cannot be written: {error.strerror or error}") from error
        return path

    def present_in(self, folder: Path) -> int:
        """How many bytes of the file a folder has, finished or not."""
        return next((size for path in (folder / self.name, folder / PARTS / self.name) if (size := _size(path))), 0)

    def wrong(self, path: Path) -> str | None:
        """What is wrong with a file that should have these bytes, if anything."""
        size = path.stat().st_size
        if self.size not in (None, size):
            return f"{size:,} bytes, not {self.size:,}"
        for algorithm, expected in (("sha256", self.sha256), ("md5", self.md5)):
            if expected and (found := checksum(path, algorithm)) != expected:
                return f"{algorithm} is {found}, not {expected}"
        return None

    def _fetch(self, part: Path) -> None:
        """Bring all bytes from the first address that has them."""
        addresses = self.url, *self.mirrors
        if part.exists() and not self.wrong(part):
            return
        for number, url in enumerate(addresses):
            why = _download(url, part)
            if why is None and (wrong := self.wrong(part)):
                part.unlink()
                why = f"sent other bytes than expected ({wrong})"
            if why is None:
                return
            more = addresses[number + 1 : number + 2]
            advice = f"trying {more[0]}" if more else "try later, or get the file by other means and name its folder"
            if more:
                print(f"{url}: {why}: {advice}", file=sys.stderr, flush=True)
        raise UserError(f"{url}: {why}: {advice}")


def _download(url: str, part: Path) -> str | None:
    """Bring what is missing; returns why that is impossible, if it is. What breaks off is asked for again."""
    display = ["--progress-bar"] if sys.stderr and sys.stderr.isatty() else ["--silent"]
    tries = ["--retry", str(RETRIES), "--write-out", "%{http_code} %{errormsg}"]
    while True:
        before = _size(part)
        try:
            done = subprocess.run(
                [*CURL, *display, *tries, "--output", part, url],
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=end_with_parent,  # two curls would write into one file
            )
        except FileNotFoundError as error:
            raise UserError("curl is not installed, which downloads files: install it, or name their folder") from error
        if done.returncode == 0:
            return None
        if done.returncode == 23:
            raise UserError(f"{part}: cannot be written: make room, or choose another folder")
        code, _, why = done.stdout.strip().partition(" ")
        if before and (done.returncode in CANNOT_RESUME or code == "416"):
            part.unlink()
        elif _size(part) <= before:
            return f"cannot be downloaded: {why or f'status {done.returncode} of curl'}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
