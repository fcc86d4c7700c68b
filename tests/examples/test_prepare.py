"""Preparing Multi30k and Tatoeba from small files in place of the public ones."""

import gzip
import json
import sys
from pathlib import Path

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import checksum
from resmlp_mt.data.pipeline import CorpusRecipe
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words
from scripts import loaded


@pytest.fixture
def prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The ``prepare.py`` of an example, to be run on small files in ``tmp_path / "public"``, with their checksums."""

    def of(example: str):
        script = loaded(f"{example}/prepare.py")
        (tmp_path / "public").mkdir()
        for name in script.SHA256:
            path = tmp_path / "public" / name
            path.write_bytes(gzip.compress(f"two old men see {name[:4]}\n".encode() * 9, mtime=0))
            monkeypatch.setitem(script.SHA256, name, checksum(path))
        monkeypatch.setattr(script, "RECIPE", CorpusRecipe(Words(normalize=False), Subwords("bpe", 9)))

        def run(*options: object) -> None:
            arguments = ["--out", tmp_path / "out", "--from", tmp_path / "public", *options]
            monkeypatch.setattr(sys, "argv", ["prepare.py", *map(str, arguments)])
            script.main()

        return run

    return of


@pytest.mark.parametrize(
    ("example", "valid", "test"), [("multi30k", "val.de", "test_2016_flickr.en"), ("tatoeba", "valid.de", "test.en")]
)
def test_what_it_leaves(prepare, tmp_path: Path, capsys: pytest.CaptureFixture[str], example, valid, test) -> None:
    out, run = tmp_path / "out", prepare(example)
    (out / "resmlp").mkdir(parents=True)
    (out / "resmlp" / ".log.tmp").write_text("mine")
    for _ in range(2):
        run()
    assert (out / valid).read_text() == f"two old men see {valid[:4]}\n" * 9
    assert (out / test).read_text() == "two old men see test\n" * 9
    assert (out / "data-bin" / "train.en-de.en.bin").is_file()
    assert (out / "resmlp" / ".log.tmp").read_text() == "mine"
    assert json.loads((out / "summary.json").read_text())["pairs"]["train"]["kept"] == 9
    assert "not the text" not in capsys.readouterr().out


@pytest.mark.parametrize(("name", "allowed"), [("val.en", True), ("data-bin/notes", False)])
def test_a_user_s_file_in_the_way(prepare, tmp_path: Path, name: str, allowed: bool) -> None:
    run, path = prepare("multi30k"), tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    for options in [[]] if allowed else [[], ["--overwrite"]]:
        with pytest.raises(UserError, match=f"{name}: is not of an earlier preparation"):
            run(*options)
    assert [file for file in (tmp_path / "out").rglob("*") if file.is_file()] == [path]
    if allowed:
        run("--overwrite")


def test_other_text_is_prepared_and_told(prepare, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = prepare("tatoeba")
    (tmp_path / "public" / "test.en.gz").write_bytes(gzip.compress(b"Mary is in test.\n" * 9))
    run()
    assert "not the text of examples/tatoeba/README.md: test.en.gz: " in capsys.readouterr().out
    assert (tmp_path / "out" / "test.en").read_text() == "Mary is in test.\n" * 9
