"""Members of archives read as streams, beside the ``tar`` command."""

import gzip
import io
import lzma
import subprocess
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from data import replicas

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.sources import ArchivedText, opened_member


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
        (b"", r"x\.tgz: cannot be read as an archive: .*: get it again$"),
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
        (replicas.tar({"t/a.en.gz": b"plain"}), r"x\.tgz: has no t/a\.en"),
        (replicas.tar(_members(en=b"a\nb\n", de=b"a\n")), r"x\.tgz:t/a\.de ends after line 1 but .*a\.en goes on"),
    ],
)
def test_bad_archives_are_told_in_one_line(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "x.tgz").write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        list(ArchivedText("x", tmp_path / "x.tgz", ("t/a.en", "t/a.de")).pairs())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"x\.zip: cannot be read as an archive: File is not a zip file: get it again"),
        (replicas.tar(_members(en=b"a\n")), r"x\.zip: cannot be read as an archive: File is not a zip file"),
        (replicas.zipped("training-parallel-un.tgz"), r"x\.zip: has no t/a\.en"),
        (_with_password(), r"x\.zip: cannot be read as an archive: .*password"),
    ],
)
def test_bad_zips_are_told_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        list(ArchivedText("x", tmp_path / "x.zip", ("t/a.en", "t/a.de")).pairs())
    assert "\n" not in str(error.value)


def test_errors_of_the_reader_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_bytes(replicas.tar({"a.en": b"a\n"}))
    with pytest.raises(OSError, match="disk"), opened_member(tmp_path / "x.tgz", "a.en"):
        raise OSError("disk")


def test_a_name_is_never_a_path(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_bytes(replicas.tar({"../a.en": b"a\n", "/a.de": b"b\n"}))
    assert list(ArchivedText("x", tmp_path / "x.tgz", ("../a.en", "/a.de")).pairs()) == [(b"a", b"b")]
    assert [path.name for path in tmp_path.iterdir()] == ["x.tgz"]


def test_names_that_begin_with_a_dot(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_bytes(replicas.tar({"./a.en": b"a\n"}))
    with opened_member(tmp_path / "x.tgz", "a.en") as stream:
        assert stream.read() == b"a\n"


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
