"""Sources: streams of raw pairs that keep their alignment."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resmlp_mt.corpora.sources import PlainText, Source, aligned_lines
from resmlp_mt.errors import UserError

LINE = st.binary(max_size=8).map(lambda line: line.replace(b"\n", b""))


@given(st.lists(st.tuples(LINE, LINE), max_size=6), st.booleans())
def test_whatever_the_lines_hold(pairs: list[tuple[bytes, bytes]], last_newline: bool) -> None:
    if pairs and not last_newline:
        pairs[-1] = (b"source", b"target")  # an empty line without a newline is none
    sides = [b"".join(line + b"\n" for line in side) for side in zip(*pairs, strict=True)] or [b"", b""]
    if not last_newline:
        sides[1] = sides[1].removesuffix(b"\n")
    assert list(aligned_lines([io.BytesIO(side) for side in sides], "ab")) == pairs


def test_plain_and_gzipped(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"eins\r\nzwei\xff\r")
    with gzip.open(tmp_path / "b.gz", "wb") as file:
        file.write("one\u2028\ntwo\n".encode())
    source: Source = PlainText(tmp_path / "a", tmp_path / "b.gz")
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
