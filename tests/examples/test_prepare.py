"""Preparing Multi30k and Tatoeba from small files in place of the public ones."""

import gzip
import hashlib
import json
import sys
from pathlib import Path

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.pipeline import CorpusRecipe
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words
from scripts import loaded


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that runs the ``prepare.py`` of an example on small files in ``public``, made if missing."""
    (tmp_path / "public").mkdir()

    def prepare(example: str, *options: str) -> None:
        script = loaded(f"{example}/prepare.py")
        for name in script.SHA256:
            content = gzip.compress(f"two old men see {name[:4]}\n".encode() * 9, mtime=0)
            monkeypatch.setitem(script.SHA256, name, hashlib.sha256(content).hexdigest())
            if not (tmp_path / "public" / name).exists():
                (tmp_path / "public" / name).write_bytes(content)
        monkeypatch.setattr(script, "RECIPE", CorpusRecipe(Words(normalize=False), Subwords("bpe", 9)))
        folders = "--out", str(tmp_path / "out"), "--from", str(tmp_path / "public")
        monkeypatch.setattr(sys, "argv", ["prepare.py", *folders, *options])
        script.main()

    return prepare


@pytest.mark.parametrize(
    ("example", "valid", "test"), [("multi30k", "val.de", "test_2016_flickr.en"), ("tatoeba", "valid.de", "test.en")]
)
def test_what_it_leaves(run, tmp_path: Path, capsys: pytest.CaptureFixture[str], example, valid, test) -> None:
    out = tmp_path / "out"
    (out / "resmlp").mkdir(parents=True)
    (out / "resmlp" / ".log.tmp").write_text("mine")
    for _ in range(2):
        run(example)
    assert (out / valid).read_text() == f"two old men see {valid[:4]}\n" * 9
    assert (out / test).read_text() == "two old men see test\n" * 9
    assert (out / "data-bin" / "train.en-de.en.bin").is_file()
    assert (out / "resmlp" / ".log.tmp").read_text() == "mine"
    assert json.loads((out / "summary.json").read_text())["pairs"]["train"]["kept"] == 9
    assert "not the text" not in capsys.readouterr().out


def test_a_user_s_file_in_the_way(run, tmp_path: Path) -> None:
    path = tmp_path / "out" / "val.en"
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(UserError, match=r"val\.en: is not of an earlier preparation"):
        run("multi30k")
    assert path.read_text() == "mine"
    run("multi30k", "--overwrite")


def test_other_text_is_prepared_and_told(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "public" / "test.en.gz").write_bytes(gzip.compress(b"Mary is in test.\n" * 9))
    run("tatoeba")
    assert "not the text of examples/tatoeba/README.md: test.en.gz: " in capsys.readouterr().out
    assert (tmp_path / "out" / "test.en").read_text() == "Mary is in test.\n" * 9
