"""Samples of a binarized training set, each within the larger ones."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_folder, write_json
from resmlp_mt.data.binarized import check_binarized

RECORD = "sample.json"
"""What a sample was made of, beside it."""


def lengths(folder: Path, subset: str, langs: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """The subwords of each sentence with ``</s>``, of source and target (each: sentences).

    Args:
        folder: binarized data
        subset: ``train`` or ``valid``

    Raises:
        UserError: the folder lacks it, or the two sides are not of the same number of sentences
    """
    sides = [_dataset(prefix) for prefix in _prefixes(folder, subset, langs)]  # whose end would unmap their sizes
    source, target = (side.sizes.astype(np.int64) for side in sides)
    if len(source) != len(target):
        raise UserError(
            f"{folder}: {subset} has {len(source):,} sentences on one side and {len(target):,} on the other"
        )
    return source, target


def drawn(data: Path, langs: tuple[str, str], pairs: int, seed: int) -> np.ndarray:
    """The numbers of the pairs of a sample: the first of one permutation of the training set, which all samples share.

    Raises:
        UserError: there are fewer pairs
    """
    there = len(lengths(data, "train", langs)[0])
    if pairs > there:
        raise UserError(f"{data}: has {there:,} training pairs, a sample of {pairs:,} is asked for")
    return np.random.default_rng(seed).permutation(there)[:pairs]


def sample(data: Path, folder: Path, langs: tuple[str, str], pairs: int, seed: int, made_of: Mapping[str, Any]) -> None:
    """Make a data-bin of some pairs of another's training set; its validation set and dictionaries stay.

    A sample holds all that are smaller (``drawn``).

    Args:
        data: the whole data-bin
        folder: the new one; appears complete or not at all
        pairs: how many
        seed: of the permutation
        made_of: what is kept with it, in RECORD

    Raises:
        UserError: there are fewer pairs, the data is broken, or the folder cannot be written
    """
    chosen = drawn(data, langs, pairs, seed)
    with atomic_folder(folder) as new:
        for source in _prefixes(data, "train", langs):
            whole = _dataset(source)
            builder = MMapIndexedDatasetBuilder(str(new / f"{source.name}.bin"), dtype=whole._index.dtype)
            for number in chosen:
                builder.add_item(whole[number])
            builder.finalize(str(new / f"{source.name}.idx"))
        for source in _prefixes(data, "valid", langs):
            for ending in ".bin", ".idx":
                shutil.copyfile(f"{source}{ending}", new / f"{source.name}{ending}")
        for lang in langs:
            shutil.copyfile(data / f"dict.{lang}.txt", new / f"dict.{lang}.txt")
        write_json(new / RECORD, made_of)


def _prefixes(folder: Path, subset: str, langs: tuple[str, str]) -> list[Path]:
    return [folder / f"{subset}.{langs[0]}-{langs[1]}.{lang}" for lang in langs]


def _dataset(prefix: Path) -> MMapIndexedDataset:
    if not MMapIndexedDataset.exists(str(prefix)):
        raise UserError(f"{prefix}.bin: no such file: prepare the data first, by prepare_text.py or fairseq-preprocess")
    check_binarized(str(prefix))
    return MMapIndexedDataset(str(prefix))
