"""resmlp-mt table5: the paper's figures, and the figures of runs next to them."""

import json

import pytest

from resmlp_mt.common.errors import UserError
from scripts import printed_by

table5 = printed_by("table5")


def scores(target="de", tokenized=26.04, split=26.55, sacrebleu=25.91, segments=3003):
    def score(value, signature):
        return {"score": value, "signature": signature}

    found = {"sacrebleu": score(sacrebleu, "tok:13a"), "tokenized_bleu": score(tokenized, "tok:none")}
    if split is not None:
        found["compound_split_bleu"] = score(split, "tok:none")
    return {"segments": segments, "target_lang": target, "scores": found}


def write(folder, result):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test.json").write_text(result if isinstance(result, str) else json.dumps(result))
    return folder


def test_what_was_measured_stands_beside_the_paper(table5, tmp_path):
    out = table5()
    assert out.splitlines()[0].split("  ")[0] == "newstest2014"
    paper = [" ".join(line.split()[-2:]) for line in out.splitlines()[1:6]]
    assert paper == ["24.6 39.9", "25.2 40.5", "27.3 38.1", "26.4 40.3", "26.8 40.6"]

    write(tmp_path / "de" / "resmlp6", scores())
    write(tmp_path / "de" / "lstm", scores(split=20.0, sacrebleu=19.0, segments=16))
    write(tmp_path / "de" / "gated6", scores(split=27.5, sacrebleu=26.0))
    french = write(tmp_path / "other", scores("fr", tokenized=39.96, split=None, sacrebleu=37.0))
    out = table5(tmp_path / "de", f"resmlp12={french}")
    rows = {row.split("  ")[0]: row.split()[1:] for row in out.split("\n\n")[0].splitlines()[1:]}
    assert rows["ResMLP-6"] == ["26.4", "26.6", "25.9", "40.3"]  # compounds split for German
    assert rows["ResMLP-12"][1:] == ["40.6", "40.0", "37.0"]
    assert rows["ConvS2S"] == ["25.2", "40.5"]
    assert rows["gated ResMLP-6"] == ["ResMLP-6", "27.5", "26.0"]  # not in the paper
    assert rows["GNMT / LSTM"] == ["/", "LSTM", "24.6", "20.0*", "19.0*", "39.9"]
    assert "sacreBLEU: tok:13a" in out and "measured: tok:none" in out
    assert "16 segments, not the 3003 of newstest2014" in out


def test_markdown_and_json(table5, tmp_path):
    folder = write(tmp_path / "transformer", scores())
    assert "| Transformer (base) | 27.3 | 26.6 | 25.9 | 38.1 |  |  |" in table5(folder, "--markdown").splitlines()
    result = json.loads(table5(folder, "--json"))
    assert result["transformer"]["En-De"]["paper"] == 27.3
    assert result["transformer"]["En-De"]["measured"]["tokenized_bleu"] == 26.55
    assert result["transformer"]["En-Fr"] == {"paper": 38.1, "measured": None}


@pytest.mark.parametrize("result", ["{", scores("cs"), scores(split=None)])
def test_files_that_are_no_scores_are_refused(table5, tmp_path, result):
    with pytest.raises(UserError, match=r"^\S+/test\.json: no scores of table 5 .*: run evaluate\.sh again$"):
        table5(write(tmp_path / "resmlp6", result))
