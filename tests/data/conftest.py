"""A small made-up corpus with characters that break careless tools."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from data import replicas
from data.misbehaving_server import Server, running

from resmlp_mt.data.pipeline import Corpus
from resmlp_mt.data.sources import PlainText

# Characters at which some tool breaks lines or words. They come before a word, so that such a tool loses alignment.
NASTY = [*"\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\t\x00\u00a0\u3000\ufeff"]
NOT_COMPARED = ("times.json",)  # differs from run to run
ENGLISH = (
    "the red-haired man's old dog doesn't see 3.5 men ( and \" 1,000 \" women ) at McDonald's , e.g. Mr. Smith ..."
)
GERMAN = "der rothaarige Mann von Dr. Müller sieht z.B. 3,5 Männer-Gruppen ( und „ 1.000 “ Frauen ) nicht , obwohl ..."


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of each file in a folder by its relative path, except files that differ from run to run."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in NOT_COMPARED)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def write_side(path: Path, words: str, lines: int, seed: int) -> Path:
    """Write made-up lines, every third with a nasty character in it, every seventh with CRLF."""
    chance = random.Random(f"{path.name} {seed}")
    with path.open("wb") as file:
        for number in range(lines):
            line = chance.choices(words.split(), k=chance.randint(6, 12))
            if number % 3 == 0:
                line.insert(1, NASTY[number // 3 % len(NASTY)] + "Wort")
            file.write(" ".join(line).encode() + (b"\r\n" if number % 7 == 0 else b"\n"))
    return path


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """A folder with all archives, as if the user had downloaded them."""
    folder = tmp_path / "archives"
    folder.mkdir()
    for name, content in replicas.archives().items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """300 / 40 / 43 pairs; pair 5 of train is empty, 6 is far too long, 7 is one word against many."""
    folder = tmp_path_factory.mktemp("corpus")
    sides = ("en", ENGLISH), ("de", GERMAN)
    files = {
        split: tuple(write_side(folder / f"{split}.{lang}", words, lines, 1) for lang, words in sides)
        for split, lines in (("train", 300), ("valid", 40), ("test", 43))
    }
    source = files["train"][0].read_bytes().split(b"\n")
    source[4:7] = [b" \t\x00 ", b"Wort " * 300, b"Wort"]
    files["train"][0].write_bytes(b"\n".join(source))
    target = files["train"][1].read_bytes().split(b"\n")
    target[6] = b"Frauen " * 30
    files["train"][1].write_bytes(b"\n".join(target))
    return Corpus(("en", "de"), **{split: [PlainText(*pair)] for split, pair in files.items()})
