"""The examples' scripts: each shows its usage; constraints.py: a model with random weights obeys all constraints."""

import json

import pytest
from translate.small_folder import TEXTS

from resmlp_mt import Translator
from resmlp_mt.score.scoring import detokenized_scores
from scripts import SCRIPTS, loaded

EXAMPLES = SCRIPTS.parent / "examples"
COMMANDS = [path for path in sorted(EXAMPLES.glob("*/*.py")) if "ArgumentParser" in path.read_text()]


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_a_wrong_option_is_told_with_the_usage(path, monkeypatch, capsys):
    source = path.read_text()
    assert "resmlp_mt.common" not in source or source.endswith("    with one_line_errors():\n        main()\n")
    monkeypatch.setattr("sys.argv", [path.name, "--no-such-option"])
    try:
        script = loaded(path.relative_to(EXAMPLES))
    except (ModuleNotFoundError, SystemExit) as error:
        assert not (error.__cause__ or error).name.startswith("resmlp_mt")
        pytest.skip(str(error))
    with pytest.raises(SystemExit, match="2"):
        script.main()
    assert capsys.readouterr().err.startswith(f"usage: {path.name}")


def test_constraints_py_finds_every_constraint_obeyed(folder, tmp_path, monkeypatch):
    for name, texts in (("source", TEXTS), ("reference", [f"Ein Mann {text}" for text in TEXTS])):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    files = [str(tmp_path / name) for name in ("source", "reference", "results.json")]
    monkeypatch.setattr("sys.argv", ["constraints.py", str(folder), *files[:2], "--json", files[2]])
    loaded("translating/constraints.py").main()
    rows = json.loads((tmp_path / "results.json").read_text())["constraints"]["rows"]
    assert {name for name, (asked, *_) in rows.items() if asked != "0"} >= {"a new term", "a prefix", "a word avoided"}
    assert {obeyed for _, obeyed, *_ in rows.values()} <= {"100.0%", ""}
    plain = [each.text for each in Translator(folder).translate(TEXTS)]
    scores = detokenized_scores(plain, [f"Ein Mann {text}" for text in TEXTS], "de").values()
    assert rows["plain"] == ["0", "", *(f"{each['score']:.2f}" for each in scores)]


def test_the_summary_is_that_of_the_committed_figures():
    results = json.loads((EXAMPLES / "ablations/results.json").read_text())
    for name, rows in loaded("ablations/summary.py").tables().items():
        assert results[name]["rows"] == {row: [cell.strip("*") for cell in cells] for row, cells in rows.items()}
