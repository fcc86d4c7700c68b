"""Public files: downloaded by curl or taken from a folder, and checked."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import checksum, lock
from resmlp_mt.common.workers import end_with_parent

PARTS = ".downloads"  # subfolder for partial downloads
RETRIES = 5  # of curl, which waits 1, 2, 4, ... seconds before them
CURL = [
    *("curl", "--fail", "--location", "--continue-at", "-", "--connect-timeout", "30"),
    *("--speed-limit", "1", "--speed-time", "60"),  # bytes per second, seconds: a slower transfer has stalled
    *("--retry-max-time", "50"),  # less than --speed-time: after a stall, curl's own retry would discard the data
]
CANNOT_RESUME = (33, 36)  # exit statuses of curl: the server cannot send ranges, or none from there


@dataclass(frozen=True)
class PublicFile:
    """A public file that never changes, identified by at least one checksum of its bytes, in hexadecimal."""

    name: str  # of the file in a folder
    url: str  # its public address
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None  # bytes, where known
    mirrors: tuple[str, ...] = ()  # other public addresses of the same bytes

    def checked_in(self, folder: Path) -> Path:
        """Return the path of the file in a folder of the user, after checking the file."""
        path = folder / self.name
        if not path.is_file():
            missing = "is not a file: move it away, and" if path.exists() else "no such file:"
            raise UserError(f"{path}: {missing} get it from {self.url}")
        if wrong := self.problem(path):
            raise UserError(f"{path}: {wrong}: move it away, or get it again from {self.url}")
        return path

    def download_into(self, folder: Path) -> Path:
        """Return the path of the file in our folder, checked. A missing file is downloaded, and named when it is right.

        A partial download survives a killed run: the next run asks for the rest.
        """
        path, part = folder / self.name, folder / PARTS / self.name
        if path.exists():
            return self.checked_in(folder)
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            with open(part.with_name(f"{self.name}.lock"), "a") as file:
                lock(file, f"{part}: another run is downloading it: wait for it")
                if not path.exists():  # else the other run has just finished it
                    self._fetch(part)
                    with open(part, "rb") as complete:
                        os.fsync(complete.fileno())
                    os.replace(part, path)
        except OSError as error:
            raise UserError(f"{part}: cannot be written: {error.strerror or error}") from error
        return path

    def bytes_in(self, folder: Path) -> int:
        """Return how many bytes of the file a folder has, complete or partial."""
        return _size(folder / self.name) or _size(folder / PARTS / self.name)

    def problem(self, path: Path) -> str | None:
        """Return what is wrong with the size or checksums of a file, or None."""
        size = path.stat().st_size
        if self.size not in (None, size):
            return f"{size:,} bytes, not {self.size:,}"
        for algorithm, expected in (("sha256", self.sha256), ("md5", self.md5)):
            if expected and (found := checksum(path, algorithm)) != expected:
                return f"{algorithm} is {found}, not {expected}"
        return None

    def _fetch(self, part: Path) -> None:
        """Download the file from the first address that sends the right bytes."""
        if part.exists() and not self.problem(part):
            return
        for url, following in zip((self.url, *self.mirrors), (*self.mirrors, None), strict=True):
            why = _download(url, part)
            if why is None and (wrong := self.problem(part)):
                part.unlink()
                why = f"sent other bytes than expected ({wrong})"
            if why is None:
                return
            if following is None:
                raise UserError(f"{url}: {why}: try later, or get the file by other means and name its folder")
            print(f"{url}: {why}: trying {following}", file=sys.stderr, flush=True)


def _download(url: str, part: Path) -> str | None:
    """Download the missing part, and go on after an interruption. Return why this fails, or None."""
    display = ["--progress-bar"] if sys.stderr.isatty() else ["--silent"]
    tries = ["--retry", str(RETRIES), "--write-out", "%{http_code} %{errormsg}"]
    while True:
        before = _size(part)
        try:
            done = subprocess.run(
                [*CURL, *display, *tries, "--output", part, url],
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=end_with_parent,  # else it and the next run's curl write to one file
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
