"""Sources: streams of raw pairs that keep their alignment."""

import gzip
import io
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import LONGEST_SENTENCE, aligned, binary_lines
from resmlp_mt.data.sources import PairSource, PlainText, check_text

LINE = st.binary(max_size=8).map(lambda line: line.replace(b"\n", b""))


@given(st.lists(st.tuples(LINE, LINE), max_size=6), st.booleans())
def test_whatever_the_lines_hold(pairs: list[tuple[bytes, bytes]], last_newline: bool) -> None:
    if pairs and not last_newline:
        pairs[-1] = (b"source", b"target")  # an empty line without a newline is none
    sides = [b"".join(line + b"\n" for line in side) for side in zip(*pairs, strict=True)] or [b"", b""]
    if not last_newline:
        sides[1] = sides[1].removesuffix(b"\n")
    assert list(aligned([binary_lines(io.BytesIO(side), "") for side in sides], "ab")) == pairs


def test_plain_and_gzipped(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"eins\r\nzwei\xff\r")
    with gzip.open(tmp_path / "b.gz", "wb") as file:
        file.write("one\u2028\ntwo\n".encode())
    source: PairSource = PlainText(tmp_path / "a", tmp_path / "b.gz")
    assert list(source.pairs()) == [(b"eins\r", "one\u2028".encode()), (b"zwei\xff\r", b"two")]
    assert (source.name, list(source.inputs)) == ("a", [tmp_path / "a", tmp_path / "b.gz"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1\n2\n", r"/b ends after line 2 but .*/a goes on: .*aligned"),
        (b"1\n2\n3\n4", r"/a ends after line 3 but .*/b goes on"),
        (b"1\n2\n3\n\n", r"/a ends after line 3 but .*/b goes on"),
    ],
)
def test_misaligned(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n3\n")
    (tmp_path / "b").write_bytes(text)
    with pytest.raises(UserError, match=message):
        list(PlainText(tmp_path / "a", tmp_path / "b").pairs())


@pytest.mark.parametrize("cut", [True, False])
def test_a_broken_archive(tmp_path: Path, cut: bool) -> None:
    (tmp_path / "a").write_bytes(b"x\n" * 100_000)
    whole = gzip.compress(bytes(range(11, 251)) * 3000 + b"\n")
    (tmp_path / "b.gz").write_bytes(whole[: len(whole) // 2] if cut else whole[:200] + b"\0" * 99 + whole[299:])
    with pytest.raises(UserError, match=r"b\.gz: cannot be read after line 0"):
        list(PlainText(tmp_path / "a", tmp_path / "b.gz").pairs())


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a: no such file"):
        list(PlainText(tmp_path / "a", tmp_path / "a").pairs())
    with pytest.raises(UserError, match=r": cannot be read: "):
        list(PlainText(tmp_path, tmp_path).pairs())


def test_a_side_is_not_the_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n")
    with pytest.raises(UserError, match=r"a: is given as source and as target"):
        PlainText(tmp_path / "a", tmp_path / "." / "a").check()


@pytest.mark.parametrize("longest", [1000, LONGEST_SENTENCE])
def test_what_has_no_lines_is_not_read_to_its_end(tmp_path: Path, longest: int) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n" + b"x" * (longest - 1) + b"\n" + b"x" * 10 * longest))
    pairs = PlainText(tmp_path / "a.gz", tmp_path / "a.gz", longest=longest).pairs()
    assert [len(next(pairs)[0]) for _ in range(2)] == [3, longest - 1]
    with pytest.raises(UserError, match=rf"a\.gz:3: more than {longest:,} bytes: give text, a sentence a line"):
        next(pairs)


# --- check_text

ENGLISH = "The man’s café isn’t open – what a pity…\n" * 40
RUSSIAN = "Это предложение на русском языке, и оно не короткое.\n" * 40
CHINESE = "这是一个句子,里面有一些汉字和 Latin 字母。\n" * 40


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ENGLISH.encode("utf-16"), "is UTF-16, not UTF-8: convert it: iconv -f UTF-16 -t UTF-8$"),
        (b"\xfe\xff" + ENGLISH.encode("utf-16-be"), "is UTF-16, not"),
        (RUSSIAN.encode("utf-16"), "is UTF-16, not"),
        (ENGLISH.encode("utf-32"), "is UTF-32, not"),
        (b"\0\0\xfe\xff" + ENGLISH.encode("utf-32-be"), "is UTF-32, not"),
        (ENGLISH.encode("utf-16-le"), r"is no UTF-8 text \(\d+% of its bytes are zero\): if it is UTF-16, .*UTF-16LE"),
        (RUSSIAN.encode("utf-16-be"), r"is no UTF-8 text \(\d+% of its bytes are zero\)"),
        (CHINESE.encode("utf-16-le"), r"is no UTF-8 text \(\d+% of its bytes are zero\)"),
        (RUSSIAN.encode("koi8-r"), r"is no UTF-8 text \(\d+% of its bytes are not UTF-8\): .* iconv -f ENCODING"),
        (CHINESE.encode("gb18030"), r"is no UTF-8 text \(\d+% of its bytes are not UTF-8\)"),
        (gzip.compress(ENGLISH.encode()), r"is compressed by gzip: give it a name that ends in \.gz"),
        (random.Random(1).randbytes(5000), "is no UTF-8 text"),
        (bytes(100), r"is no UTF-8 text \(100% of its bytes are zero\)"),
    ],
)
def test_what_is_no_text_is_told_by_its_beginning(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "plain").write_bytes(content)
    (tmp_path / "zipped.gz").write_bytes(gzip.compress(content))
    for name in ("plain", "zipped.gz"):
        with pytest.raises(UserError, match=f"{tmp_path}/{name}: {message}") as error:
            check_text(tmp_path / name)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xef\xbb\xbf" + ENGLISH.encode(),
        CHINESE.encode(),
        b"some\xff broken \xe4 bytes\n\0and a zero\n" * 9,
        "Où est le café d'été ? Çà et là.\n".encode("latin-1") * 40,  # its pairs are counted as they are read
        ENGLISH.encode() * 40 + bytes(1 << 17),  # beyond the beginning
    ],
)
def test_what_may_be_text(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "plain").write_bytes(content)
    check_text(tmp_path / "plain")


def test_what_cannot_be_read_twice_or_at_all(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(ENGLISH.encode())[:40])
    for name, message in (
        ("pipe", "is not a regular file, but is read more than once"),
        ("", "cannot be read: Is a directory"),
        ("cut.gz", "cannot be read: .*end-of-stream"),
        ("missing", "no such file"),
    ):
        with pytest.raises(UserError, match=message):
            PlainText(tmp_path / name, tmp_path / name).check()
