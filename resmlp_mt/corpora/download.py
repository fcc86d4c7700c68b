"""Public files, fetched over the network or taken from a folder, with known sha256 sums."""

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt.corpora.steps import sha256_of
from resmlp_mt.errors import UserError
from resmlp_mt.files import atomic_write

BLOCK = 1 << 16  # bytes


@dataclass(frozen=True)
class PublicFile:
    """A file that never changes.

    Attributes:
        name: its name in a folder
        url: where the public finds it
        sha256: of its bytes, in hexadecimal
    """

    name: str
    url: str
    sha256: str

    def taken_from(self, folder: Path) -> Path:
        """The file in a folder that a person names, checked.

        Raises:
            UserError: it is not there or has other bytes
        """
        path = folder / self.name
        found = sha256_of(path)
        if found != self.sha256:
            raise UserError(f"{path}: sha256 is {found}, not {self.sha256}: get the file again from {self.url}")
        return path

    def fetched_into(self, folder: Path, attempts: int = 4, pause: float = 2.0) -> Path:
        """The file in a folder of ours: there already, or downloaded, checked, and only then given its name.

        Args:
            folder: made if missing
            attempts: how often to try when the network or the server fails for the moment
            pause: seconds before the second attempt; doubles every time

        Raises:
            UserError: no network, the server does not have it, or its bytes are wrong
        """
        path = folder / self.name
        if path.is_file() and sha256_of(path) == self.sha256:
            return path
        for attempt in range(attempts):
            try:
                with atomic_write(path, "wb") as file:
                    digest = hashlib.sha256()
                    for block in _blocks(self.url):
                        file.write(block)
                        digest.update(block)
                    found = digest.hexdigest()
                    if found != self.sha256:
                        raise UserError(
                            f"{self.url}: sent other bytes than expected (sha256 {found}, not {self.sha256})"
                        )
                return path
            except _TryAgain as error:
                if attempt + 1 == attempts:
                    raise UserError(
                        f"{error} ({attempts} attempts): try later, or name a folder that has it"
                    ) from error
                time.sleep(pause * 2**attempt)
        raise AssertionError("attempts must be 1 or more")


class _TryAgain(Exception):
    """The network or the server failed, perhaps for the moment."""


def _blocks(url: str) -> Iterator[bytes]:
    # A generator, so that errors of the network and of whoever writes the blocks are not mixed up: both are OSErrors.
    received = 0
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            expected = response.headers.get("Content-Length")
            while block := response.read(BLOCK):
                received += len(block)
                yield block
    except urllib.error.HTTPError as error:
        message = f"{url}: the server answers {error.code} {error.reason}"
        if error.code < 500 and error.code != 429:
            raise UserError(message) from error
        raise _TryAgain(message) from error
    except (OSError, http.client.HTTPException) as error:
        raise _TryAgain(f"{url}: cannot be downloaded: {getattr(error, 'reason', None) or error}") from error
    if expected is not None and received != int(expected):
        raise _TryAgain(f"{url}: broke off after {received} of {expected} bytes")
