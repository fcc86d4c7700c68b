"""Read fairseq's binarized data: check that it is complete, load its dictionaries, make samples of it."""

import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder, _code_to_dtype

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_folder, write_json

AGAIN = "make the data again by resmlp-mt prepare-text or fairseq-preprocess"

_HEAD = struct.Struct("<9sQBQ")
"""Header of an index: magic, version, code of the numbers' type, number of sentences. Lengths and starts follow."""


def check_binarized(prefix: str, entries: int | None = None) -> None:
    """Check the two files of a binarized text, if they have fairseq-preprocess's default format (mmap).

    ``prefix``: their path without ``.bin`` and ``.idx``; ``entries``: size of their dictionary; None: not checked.
    """
    index, data = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    with index.open("rb") as stream:
        start = stream.read(_HEAD.size)
    if start[:8] in (b"TNTIDX\0\0", b"HUFFIDX\0"):
        return  # another format: --dataset-impl lazy, cached or huffman
    magic, version, code, sentences = _HEAD.unpack(start.ljust(_HEAD.size, b"\0"))
    known = magic == MMapIndexedDataset.Index._HDR_MAGIC and version == 1 and code in _code_to_dtype
    if not known or index.stat().st_size != _HEAD.size + sentences * 12:
        raise UserError(f"{index}: cut short or damaged: {AGAIN}")
    if sentences == 0:
        raise UserError(f"{index}: has no sentences: {AGAIN}")
    lengths = np.memmap(index, np.int32, "r", _HEAD.size, (sentences,))
    starts = np.memmap(index, np.int64, "r", _HEAD.size + sentences * 4, (sentences,))
    number = np.dtype(_code_to_dtype[code])
    size = int(starts[-1]) + int(lengths[-1]) * number.itemsize
    if starts[0] != 0 or lengths.min() < 0 or not np.array_equal(np.diff(starts), lengths[:-1] * number.itemsize):
        raise UserError(f"{index}: damaged: {AGAIN}")
    if data.stat().st_size != size:
        has = f"has {data.stat().st_size:,} bytes, {index.name} asks for {size:,}"
        raise UserError(f"{data}: {has}: cut short, or not its own: {AGAIN}")
    if entries is not None:
        symbols = np.memmap(data, number, "r")
        least, most = symbols.min(), symbols.max()
        if least < 0 or most >= entries:
            problem = f"symbol {least if least < 0 else most} is not in the dictionary of {entries:,} entries"
            raise UserError(f"{data}: {problem}: damaged, or not its own: {AGAIN}")


def read_dictionary(path: Path) -> Dictionary:
    """Read ``dict.LANGUAGE.txt``."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: give fairseq's folder of binarized data and its languages")
    try:
        return Dictionary.load(str(path))
    except Exception as error:  # fairseq raises plain Exceptions; only their first sentence says what is wrong
        why = " ".join(str(error).split()).split(". ")[0]
        raise UserError(f"{path}: {why}: copy the one that the data was made with, or make the data again") from error


def made_up_dictionary(entries: int) -> Dictionary:
    """Return a dictionary with this number of entries, filled with invented words."""
    dictionary = Dictionary()
    for number in range(entries - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    return dictionary


RECORD = "sample.json"
"""The file in a sample's folder that records what the sample was made of."""


def lengths(folder: Path, subset: str, langs: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of subwords of each sentence, with ``</s>``: arrays for source and target (each: sentences)."""
    sides = [open_binarized(prefix) for prefix in prefixes(folder, subset, langs)]  # stay open: sizes are views
    source, target = (side.sizes.astype(np.int64) for side in sides)
    if len(source) != len(target):
        raise UserError(f"{folder}: {subset} has {len(source):,} sentences on one side, {len(target):,} on the other")
    return source, target


def sample_numbers(data: Path, langs: tuple[str, str], pairs: int, seed: int) -> np.ndarray:
    """Return the numbers of a sample's pairs: the first ones of a permutation that all samples with this seed share."""
    there = len(lengths(data, "train", langs)[0])
    if pairs > there:
        raise UserError(f"{data}: has {there:,} training pairs, a sample of {pairs:,} is asked for")
    return np.random.default_rng(seed).permutation(there)[:pairs]


def sample(data: Path, folder: Path, langs: tuple[str, str], pairs: int, seed: int, made_of: Mapping[str, Any]) -> None:
    """Make a data-bin from some training pairs of another one, with the same validation set and dictionaries.

    A larger sample holds all pairs of a smaller one (see ``sample_numbers``). ``made_of`` is written to its RECORD.
    """
    from resmlp_mt.data.raw_text import NAME, RawText  # here: trainings import this module, not that one

    chosen = sample_numbers(data, langs, pairs, seed)
    with atomic_folder(folder) as new:
        for source in prefixes(data, "train", langs):
            whole = open_binarized(source)
            builder = MMapIndexedDatasetBuilder(str(new / f"{source.name}.bin"), dtype=whole._index.dtype)
            for number in chosen:
                builder.add_item(whole[number])
            builder.finalize(str(new / f"{source.name}.idx"))
        same = [Path(f"{source}{end}") for source in prefixes(data, "valid", langs) for end in (".bin", ".idx")]
        same += [data / f"dict.{lang}.txt" for lang in langs]
        same += RawText.of(data).files if (data / NAME).exists() else []
        for path in same:
            shutil.copyfile(path, new / path.name)
        write_json(new / RECORD, made_of)


def prefixes(folder: Path, subset: str, langs: tuple[str, str]) -> list[Path]:
    """Return the paths of the source and target files without ``.bin`` or ``.idx``."""
    pairs = "-".join(langs), "-".join(langs[::-1])  # fairseq reads data of either direction
    pair = next((each for each in pairs if (folder / f"{subset}.{each}.{langs[0]}.idx").exists()), pairs[0])
    return [folder / f"{subset}.{pair}.{lang}" for lang in langs]


def open_binarized(prefix: Path, entries: int | None = None) -> MMapIndexedDataset:
    """Check and open a binarized text. Each item is a sentence: an array of numbers that ends with ``</s>``."""
    if not MMapIndexedDataset.exists(str(prefix)):
        raise UserError(f"{prefix}.bin: no such file: prepare the data first, by resmlp-mt prepare-text")
    check_binarized(str(prefix), entries)
    try:
        return MMapIndexedDataset(str(prefix))
    except AssertionError as error:
        raise UserError(f"{prefix}.bin: not of fairseq-preprocess --dataset-impl mmap, its own default") from error
