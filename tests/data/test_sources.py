"""Sources: streams of aligned raw pairs, from files and from archives (compared with the ``tar`` command)."""

import gzip
import io
import lzma
import os
import subprocess
from pathlib import Path

import pytest
from data import replicas
from hypothesis import given
from hypothesis import strategies as st

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import aligned, binary_lines
from resmlp_mt.data.sources import ArchivedText, PairSource, PlainText, check_text

LINE = st.binary(max_size=8).map(lambda line: line.replace(b"\n", b""))


@given(st.lists(st.tuples(LINE, LINE), max_size=6), st.booleans())
def test_whatever_the_lines_hold(pairs: list[tuple[bytes, bytes]], last_newline: bool) -> None:
    if pairs and not last_newline:
        pairs[-1] = (b"source", b"target")  # an empty last line without a newline is no line
    sides = [b"".join(line + b"\n" for line in side) for side in zip(*pairs, strict=True)] or [b"", b""]
    if not last_newline:
        sides[1] = sides[1].removesuffix(b"\n")
    assert list(aligned([binary_lines(io.BytesIO(side), "") for side in sides], "ab")) == pairs


def test_plain_and_gzipped(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"eins\r\nzwei\xff\r")
    (tmp_path / "b.gz").write_bytes(gzip.compress("one\u2028\ntwo\n".encode()))
    source: PairSource = PlainText(tmp_path / "a", tmp_path / "b.gz")
    assert list(source.pairs()) == [(b"eins\r", "one\u2028".encode()), (b"zwei\xff\r", b"two")]
    assert (source.name, list(source.inputs)) == ("a", [tmp_path / "a", tmp_path / "b.gz"])


def test_what_cannot_be_read_as_a_pair(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "one").write_bytes(b"one\n")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(ENGLISH.encode())[:40])
    for name, other, message in (
        ("pipe", "pipe", "is not a regular file, but is read more than once"),
        ("cut.gz", "cut.gz", "cannot be read: .*end-of-stream"),
        ("one", "./one", "one: is given as source and as target"),
    ):
        with pytest.raises(UserError, match=message):
            PlainText(tmp_path / name, tmp_path / other).check()


def test_what_has_no_lines_is_not_read_to_its_end(tmp_path: Path) -> None:
    longest = 1000
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n" + b"x" * (longest - 1) + b"\n" + b"x" * 10 * longest))
    pairs = PlainText(tmp_path / "a.gz", tmp_path / "a.gz", longest=longest).pairs()
    assert [len(next(pairs)[0]) for _ in range(2)] == [3, longest - 1]
    with pytest.raises(UserError, match=rf"a\.gz:3: more than {longest:,} bytes: give text, a sentence a line"):
        next(pairs)


ENGLISH = "The man’s café isn’t open – what a pity…\n" * 40
CHINESE = "这是一个句子,里面有一些汉字和 Latin 字母。\n" * 40


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ENGLISH.encode("utf-16-le"), r"is no UTF-8 text \(\d+% of its bytes are zero\): if it is UTF-16, .*UTF-16 "),
        (gzip.compress(ENGLISH.encode()), r"is compressed by gzip: give it a name that ends in \.gz, or decompress it"),
        (lzma.compress(ENGLISH.encode()), "is compressed by xz: decompress it$"),
        (ENGLISH.replace("\n", "\r").encode(), r"its lines end with CR alone: convert them, such as by tr '\\r' '\\n'"),
    ],
)
def test_what_is_no_text_is_told_by_its_beginning(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "plain").write_bytes(content)
    (tmp_path / "zipped.gz").write_bytes(gzip.compress(content))
    for name in ("plain", "zipped.gz"):
        with pytest.raises(UserError, match=f"{tmp_path}/{name}: {message}"):
            check_text(tmp_path / name)


def test_what_may_be_text(tmp_path: Path) -> None:
    broken = b"some\xff broken \xe4 bytes\n\0and a zero\n" * 9
    for content in b"", b"\xef\xbb\xbf" + ENGLISH.encode(), CHINESE.encode(), broken:
        (tmp_path / "plain").write_bytes(content)
        check_text(tmp_path / "plain")


PAIRS = [
    ("training-parallel-europarl-v7.tgz", "training/europarl-v7.de-en.en", "training/europarl-v7.de-en.de"),
    ("training-parallel-commoncrawl.tgz", "commoncrawl.fr-en.en", "commoncrawl.fr-en.fr"),
    ("training-parallel-nc-v9.tgz", "training/news-commentary-v9.fr-en.en", "training/news-commentary-v9.fr-en.fr"),
    ("training-giga-fren.tar", "giga-fren.release2.fixed.en.gz", "giga-fren.release2.fixed.fr.gz"),
]


@pytest.mark.parametrize(("archive", "source", "target"), PAIRS)
def test_pairs_are_those_of_the_unpacked_files(archives, tmp_path, archive, source, target):
    members = (source, target)
    text = ArchivedText("x", archives / archive, members)
    pairs = list(text.pairs())
    assert text.inputs == [archives / archive]
    assert list(text.sides) == [f"{archives / archive}:{member}" for member in members]
    subprocess.run(["tar", "-xf", archives / archive, "-C", tmp_path], check=True)
    sides = [(tmp_path / side).read_bytes() for side in members]
    unpacked = [gzip.decompress(side) if target.endswith(".gz") else side for side in sides]
    unpacked = [side.removesuffix(b"\n").split(b"\n") for side in unpacked]
    assert list(zip(*unpacked, strict=True)) == pairs


def _tar(**content: bytes) -> bytes:
    return replicas.tar({f"t/a.{lang}": text for lang, text in content.items()})


NOISE = b"".join(f"{number * 7919 % 10007} ".encode() for number in range(200_000))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>not here</html>" * 1000, r"x\.tgz: cannot be read as an archive: it is none: get it again$"),
        (_tar(en=b"a\n"), r"x\.tgz: has no t/a\.de, or is cut off before it$"),
        (_tar(en=NOISE, de=NOISE)[:100_000], r"x\.tgz.*: cannot be read .*end"),
        (_tar(en=b"a\nb\n", de=b"a\n"), r"x\.tgz:t/a\.de ends after line 1 but .*a\.en goes on"),
    ],
)
def test_bad_archives_are_told_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    archive = tmp_path / "x.tgz"
    archive.write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(ArchivedText("x", archive, ("t/a.en", "t/a.de")).pairs())


def test_a_name_is_never_a_path(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_bytes(replicas.tar({"../a.en": b"a\n", "./a.de": b"b\n"}))
    assert list(ArchivedText("x", tmp_path / "x.tgz", ("../a.en", "a.de")).pairs()) == [(b"a", b"b")]
    assert [path.name for path in tmp_path.iterdir()] == ["x.tgz"]
