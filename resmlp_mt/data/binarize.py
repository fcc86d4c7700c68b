"""Binarize text as a stream in several processes: the same bytes as ``fairseq-preprocess --joined-dictionary``.

The command itself is not used: it counts the subwords in an extra pass, holds the sizes of all sentences in memory, and
leaves an incomplete folder when it is killed.
"""

import contextlib
import itertools
import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import LONGEST_LINE, PathLike, atomic_folder, atomic_write, read_lines, write_whole
from resmlp_mt.common.workers import ALONE, Chunk, Workers, chunks, ordered_map
from resmlp_mt.data.sources import Pair, PlainText
from resmlp_mt.text.tokenizer import END, SPECIAL, UNKNOWN

SPLITS = ("train", "valid", "test")
BLOCK = 1 << 20  # number of sentences whose positions are computed together


def write_dictionary(counts: Mapping[str, int], path: PathLike) -> None:
    """Write fairseq's dictionary file from the counts of a text's subwords, padded to a multiple of 8 symbols."""
    rows = sorted((-count, symbol) for symbol, count in counts.items() if symbol not in SPECIAL)
    padding = (name for number in itertools.count() if (name := f"madeupword{number:04d}") not in counts)
    rows += [(0, name) for name in itertools.islice(padding, -(len(SPECIAL) + len(rows)) % 8)]
    with atomic_write(path) as file:
        file.writelines(f"{symbol} {-count}\n" for count, symbol in rows)


@dataclass(frozen=True)
class Binarizing:
    """The step from text and a dictionary to a folder for fairseq-train. Any number of workers gives the same bytes."""

    texts: Path  # the folder with ``{train,valid,test}.{source,target}`` of subwords and their ``dict.txt``
    folder: Path  # for the binarized data; an existing folder is replaced as a whole
    langs: tuple[str, str]
    workers: Workers = ALONE

    @property
    def dictionary(self) -> Path:
        return self.texts / "dict.txt"

    @property
    def outputs(self) -> list[Path]:
        return [
            *(self.folder / f"dict.{lang}.txt" for lang in self.langs),
            *(path for split in SPLITS for lang in self.langs for path in self._data(self.folder, split, lang)),
        ]

    def run(self, lines: Mapping[str, int], progress: Callable[[int], Any] = lambda pairs: None) -> dict[str, Any]:
        """Binarize the texts, which must have this number of ``lines``; ``progress`` gets the number of each chunk's.

        Return how many symbols the ``"dictionary"`` has, and how many subwords are ``"unknown"``, by set and language.
        """
        symbols, unknown = len(numbers_of(self.dictionary)), {}
        with atomic_folder(self.folder, replace=True) as complete:
            for lang in self.langs:
                write_whole(complete / f"dict.{lang}.txt", self.dictionary.read_bytes())
            for split in SPLITS:
                unknown[split] = self._binarize(complete, split, symbols, lines[split], progress)
        return {"dictionary": symbols - len(SPECIAL), "unknown": unknown}

    def _binarize(
        self, folder: Path, split: str, symbols: int, lines: int, progress: Callable[[int], Any]
    ) -> dict[str, int]:
        sides = (self.texts / f"{split}.{lang}" for lang in self.langs)
        text = PlainText(*sides, longest=LONGEST_LINE)  # subwords take more bytes than raw text
        dtype = np.dtype(np.uint16 if symbols < 65500 else np.uint32)
        encoder = partial(chunk_encoder, self.dictionary, dtype)
        unknown: Counter[str] = Counter()
        done = 0
        with contextlib.ExitStack() as stack:
            paths = [self._data(folder, split, lang) for lang in self.langs]
            files = [stack.enter_context(_dataset(*each, dtype, lines)) for each in paths]
            for encoded in ordered_map(encoder, chunks(text.pairs()), self.workers):
                for lang, (data, index), (numbers, sizes) in zip(self.langs, files, encoded, strict=True):
                    data.write(numbers.tobytes())
                    index.write(sizes.tobytes())
                    unknown[lang] += int((numbers == UNKNOWN).sum())
                done += len(sizes)
                progress(len(sizes))
            if done != lines:
                raise UserError(f"{self.texts}/{split}: {lines} lines expected, {done} found: run again")
        return dict(unknown)

    def _data(self, folder: Path, split: str, lang: str) -> tuple[Path, Path]:
        name = f"{split}.{self.langs[0]}-{self.langs[1]}.{lang}"
        return folder / f"{name}.bin", folder / f"{name}.idx"


def numbers_of(dictionary: Path) -> dict[str, int]:
    """Return the number of each symbol of a dictionary file."""
    symbols = (line.rsplit(" ", 1)[0] for line in read_lines(dictionary))
    return {symbol: number for number, symbol in enumerate((*SPECIAL, *symbols))}


def chunk_encoder(dictionary: Path, dtype: np.dtype) -> Callable[[Chunk[Pair]], list[tuple[np.ndarray, np.ndarray]]]:
    """Return a function from a chunk to the numbers of each side's subwords, with ``</s>``, and the lines' sizes."""
    indices = numbers_of(dictionary)

    def encoded(lines: tuple[bytes, ...]) -> tuple[np.ndarray, np.ndarray]:
        rows = [[*(indices.get(word, UNKNOWN) for word in line.decode().split()), END] for line in lines]
        numbers = itertools.chain.from_iterable(rows)
        return np.fromiter(numbers, dtype), np.array(list(map(len, rows)), np.int32)

    return lambda chunk: [encoded(side) for side in zip(*chunk.lines, strict=True)]


@contextlib.contextmanager
def _dataset(data_path: Path, index_path: Path, dtype: np.dtype, lines: int) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Yield the files of a memory-mapped dataset of fairseq with ``lines`` sentences, for its numbers and its sizes."""
    # Magic, version, fairseq's number of the type (8: uint16, 9: uint32), sentences
    header = struct.pack("<9sQBQ", b"MMIDIDX\x00\x00", 1, {2: 8, 4: 9}[dtype.itemsize], lines)
    with atomic_write(data_path, "wb") as data, atomic_write(index_path, "w+b") as index:
        index.write(header)
        yield data, index
        # The start of each sentence (in bytes) follows the sizes of all. fairseq's own writer holds both in memory.
        position = 0
        for first in range(0, lines, BLOCK):
            index.seek(len(header) + 4 * first)
            block = np.frombuffer(index.read(4 * min(BLOCK, lines - first)), np.int32)
            ends = position + dtype.itemsize * np.cumsum(block, dtype=np.int64)
            index.seek(0, os.SEEK_END)
            index.write((ends - dtype.itemsize * block).tobytes())
            position = ends[-1]
