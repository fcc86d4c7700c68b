"""examples/translating/constraints.py: all is obeyed by a model with random weights, and every test has its scores."""

import json

from translate.small_folder import TEXTS, make

from scripts import loaded


def test_all_is_obeyed(tmp_path, monkeypatch):
    folder = make(tmp_path / "folder")
    for name, texts in (("source", TEXTS), ("reference", [f"Ein Mann {text}" for text in TEXTS])):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    script = loaded("translating/constraints.py")
    files = [str(tmp_path / name) for name in ("source", "reference", "results.json")]
    monkeypatch.setattr("sys.argv", ["constraints.py", str(folder), *files[:2], "--json", files[2]])
    script.main()
    rows = json.loads((tmp_path / "results.json").read_text())["constraints"]["rows"]
    assert {name for name, (asked, *_) in rows.items() if asked != "0"} >= {"a new term", "a prefix", "a word avoided"}
    assert {obeyed for _, obeyed, *_ in rows.values()} <= {"100.0%", ""}
    assert all(0 <= float(score) <= 100 for _, _, *scores in rows.values() for score in scores)
