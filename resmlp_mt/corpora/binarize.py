"""fairseq-preprocess, run so that its folder appears complete or not at all."""

import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_lines

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Binarizing:
    """A run of fairseq-preprocess with one dictionary for both languages.

    Attributes:
        texts: folder with ``{train,valid,test}.{source,target}`` of subwords
        folder: where the binarised data shall be; replaced as a whole
        langs: source and target language
        workers: processes; any number gives the same bytes
    """

    texts: Path
    folder: Path
    langs: tuple[str, str]
    workers: int = 1

    @property
    def outputs(self) -> list[Path]:
        """All files of the finished folder."""
        dictionaries = [self.folder / f"dict.{lang}.txt" for lang in self.langs]
        return dictionaries + [
            self._data(self.folder, split, lang).with_name(f"{self._data(self.folder, split, lang).name}.{kind}")
            for split in SPLITS
            for lang in self.langs
            for kind in ("bin", "idx")
        ]

    def run(self, lines: Sequence[int]) -> None:
        """Binarise.

        Args:
            lines: number of lines that train, valid and test must have when binarised

        Raises:
            UserError: fairseq-preprocess failed or lost lines
        """
        try:
            with tempfile.TemporaryDirectory(
                dir=self.folder.parent, prefix=f".{self.folder.name}.", suffix=".tmp"
            ) as temporary:
                complete = Path(temporary, "new")
                self._preprocess(complete)
                self._check(complete, lines)
                (complete / "preprocess.log").unlink()  # times and paths, which differ from run to run
                # A folder cannot be exchanged in one go: a kill in between leaves none, never a mixture.
                if self.folder.exists():
                    os.rename(self.folder, Path(temporary, "old"))
                os.rename(complete, self.folder)
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written: {error.strerror or error}") from error

    def _preprocess(self, folder: Path) -> None:
        source, target = self.langs
        command = [sys.executable, "-m", "fairseq_cli.preprocess", "--joined-dictionary"]
        command += ["--source-lang", source, "--target-lang", target, "--workers", str(self.workers)]
        command += ["--trainpref", f"{self.texts}/train", "--validpref", f"{self.texts}/valid"]
        command += ["--testpref", f"{self.texts}/test", "--destdir", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
            raise UserError(f"{self.texts}: fairseq-preprocess failed (status {done.returncode}): {last}")

    def _check(self, folder: Path, lines: Sequence[int]) -> None:
        for split, expected in zip(SPLITS, lines, strict=True):
            for lang in self.langs:
                found = _sentences(self._data(folder, split, lang))
                if found != expected:
                    raise UserError(
                        f"{self.texts}/{split}.{lang}: fairseq-preprocess binarised {found} of {expected} lines: "
                        "try with --workers 1, and please report it"
                    )

    def dictionary(self) -> dict[str, int]:
        """The joint dictionary's symbols, fairseq's four special ones aside, with their counts in the training text."""
        lines = read_lines(self.folder / f"dict.{self.langs[0]}.txt")
        return {symbol: int(count) for symbol, count in (line.rsplit(" ", 1) for line in lines)}

    def _data(self, folder: Path, split: str, lang: str) -> Path:
        return folder / f"{split}.{self.langs[0]}-{self.langs[1]}.{lang}"


def _sentences(data: Path) -> int:
    # The header of fairseq's MMapIndexedDataset: magic, version (u64), type (u8), number of sentences (u64).
    with open(f"{data}.idx", "rb") as index:
        magic, _, _, sentences = struct.unpack("<9sQBQ", index.read(26))
    if magic != b"MMIDIDX\x00\x00":
        raise UserError(f"{data}.idx: not an index of fairseq's memory-mapped datasets: is this fairseq 0.12?")
    return sentences
