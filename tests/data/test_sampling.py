"""Samples of a binarized training set."""

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.binarized import lengths, sample

LANGS = "en", "de"


@pytest.fixture
def data(tmp_path):
    """Sentence i of each side is the number 4 + i, once more than the side before."""
    folder = tmp_path / "data-bin"
    folder.mkdir()
    for side, lang in enumerate(LANGS, 1):
        (folder / f"dict.{lang}.txt").write_text("word 1\n")
        for subset, count in ("train", 30), ("valid", 3):
            prefix = f"{folder}/{subset}.en-de.{lang}"
            builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
            for number in range(count):
                builder.add_item(torch.tensor([4 + number] * side + [2]))
            builder.finalize(f"{prefix}.idx")
    return folder


def pairs(folder, subset):
    sides = [MMapIndexedDataset(f"{folder}/{subset}.en-de.{lang}") for lang in LANGS]
    return [tuple(tuple(side[number].tolist()) for side in sides) for number in range(len(sides[0]))]


def test_a_sample_holds_the_smaller_ones_pair_by_pair_and_the_same_validation_set(data, tmp_path):
    for count in 5, 12:
        sample(data, tmp_path / str(count), LANGS, count, seed=1, made_of={})
    small, large = (pairs(tmp_path / str(count), "train") for count in (5, 12))
    assert (len(small), len(large)) == (5, 12)
    assert large[:5] == small
    assert set(large) < set(pairs(data, "train")) and len(set(large)) == 12
    assert all(target == (source[0], *source) for source, target in large)
    assert large != pairs(data, "train")[:12]
    assert pairs(tmp_path / "5", "valid") == pairs(data, "valid")
    assert (tmp_path / "5" / "dict.de.txt").read_bytes() == (data / "dict.de.txt").read_bytes()


def test_another_seed_draws_others(data, tmp_path):
    for seed in 1, 2:
        sample(data, tmp_path / str(seed), LANGS, 12, seed, {})
    assert set(pairs(tmp_path / "1", "train")) != set(pairs(tmp_path / "2", "train"))


def test_lengths_are_those_of_both_sides(data):
    source, target = lengths(data, "valid", LANGS)
    assert (source.tolist(), target.tolist()) == ([2] * 3, [3] * 3)


def test_a_sample_that_is_too_large_or_of_no_data_is_told_in_one_line(data, tmp_path):
    with pytest.raises(UserError, match="has 30 training pairs, a sample of 31 is asked for"):
        sample(data, tmp_path / "31", LANGS, 31, 1, {})
    (data / "train.en-de.de.bin").unlink()
    with pytest.raises(UserError, match=r"train\.en-de\.de\.bin: no such file: prepare the data first"):
        sample(data, tmp_path / "5", LANGS, 5, 1, {})
    assert not (tmp_path / "5").exists()
