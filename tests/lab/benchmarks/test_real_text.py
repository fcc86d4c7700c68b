"""Engines that translate real text: what is measured, by engines whose times are known, and one that is real."""

import json
from dataclasses import replace
from unittest.mock import Mock

import pytest
from translate.small_folder import make

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.benchmarks import real_text
from resmlp_mt.lab.benchmarks.engines import Setting, parse
from resmlp_mt.lab.benchmarks.frontier import draw, frontier
from resmlp_mt.lab.benchmarks.real_text import Corpus, EngineProcess, compare, table
from resmlp_mt.translate.translator import Translator
from scripts import in_process

LINES, SETTING = ["a b", "c d e", "f"], Setting("data", ("en", "de"))


PROFILED = "aten::plain", "aten::quick"


class MadeUp:
    """Translates by upper case, and says that a line takes a second; ``quick`` half of it."""

    def __init__(self, name, setting):
        self.name = name

    def translate(self, lines):
        return [line.upper() for line in lines], len(lines) * (0.5 if self.name == "quick" else 1.0)

    def operations(self, batches):
        return {"aten::mm": sum(map(len, batches)), f"aten::{self.name}": len(batches)}

    def sizes(self):
        return 10, 20


@pytest.fixture
def made_up(monkeypatch):
    monkeypatch.setattr(real_text, "EngineProcess", MadeUp)
    monkeypatch.setattr(real_text, "first_sentence", lambda *_: 0.25)


def test_figures_are_those_of_the_times(made_up, tmp_path):
    corpora = [Corpus("one", LINES, ["A B", "C D E", "F"]), Corpus("two", LINES * 2)]
    rows = compare(["plain", "quick"], "plain", corpora, SETTING, rounds=3)
    assert [(row.corpus, row.engine) for row in rows] == [
        (corpus, engine) for corpus in ("one", "two") for engine in ("plain", "quick")
    ]
    plain, quick, *_, last = rows
    assert (plain.rate.median, quick.rate.median, quick.ratio.median, plain.ratio.median) == (1, 2, 2, 1)
    assert (quick.tokens, quick.latency, quick.first, quick.memory, quick.size) == (4, (0.5, 0.5), 0.25, 10, 20)
    assert (quick.same, quick.sentences, last.sentences) == (3, 3, 6)
    assert plain.scores["chrf2"]["score"] == 100 and last.scores is None
    cells = table(rows, "plain")
    assert {len(line) for line in cells} == {len(cells[0])} and cells[2][:4] == [
        "one",
        "quick",
        "2 [2 - 2]",
        "2.00 [2.00 - 2.00]",
    ]
    draw(rows, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_on_the_frontier_is_what_no_other_beats_in_both():
    assert frontier([(1, 30), (2, 29), (2, 28), (3, 25), (1.5, 25), (3, 25)]) == [(3, 25), (2, 29), (1, 30)]


def test_the_line_of_the_frontier_promises_nothing_that_no_engine_reaches(made_up, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.cbook import STEP_LOOKUP_MAP
    from matplotlib.figure import Figure

    kept = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: kept.append(figure))
    corpus = Corpus("one", LINES, ["A B", "C D E", "F"])
    rows = compare(["plain", "quick"], "plain", [corpus], SETTING, rounds=1)
    draw([replace(row, scores={"sacrebleu": {"score": 9 / row.rate.median}}) for row in rows], tmp_path / "picture.png")
    *points, line = kept[0].axes[0].lines
    reached = [(point.get_xdata()[0], point.get_ydata()[0]) for point in points]
    corners = zip(*STEP_LOOKUP_MAP[line.get_drawstyle()](*line.get_data()), strict=True)
    assert all(any(speed >= x and score >= y for speed, score in reached) for x, y in corners)


def test_an_engine_in_a_process_of_its_own_translates_as_in_this_one(tmp_path):
    folder = str(make(tmp_path / "folder"))
    texts = ["A dog runs.", "", "Two dogs."]
    expected = [each.text for each in Translator(folder).translate(texts, beam=2)]
    engine = EngineProcess(f"{folder}:batch_tokens=7", Setting("", ("en", "de"), beam=2))
    found, seconds = engine.translate(texts)
    assert found == expected and seconds > 0
    spent = engine.operations([texts, texts])
    assert spent["aten::topk"] > 0 and spent["outside of operations"] > 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.pt", ("a.pt", {})),
        ("folder:shortlist=False,max_len_a=1.5", ("folder", {"shortlist": False, "max_len_a": 1.5})),
        ("ctranslate2/a.pt:vmap=a/list.txt", ("ctranslate2/a.pt", {"vmap": "a/list.txt"})),
        (
            "ctranslate2/a.pt:compute_type=int8,max_batch_size=32",
            ("ctranslate2/a.pt", {"compute_type": "int8", "max_batch_size": 32}),
        ),
    ],
)
def test_names(name, expected):
    assert parse(name) == expected


def test_a_name_without_a_value_is_refused():
    with pytest.raises(UserError, match="'fast' is no option=value"):
        parse("a.pt:fast")


def test_the_command_writes_what_it_found(made_up, tmp_path, monkeypatch, capsys):
    (tmp_path / "in.en").write_text("a b\nc\n")
    (tmp_path / "in.de").write_text("A B\nC\n")
    common = (
        "translate",
        "--data",
        tmp_path / "data",
        "--languages",
        "en",
        "de",
        "--engine",
        "plain",
        "--engine",
        "quick",
    )
    run = in_process("benchmark", monkeypatch)
    run(
        *common,
        "--text",
        f"{tmp_path / 'in.en'}:{tmp_path / 'in.de'}",
        "--json",
        tmp_path / "o.json",
        "--markdown",
        tmp_path / "o.md",
        "--profile",
    )
    assert "quick" in capsys.readouterr().out
    found = json.loads((tmp_path / "o.json").read_text())
    assert found["command"].startswith("resmlp-mt benchmark translate --data ")
    assert [row["engine"] for row in found["rows"]] == ["plain", "quick"]
    assert [row["operations"][0] for row in found["rows"]] == [{"aten::mm": 2, name: 1} for name in PROFILED]
    document = (tmp_path / "o.md").read_text()
    assert "| in.en | quick |" in document
    assert (
        "| in.en, 256 sentences together: ms in | plain | quick |" in document
        and "| aten::quick | 0.0 | 1,000.0 |" in document
    )
    assert "| in.en, 8 sentences one at a time: ms in | plain | quick |" in document
    monkeypatch.setattr(real_text, "compare", None)  # nothing is measured before that
    (tmp_path / "folder").mkdir()
    text = "--text", f"{tmp_path / 'in.en'}:{tmp_path / 'in.de'}"
    with pytest.raises(UserError, match="--plot: is of BLEU: give --text SOURCE:REFERENCE"):
        run(*common, "--text", tmp_path / "in.en", "--plot", tmp_path / "o.png")
    with pytest.raises(UserError, match="is not a regular file: choose another name"):
        run(*common, *text, "--json", tmp_path / "folder")
    monkeypatch.setattr("resmlp_mt.score.bleu.BLEU", Mock(side_effect=RuntimeError))
    with pytest.raises(UserError, match="sacreBLEU for de needs MeCab"):
        run(*common, *text)
    (tmp_path / "in.de").write_text("A B\n")
    with pytest.raises(UserError, match=r"in.en has 2 lines, .* 1: give files that are aligned"):
        run(*common, "--text", f"{tmp_path / 'in.en'}:{tmp_path / 'in.de'}")
