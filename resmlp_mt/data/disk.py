"""The disk that a preparation needs, told before it begins."""

import contextlib
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import UNFINISHED
from resmlp_mt.data.progress import in_bytes

# Bytes that a preparation writes, as multiples of its raw text, in the order in which it writes them. Measured on
# Multi30k, 4,000 merges: tokenized 1.02, subwords 1.12, data-bin 0.66 (less where sentences are longer); rounded up.
WORK = {"tokenized": 1.1, "subwords": 1.2, "data-bin": 0.7}
GZIPPED = 3  # times the size of a gzipped file is its text, about: 3.2 in Multi30k, 2.7 in Tatoeba


@dataclass(frozen=True)
class DiskWork:
    """What a preparation writes.

    Attributes:
        out: folder of the results
        text_bytes: of the raw text on both sides, about
        anew: folders in ``out`` whose files will be made again, from other text or with other options
        made: folders in ``out`` in which nothing is missing
        folders: those that it writes at all
    """

    out: Path
    text_bytes: int
    anew: Collection[str] = ()
    made: Collection[str] = ()
    folders: Collection[str] = tuple(WORK)

    @property
    def needed(self) -> int:
        """Bytes that will be needed beside what is there, at most at one time, about."""
        more = most = 0.0
        for name in self.folders:
            if name in self.made:
                continue
            new, old = WORK[name] * self.text_bytes, _bytes_in(self.out / name)
            # An old file goes when the new one that takes its place is complete.
            most = max(most, more + (new if name in self.anew else new - old))
            more += new - old if name in self.anew else max(0, new - old)
        return round(most)

    @property
    def free(self) -> int:
        """Bytes free on the disk of the results. What a killed run left unfinished is, since it goes first."""
        existing = next(path for path in (self.out.absolute(), *self.out.absolute().parents) if os.path.exists(path))
        return shutil.disk_usage(existing).free + _bytes_in(self.out / UNFINISHED)

    def check(self, download: int = 0) -> None:
        """See that there is room.

        Args:
            download: bytes that come besides

        Raises:
            UserError: there is too little
        """
        needed, free = self.needed, self.free
        if download + needed > free:
            parts = [f"{in_bytes(download)} of downloads"] if download else []
            parts.append(f"{in_bytes(needed)} of work for {in_bytes(self.text_bytes)} of raw text")
            raise UserError(
                f"{self.out}: {in_bytes(free)} free on its disk, but about {in_bytes(download + needed)} "
                f"needed ({', '.join(parts)}): make room, choose another folder, or try a small --sample"
            )

    def __str__(self) -> str:
        anew = f"; {', '.join(self.anew)} anew, beside the old" if self.anew else ""
        times = sum(WORK[name] for name in self.folders)
        text = f"{times:.1f} times {in_bytes(self.text_bytes)} of raw text"
        return f"work: about {in_bytes(self.needed)} ({text}, less what {self.out} has{anew})"


def text_bytes(path: Path) -> int:
    """Bytes of the text in a file, about, without reading it."""
    return os.path.getsize(path) * (GZIPPED if path.suffix == ".gz" else 1)


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # gone meanwhile
                total += os.lstat(Path(place, name)).st_size
    return total
