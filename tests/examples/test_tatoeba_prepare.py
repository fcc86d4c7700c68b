"""Preparing Tatoeba from files that stand for its split."""

import gzip
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import checksum
from resmlp_mt.data.pipeline import CorpusRecipe
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "tatoeba" / "prepare.py"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command on small files in ``tmp_path / "split"``, whose sums are those of the script."""
    spec = importlib.util.spec_from_file_location("tatoeba_prepare", SCRIPT)
    prepare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prepare)
    (tmp_path / "split").mkdir()
    for name in prepare.SHA256:
        path = tmp_path / "split" / name
        path.write_bytes(gzip.compress(f"Tom is in {name[:5]}.\n".encode() * 9, mtime=0))
        monkeypatch.setitem(prepare.SHA256, name, checksum(path))
    monkeypatch.setattr(prepare, "RECIPE", CorpusRecipe(Words(normalize=False), Subwords("bpe", 9)))

    def main() -> None:
        arguments = ["--from", str(tmp_path / "split"), "--out", str(tmp_path / "out")]
        monkeypatch.setattr(sys, "argv", ["prepare.py", *arguments])
        prepare.main()

    return main


def test_what_it_leaves(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run()
    out = tmp_path / "out"
    assert (out / "valid.de").read_text() == "Tom is in valid.\n" * 9
    assert (out / "test.en").read_text() == "Tom is in test..\n" * 9
    assert (out / "data-bin" / "train.en-de.en.bin").is_file()
    assert json.loads((out / "summary.json").read_text())["pairs"]["train"]["kept"] == 9
    assert "not the text" not in capsys.readouterr().out


def test_other_text_is_prepared_and_told(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "split" / "test.en.gz").write_bytes(gzip.compress(b"Mary is in test.\n" * 9))
    run()
    assert "not the text of examples/tatoeba/README.md: test.en.gz: " in capsys.readouterr().out
    assert (tmp_path / "out" / "test.en").read_text() == "Mary is in test.\n" * 9


def test_a_missing_file_is_named_before_any_work(run, tmp_path: Path) -> None:
    (tmp_path / "split" / "valid.de.gz").unlink()
    with pytest.raises(UserError, match=r"valid\.de\.gz: no such file"):
        run()
    assert not (tmp_path / "out").exists()
