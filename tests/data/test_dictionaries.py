"""Dictionaries, read and made up."""

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.binarized import made_up_dictionary, read_dictionary


@pytest.mark.parametrize("entries", [4, 5, 100])
def test_a_made_up_dictionary_has_the_size_and_no_word_twice(entries):
    dictionary = made_up_dictionary(entries)
    assert len(dictionary) == len(set(dictionary.symbols)) == entries


def test_what_fairseq_writes_is_read(tmp_path):
    made_up_dictionary(9).save(str(tmp_path / "dict.de.txt"))
    assert read_dictionary(tmp_path / "dict.de.txt").symbols == made_up_dictionary(9).symbols


def test_what_cannot_be_read_is_one_line(tmp_path):
    path = tmp_path / "dict.de.txt"
    with pytest.raises(UserError, match=r"dict\.de\.txt: no such file: give fairseq's folder"):
        read_dictionary(path)
    path.write_text("word without a count\n")
    with pytest.raises(UserError, match=r"dict\.de\.txt:1: .*: not a dictionary of fairseq") as error:
        read_dictionary(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a 1\nb 2\na 3\n", r":3: 'a' for the second time \(line 1 has it too\)"),
        ("a 1\n<pad> 2\n", r":2: '<pad>' for the second time \(one of fairseq's own symbols\)"),
        ("a 1\nb two\n", r":2: 'b two' is no subword and its count"),
        ("a 1\nb\n", r":2: 'b' is no subword and its count"),
        ("a 1\n\nb 2\n", r":2: '' is no subword and its count"),
    ],
)
def test_a_bad_line_is_named(tmp_path, lines, message):
    (tmp_path / "dict.de.txt").write_text(lines)
    with pytest.raises(UserError, match=message + ": not a dictionary of fairseq: copy the one that the data was made"):
        read_dictionary(tmp_path / "dict.de.txt")


def test_lines_that_fairseq_lets_overwrite(tmp_path):
    (tmp_path / "dict.de.txt").write_text("a 1\na 3 #fairseq:overwrite\nb c 2\n")
    assert read_dictionary(tmp_path / "dict.de.txt").symbols[4:] == ["a", "a", "b c"]
