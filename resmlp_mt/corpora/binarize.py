"""fairseq-preprocess, run so that its folder appears complete or not at all."""

import os
import shutil
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
        source, target = self.langs
        temporary = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=f".{self.folder.name}.", suffix=".tmp"))
        try:
            command = [sys.executable, "-m", "fairseq_cli.preprocess", "--joined-dictionary"]
            command += ["--source-lang", source, "--target-lang", target, "--workers", str(self.workers)]
            command += ["--trainpref", f"{self.texts}/train", "--validpref", f"{self.texts}/valid"]
            command += ["--testpref", f"{self.texts}/test", "--destdir", str(temporary)]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            if done.returncode != 0:
                last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
                raise UserError(f"{self.texts}: fairseq-preprocess failed (status {done.returncode}): {last}")
            for split, expected in zip(SPLITS, lines, strict=True):
                for lang in self.langs:
                    found = _sentences(self._data(temporary, split, lang))
                    if found != expected:
                        raise UserError(f"{self.texts}/{split}.{lang}: {expected} lines, of which fairseq-preprocess "
                                        f"binarised {found}: please report this text")  # fmt: skip
            (temporary / "preprocess.log").unlink()  # times and paths, which differ from run to run
            temporary.chmod(0o755)  # mkdtemp makes private folders
            self._replace_by(temporary)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def dictionary(self) -> dict[str, int]:
        """Each symbol of the joint dictionary with its count in the training text; fairseq's four special ones aside."""
        lines = read_lines(self.folder / f"dict.{self.langs[0]}.txt")
        return {symbol: int(count) for symbol, count in (line.rsplit(" ", 1) for line in lines)}

    def _data(self, folder: Path, split: str, lang: str) -> Path:
        return folder / f"{split}.{self.langs[0]}-{self.langs[1]}.{lang}"

    def _replace_by(self, complete: Path) -> None:
        if self.folder.exists():
            # A folder cannot be exchanged in one go: a kill in between leaves none, never a mixture.
            old = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=f".{self.folder.name}.", suffix=".tmp"))
            os.rename(self.folder, old / "old")
            os.rename(complete, self.folder)
            shutil.rmtree(old)
        else:
            os.rename(complete, self.folder)


def _sentences(data: Path) -> int:
    # The header of fairseq's MMapIndexedDataset: magic, version (u64), type (u8), number of sentences (u64).
    with open(f"{data}.idx", "rb") as index:
        magic, _, _, sentences = struct.unpack("<9sQBQ", index.read(26))
    if magic != b"MMIDIDX\x00\x00":
        raise UserError(f"{data}.idx: not an index of fairseq's memory-mapped datasets: is this fairseq 0.12?")
    return sentences
