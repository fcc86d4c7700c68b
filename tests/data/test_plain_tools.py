"""The whole chain beside the plain sequence of command-line tools, as the benchmark runs them."""

import gzip
import json
from pathlib import Path

import pytest

from resmlp_mt.cli import benchmark_corpora as benchmark
from resmlp_mt.common.errors import UserError

ROOT = Path(__file__).parents[2]
MULTI30K = ROOT.parent / "shared/data/multi30k"


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs Multi30k")
def test_same_bytes_on_multi30k(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--pairs", "300", "--rounds", "1", "--symbols", "100", "--json", str(tmp_path / "measured.json")]
    monkeypatch.setattr("sys.argv", ["benchmark_corpora", "--from", str(MULTI30K), *options])
    benchmark.main()
    assert "the same bytes" in capsys.readouterr().out
    measured = json.loads((tmp_path / "measured.json").read_text())
    for chain in ("plain", "ours"):
        (run,) = measured[chain]
        assert set(run["seconds"]) == set(benchmark.PARTS)
        assert run["cpu"] > 0 and run["memory"] > 5 << 20  # a Python process has more


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A folder with files of Multi30k's names."""
    for name in benchmark.SETS.values():
        for lang in benchmark.LANGS:
            (tmp_path / f"{name}.{lang}.gz").touch()
    return tmp_path


def test_both_learners_side_by_side(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for lang, line in (("en", "a man sees two red dogs"), ("de", "ein Mann sieht zwei rote Hunde")):
        with gzip.open(text / f"train.{lang}.gz", "wt") as file:
            file.writelines(f"{' '.join(line.split()[start:])}\n" for start in range(5))
    options = ["--learners", "300", "--symbols", "40", "--json", str(tmp_path / "measured.json")]
    monkeypatch.setattr("sys.argv", ["benchmark_corpora", "--from", str(text), *options])
    benchmark.main()
    measured = json.loads((tmp_path / "measured.json").read_text())
    assert measured["different_words"] == 300 and measured["running_words"] > 600
    assert str(tmp_path) not in measured["command"]
    sizes = [learner["subwords_per_word"] for learner in measured["learners"].values()]
    assert abs(sizes[1] / sizes[0] - 1) < 0.05
    for learner in measured["learners"].values():
        assert learner["merges"] == 40 and learner["seconds"] > 0 and learner["peak_mib"] > 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from", "{text}/nowhere"], r"train\.en\.gz: no such file: --from is the folder"),
        (["--from", "{text}", "--json", "{text}/val.de.gz"], r"val\.de\.gz: would be written over the input"),
        (["--from", "{text}", "--json", "/dev/null"], "/dev/null: is not a regular file"),
        (["--from", "{text}", "--work", "{text}/nowhere"], "--work .*nowhere: no such folder"),
    ],
)
def test_what_cannot_be_measured_is_told_at_once(
    text: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmark_corpora", *(option.format(text=text) for option in options)])
    with pytest.raises(UserError, match=message):
        benchmark.main()


@pytest.mark.parametrize("option", ["--pairs", "--symbols", "--jobs", "--rounds", "--learners"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "9" * 10])
def test_numbers_that_are_none_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmark_corpora", "--from", "x", f"{option}={value}"])
    with pytest.raises(SystemExit):
        benchmark.main()
    assert f"argument {option}: {value} is not from 1 to " in capsys.readouterr().err


def test_the_readme_tells_what_was_measured() -> None:
    folder = ROOT / "examples" / "wmt14_en_de"
    readme = (folder / "README.md").read_text()
    for learner, figures in json.loads((folder / "bpe_learners.json").read_text())["learners"].items():
        (row,) = (line for line in readme.splitlines() if line.startswith(f"| `{learner}`"))
        assert f"| {figures['cpu_seconds']:.0f} s, {figures['peak_mib']} MiB |" in row
        assert row.endswith(f"| {figures['subwords_per_word']} |")
