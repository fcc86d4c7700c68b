"""Binarized data: its dictionaries, and samples of it."""

import builders
import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.binarized import made_up_dictionary, read_dictionary, sample
from resmlp_mt.data.raw_text import RawText
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words


@pytest.mark.parametrize("entries", [4, 5, 100])
def test_a_made_up_dictionary_has_the_size_and_no_word_twice(tmp_path, entries):
    dictionary = made_up_dictionary(entries)
    assert len(dictionary) == len(set(dictionary.symbols)) == entries
    dictionary.save(str(tmp_path / "dict.de.txt"))
    assert read_dictionary(tmp_path / "dict.de.txt").symbols == dictionary.symbols


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a 1\nb 2\na 3\n", "Duplicate word found when loading Dictionary: 'a'"),
        ("a 1\n<pad> 2\n", "Duplicate word found when loading Dictionary: '<pad>'"),
        ("a 1\n\nb 2\n", "Incorrect dictionary format, .*"),
    ],
)
def test_a_bad_line_is_told(tmp_path, lines, message):
    path = tmp_path / "dict.de.txt"
    with pytest.raises(UserError, match=r"dict\.de\.txt: no such file: give fairseq's folder"):
        read_dictionary(path)
    path.write_text(lines)
    with pytest.raises(UserError, match=f"dict.de.txt: {message}: copy the one"):
        read_dictionary(path)
    path.write_text("a 1\na 3 #fairseq:overwrite\nb c 2\n")  # fairseq allows this
    assert read_dictionary(path).symbols[4:] == ["a", "a", "b c"]


LANGS = "en", "de"


@pytest.fixture
def data(tmp_path):
    """Sentence i is the token 4 + i, once in English and twice in German."""
    folder = tmp_path / "data-bin"
    folder.mkdir()
    for side, lang in enumerate(LANGS, 1):
        (folder / f"dict.{lang}.txt").write_text("word 1\n")
        for subset, count in ("train", 30), ("valid", 3):
            builders.binarize(folder, subset, lang, [[4 + number] * side + [2] for number in range(count)])
    return folder


def pairs(folder, subset):
    sides = [MMapIndexedDataset(f"{folder}/{subset}.en-de.{lang}") for lang in LANGS]
    return [tuple(tuple(side[number].tolist()) for side in sides) for number in range(len(sides[0]))]


def test_a_sample_holds_the_smaller_ones_pair_by_pair_and_the_same_validation_set(data, tmp_path):
    (tmp_path / "codes").write_text("#version: 0.2\n")
    RawText(data, LANGS, Words(), Subwords("bpe"), "bpe.codes").write(tmp_path / "codes")
    for count in 5, 12:
        sample(data, tmp_path / str(count), LANGS, count, seed=1, made_of={})
    sample(data, tmp_path / "other", LANGS, 12, seed=2, made_of={})
    small, large, other = (pairs(tmp_path / name, "train") for name in ("5", "12", "other"))
    assert (len(small), len(large)) == (5, 12)
    assert large[:5] == small
    assert set(large) < set(pairs(data, "train")) and len(set(large)) == 12
    assert all(target == (source[0], *source) for source, target in large)
    assert large != pairs(data, "train")[:12]
    assert set(large) != set(other)
    assert pairs(tmp_path / "5", "valid") == pairs(data, "valid")
    assert [path.name for path in RawText.of(tmp_path / "5").files if path.exists()] == ["bpe.codes", "text.json"]
    assert (tmp_path / "5" / "dict.de.txt").read_bytes() == (data / "dict.de.txt").read_bytes()
    with pytest.raises(UserError, match="has 30 training pairs, a sample of 31 is asked for"):
        sample(data, tmp_path / "31", LANGS, 31, 1, {})
    assert not (tmp_path / "31").exists()
