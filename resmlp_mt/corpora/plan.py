"""What a preparation will need, said before it begins: files and disk."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt.corpora.download import PublicFile
from resmlp_mt.errors import UserError

# Bytes that a preparation leaves, as a multiple of its raw text. Measured on Multi30k, 4,000 merges: tokenized 1.02,
# subwords 1.12, data-bin 0.66 (less where sentences are longer); rounded up.
WORK = 3.0
WRITTEN = ("tokenized", "subwords", "data-bin")


@dataclass(frozen=True)
class Plan:
    """Files to read, a folder to work in, and how much text there is.

    Attributes:
        files: all archives
        archives: folder that a person names, which must have all of them; None: they are downloaded
        out: folder of the results
        text_bytes: of the raw training text on both sides, about
    """

    files: Sequence[PublicFile]
    archives: Path | None
    out: Path
    text_bytes: int

    @property
    def folder(self) -> Path:
        """Where the archives are, or will be."""
        return self.archives or self.out / "raw"

    @property
    def download(self) -> int:
        """Bytes that must still come, as far as sizes are known."""
        if self.archives:
            return 0
        return sum(max(0, (file.size or 0) - file.present_in(self.folder)) for file in self.files)

    @property
    def work(self) -> int:
        """Bytes that the work will still write, about."""
        there = sum(path.stat().st_size for name in WRITTEN for path in (self.out / name).glob("*") if path.is_file())
        return max(0, round(WORK * self.text_bytes) - there)

    @property
    def free(self) -> int:
        """Bytes free on the disk of the results."""
        existing = next(path for path in (self.out.absolute(), *self.out.absolute().parents) if path.exists())
        return shutil.disk_usage(existing).free

    def obtained(self) -> dict[str, Path]:
        """All archives by their names: downloaded, or taken from the folder that a person names, and checked.

        Raises:
            UserError: too little disk is free, or an archive cannot be had or is another
        """
        if self.download + self.work > self.free:
            raise UserError(
                f"{self.out}: {_bytes(self.free)} free on its disk, but about {_bytes(self.download + self.work)} "
                f"needed ({_bytes(self.download)} of downloads, {_bytes(self.work)} of work): make room, choose "
                "another folder, or try a small --sample"
            )
        paths = {}
        for file in self.files:
            paths[file.name] = file.taken_from(self.folder) if self.archives else file.fetched_into(self.folder)
            print(f"{paths[file.name]}: complete", flush=True)
        return paths

    def __str__(self) -> str:
        unknown = sum(file.size is None for file in self.files) if not self.archives else 0
        lines = [f"archives in {self.folder}" + ("" if self.archives else ", downloaded where they are missing")]
        for file in self.files:
            size = "size unknown" if file.size is None else _bytes(file.size)
            lines.append(f"  {file.name}  {size}, {self._there(file)}")
            lines.append(f"    {file.url}")
        lines += [
            f"to download: {_bytes(self.download)}" + (f" and {unknown} of unknown size" if unknown else ""),
            f"work: about {_bytes(self.work)} ({WORK:.1f} times {_bytes(self.text_bytes)} of raw text, less what "
            f"{self.out} has)",
            f"disk: about {_bytes(self.download + self.work)} needed, {_bytes(self.free)} free",
        ]
        return "\n".join(lines)

    def _there(self, file: PublicFile) -> str:
        if (self.folder / file.name).is_file():
            return "there"
        present = file.present_in(self.folder)
        return f"{_bytes(present)} there" if present else "missing"


def _bytes(number: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"
