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
    results = json.loads((tmp_path / "results.json").read_text())["results"]
    assert {name for name, each in results.items() if each["sentences"]} >= {"a new term", "a prefix", "a word avoided"}
    assert {each["obeyed %"] for each in results.values()} <= {100.0, None}
    assert all(0 <= each["sacrebleu"] <= 100 for each in results.values())
