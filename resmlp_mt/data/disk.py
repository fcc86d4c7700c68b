"""The disk that a preparation needs, told before it begins."""

import os
import shutil
from pathlib import Path

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import UNFINISHED
from resmlp_mt.common.progress import in_bytes

# Bytes that a preparation writes, as multiples of its raw text. Measured on Multi30k, 4,000 merges: tokenized 1.02,
# subwords 1.12, data-bin 0.66 (less where sentences are longer); rounded up.
WORK = {"tokenized": 1.1, "subwords": 1.2, "data-bin": 0.7}
GZIPPED = 3  # times the size of a gzipped file is its text, about: 3.2 in Multi30k, 2.7 in Tatoeba


def disk_needed(out: Path, text: int) -> int:
    """Bytes that preparing so many bytes of raw text will need in a folder beside what is there, about."""
    there = sum(_bytes_in(out / name) for name in WORK)
    return max(0, round(sum(WORK.values()) * text) - there)


def disk_free(out: Path) -> int:
    """Bytes free on a folder's disk. What a killed run left unfinished is, since it goes first."""
    existing = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free + _bytes_in(out / UNFINISHED)


def check_disk(out: Path, text: int, download: int = 0) -> None:
    """See that there is room for the work on so many bytes of raw text, and for what comes over the network."""
    needed, free = download + disk_needed(out, text), disk_free(out)
    if needed > free:
        raise UserError(
            f"{out}: {in_bytes(free)} free on its disk, but about {in_bytes(needed)} needed ({in_bytes(download)} of "
            f"downloads, {in_bytes(text)} of raw text): make room, choose another folder, or try a small --sample"
        )


def text_bytes(path: Path) -> int:
    """Bytes of the text in a file, about, without reading it."""
    return os.path.getsize(path) * (GZIPPED if path.suffix == ".gz" else 1)


def _bytes_in(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
