"""Preparing Multi30k from files that stand for the public ones."""

import gzip
import hashlib
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.pipeline import CorpusRecipe
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "multi30k" / "prepare.py"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command on small files in ``tmp_path / "public"``."""
    spec = importlib.util.spec_from_file_location("multi30k_prepare", SCRIPT)
    prepare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prepare)
    (tmp_path / "public").mkdir()
    for name in prepare.SHA256:
        content = gzip.compress(f"two old men see {name[:4]}\n".encode() * 9, mtime=0)
        (tmp_path / "public" / name).write_bytes(content)
        monkeypatch.setitem(prepare.SHA256, name, hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(prepare, "RECIPE", CorpusRecipe(Words(normalize=False), Subwords("bpe", 9)))

    def main(out: Path, *options: str) -> None:
        monkeypatch.setattr(
            sys, "argv", ["prepare.py", "--out", str(out), "--from", str(tmp_path / "public"), *options]
        )
        prepare.main()

    return main


def test_what_it_leaves(run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "resmlp").mkdir(parents=True)
    (out / "resmlp" / ".log.tmp").write_text("mine")
    for _ in range(2):
        run(out)
    assert (out / "val.de").read_text() == "two old men see val.\n" * 9
    assert (out / "test_2016_flickr.en").read_text() == "two old men see test\n" * 9
    assert (out / "data-bin" / "train.en-de.en.bin").is_file()
    assert (out / "resmlp" / ".log.tmp").read_text() == "mine"
    assert json.loads((out / "summary.json").read_text())["pairs"]["train"]["kept"] == 9


@pytest.mark.parametrize("name", ["val.en", "test_2016_flickr.de", "bpe.codes", "data-bin/notes"])
def test_a_user_s_file_in_the_way(run, tmp_path: Path, name: str) -> None:
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(UserError, match=f"{name}: is not of an earlier preparation"):
        run(tmp_path / "out")
    assert [file for file in (tmp_path / "out").rglob("*") if file.is_file()] == [path]
    run(tmp_path / "out", "--overwrite")


def test_the_public_files_where_they_would_be_replaced(run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "data-bin").symlink_to("../public")
    with pytest.raises(UserError, match="would be written over the input"):
        run(tmp_path / "out", "--from", str(tmp_path / "out" / "data-bin"), "--overwrite")
    (tmp_path / "out" / "data-bin").unlink()
    run(tmp_path / "out", "--from", str(tmp_path / "public"))
