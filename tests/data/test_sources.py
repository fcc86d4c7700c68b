"""Sources: streams of raw pairs that keep their alignment, from files and beside the ``tar`` command."""

import gzip
import io
import lzma
import os
import random
import subprocess
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from data import replicas
from hypothesis import given
from hypothesis import strategies as st

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import LONGEST_SENTENCE, aligned, binary_lines
from resmlp_mt.data.sources import ArchivedText, PairSource, PlainText, check_text

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
        (ENGLISH.encode("utf-32"), "is UTF-32, not"),
        (ENGLISH.encode("utf-16-le"), r"is no UTF-8 text \(\d+% of its bytes are zero\): if it is UTF-16, .*UTF-16LE"),
        (RUSSIAN.encode("utf-16-be"), r"is no UTF-8 text \(\d+% of its bytes are zero\)"),
        (RUSSIAN.encode("koi8-r"), r"is no UTF-8 text \(\d+% of its bytes are not UTF-8\): .* iconv -f ENCODING"),
        (CHINESE.encode("gb18030"), r"is no UTF-8 text \(\d+% of its bytes are not UTF-8\)"),
        (gzip.compress(ENGLISH.encode()), r"is compressed by gzip: give it a name that ends in \.gz"),
        (random.Random(1).randbytes(5000), "is no UTF-8 text"),
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archives")
    for name, content in replicas.archives().items():
        (folder / name).write_bytes(content)
    return folder


PAIRS = [
    ("training-parallel-europarl-v7.tgz", "training/europarl-v7.de-en.en", "training/europarl-v7.de-en.de"),
    ("training-parallel-commoncrawl.tgz", "commoncrawl.fr-en.en", "commoncrawl.fr-en.fr"),
    ("training-parallel-nc-v9.tgz", "training/news-commentary-v9.fr-en.en", "training/news-commentary-v9.fr-en.fr"),
    ("training-giga-fren.tar", "giga-fren.release2.fixed.en.gz", "giga-fren.release2.fixed.fr.gz"),
]


@pytest.mark.parametrize(("archive", "source", "target"), PAIRS)
def test_pairs_are_those_of_the_unpacked_files(folder: Path, archive: str, source: str, target: str) -> None:
    text = ArchivedText("x", folder / archive, (source, target))
    for side, (member, lines) in enumerate(zip((source, target), zip(*text.pairs(), strict=True), strict=True)):
        unpacked = subprocess.run(["tar", "-xOf", folder / archive, member], capture_output=True, check=True).stdout
        if member.endswith(".gz"):
            unpacked = subprocess.run(["gunzip"], input=unpacked, capture_output=True, check=True).stdout
        assert list(lines) == unpacked.removesuffix(b"\n").split(b"\n")
        assert text.sides[side] == f"{folder / archive}:{member}"
    assert text.inputs == [folder / archive]


@pytest.mark.parametrize(("archive", "source", "target"), PAIRS)
def test_zip_and_unpacked_have_the_same_pairs(
    folder: Path, tmp_path: Path, archive: str, source: str, target: str
) -> None:
    pairs = list(ArchivedText("x", folder / archive, (source, target)).pairs())
    (tmp_path / "x.zip").write_bytes(replicas.zipped(archive))
    assert list(ArchivedText("x", tmp_path / "x.zip", (source, target)).pairs()) == pairs
    subprocess.run(["tar", "-xf", folder / archive, "-C", tmp_path], check=True)
    text = ArchivedText("x", tmp_path, (source, target))
    assert list(text.pairs()) == pairs
    assert text.inputs == [tmp_path / source, tmp_path / target]
    if target.endswith(".gz"):  # as fairseq's own script leaves them
        subprocess.run(["gunzip", *text.inputs], check=True)
        assert list(text.pairs()) == pairs
        assert text.inputs == [tmp_path / source.removesuffix(".gz"), tmp_path / target.removesuffix(".gz")]


def _linked(target: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo("t/a.en")
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        archive.addfile(entry)
    return file.getvalue()


def _with_password() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("t/a.en", b"a\n")
    content = bytearray(file.getvalue())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def _members(**content: bytes) -> dict[str, bytes]:
    return {f"t/a.{lang}": text for lang, text in content.items()}


NOISE = b"".join(f"{number * 7919 % 10007} ".encode() for number in range(200_000))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"x\.tgz: no such file$"),
        (b"<html>not here</html>" * 1000, r"x\.tgz: cannot be read as an archive: it is none: get it again$"),
        (gzip.compress(b"no tar" * 1000), r"x\.tgz: cannot be read as an archive: it is none"),
        (replicas.tar(_members(en=b"a\n")), r"x\.tgz: has no t/a\.de, or is cut off before it$"),
        (replicas.tar(_members(en=NOISE, de=NOISE))[:100_000], r"x\.tgz.*: cannot be read .*end"),
        (replicas.tar(_members(en=NOISE, de=NOISE), gzipped=False)[:100_000], r"x\.tgz.*: cannot be read .*end"),
        (
            lzma.compress(replicas.tar(_members(en=NOISE, de=NOISE), gzipped=False))[:9000] + bytes(9000),
            "Corrupt input",
        ),
        (_linked("nowhere"), r"x\.tgz: cannot be read as an archive: .*nowhere.* not found"),
        (_linked("a.en"), r"x\.tgz: cannot be read as an archive: maximum recursion depth"),
        (b"", r"x\.zip: cannot be read as an archive: File is not a zip file: get it again"),
        (replicas.zipped("training-parallel-un.tgz"), r"x\.zip: has no t/a\.en"),
        (_with_password(), r"x\.zip: cannot be read as an archive: .*password"),
        (replicas.tar(_members(en=b"a\nb\n", de=b"a\n")), r"x\.tgz:t/a\.de ends after line 1 but .*a\.en goes on"),
    ],
)
def test_bad_archives_are_told_in_one_line(tmp_path: Path, content: bytes | None, message: str) -> None:
    archive = tmp_path / ("x.zip" if "zip" in message else "x.tgz")
    if content is not None:
        archive.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        list(ArchivedText("x", archive, ("t/a.en", "t/a.de")).pairs())
    assert "\n" not in str(error.value)


def test_a_name_is_never_a_path(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_bytes(replicas.tar({"../a.en": b"a\n", "./a.de": b"b\n"}))
    assert list(ArchivedText("x", tmp_path / "x.tgz", ("../a.en", "a.de")).pairs()) == [(b"a", b"b")]
    assert [path.name for path in tmp_path.iterdir()] == ["x.tgz"]


@pytest.mark.parametrize("name", ["x.tgz", "x.zip", "unpacked"])
def test_a_line_without_an_end_takes_no_memory(tmp_path: Path, name: str) -> None:
    """A few kB of an archive can hold a line of gigabytes."""
    member = gzip.compress(b"one\n" + bytes(20_000_000))
    archive = tmp_path / name
    if name == "x.tgz":
        archive.write_bytes(replicas.tar({"a.en.gz": member}))
    elif name == "x.zip":
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("a.en.gz", member)
    else:
        archive.mkdir()
        (archive / "a.en.gz").write_bytes(member)
    pairs = ArchivedText("x", archive, ("a.en.gz", "a.en.gz")).pairs()
    assert next(pairs) == (b"one", b"one")
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=r"a\.en\.gz:2: more than 1,048,576 bytes: give text, a sentence a line"):
            next(pairs)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_memory_is_flat(tmp_path: Path) -> None:
    line = b"words " * 200 + b"\n"
    with tarfile.open(tmp_path / "x.tgz", "w:gz", compresslevel=1) as archive:
        for lang in ("en", "de"):
            entry = tarfile.TarInfo(f"a.{lang}")
            entry.size = len(line) * 15_000  # 18 MB
            archive.addfile(entry, io.BytesIO(line * 15_000))
    tracemalloc.start()
    try:
        assert sum(1 for _ in ArchivedText("x", tmp_path / "x.tgz", ("a.en", "a.de")).pairs()) == 15_000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
