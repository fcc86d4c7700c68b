"""Engines that translate real text: measurements of made-up engines with known times, and of some real ones."""

import json
from functools import partial
from unittest.mock import Mock

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.benchmarks import real_text, rivals
from resmlp_mt.lab.benchmarks.real_text import Corpus, TextEngine, compare, table
from resmlp_mt.lab.benchmarks.rivals import CTranslate2Engine
from resmlp_mt.lab.benchmarks.systems import Conditions, Source, System
from resmlp_mt.translate.translator import Translator
from scripts import in_process

LINES = ["a b", "c d e", "f"]


class MadeUp:
    """An engine that translates by upper case and reports a second for a line, or half a second if it is ``quick``."""

    size, asked = 20, []

    def __init__(self, source, *_):
        self.name, self.process, self.tried = source.system.name, Mock(peak=lambda: 10), []

    def translate(self, lines):
        self.asked.append((self.name, len(lines)))
        return [line.upper() for line in lines], len(lines) * (0.5 if self.name == "quick" else 1.0)

    def first_sentence(self, line):
        return 0.25


def test_figures_are_those_of_the_times_and_engines_take_turns(tmp_path):
    pytest.importorskip("matplotlib")
    MadeUp.asked.clear()
    engines = [MadeUp(Source(System(name))) for name in ("plain", "quick")]
    rows = compare(engines, [Corpus("one", LINES, ["A B", "C D E", "F"]), Corpus("two", LINES * 2)], "de", rounds=2)
    there, back = ["plain", "quick"], ["quick", "plain"]
    assert [name for name, count in MadeUp.asked if count == 3] == there + there + back  # the first is the warm-up
    assert [name for name, count in MadeUp.asked[6:18]] == there * 6  # one sentence at a time
    assert [(row.corpus, row.engine) for row in rows] == [(c, name) for c in ("one", "two") for name in there]
    plain, quick, *_, last = rows
    assert (plain.rate.median, quick.rate.median, quick.ratio.median, plain.ratio.median) == (1, 2, 2, 1)
    assert (quick.words, quick.latency, quick.first, quick.memory, quick.size) == (4, (0.5, 0.5), 0.25, 10, 20)
    assert (quick.same, quick.sentences, last.sentences) == (3, 3, 6)
    assert plain.scores["chrf2"]["score"] == 100 and last.scores is None
    cells = table(rows)
    assert cells[2][:4] == ["one", "quick", "2 [2 - 2]", "2.00 [2.00 - 2.00]"]
    real_text.draw(rows, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_frontier_holds_what_no_engine_beats():
    assert real_text.frontier([(1, 30), (2, 29), (2, 28), (3, 25), (1.5, 25), (3, 25)]) == [(3, 25), (2, 29), (1, 30)]


def test_a_folder_in_a_process_of_its_own_translates_as_in_this_one(folder, tmp_path):
    texts = ["A dog runs.", "", "Two dogs."]
    expected = [each.text for each in Translator(folder).translate(texts, beam=2)]
    engine = TextEngine(Source(System(f"{folder}:batch_tokens=7"), conditions=Conditions(beam=2)), str(tmp_path))
    found, seconds = engine.translate(texts)
    assert found == expected and seconds > 0 and engine.first_sentence(texts[0]) > seconds
    assert engine.size == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    engine.process.close()
    is_folder = f"ctranslate2/{folder}", "is a folder: give the checkpoint"
    for name, message in is_folder, ("nothing:a=1", "no such checkpoint"), (f"{folder}@onednn", "@onednn is for check"):
        with pytest.raises(UserError, match=f"{name}: {message}"):
            TextEngine(Source(System(name)), str(tmp_path))


@pytest.mark.parametrize(("own", "tries"), [({}, 40), ({"isa": "AVX2", "max_batch_size": 7, "batch_type": "x"}, 2)])
def test_ctranslate2_takes_the_fastest_settings_of_those_that_its_options_leave_open(monkeypatch, own, tries):
    engine = object.__new__(TextEngine)
    engine._build = partial(CTranslate2Engine, "model", "cpu", 2, 4, {"best": True, "a": 1, **own})
    engine.tried, engine._tokenizer = [], None
    speeds = {("AVX2", 1): 3.0, ("AVX2", 2): 2.0, ("AVX512", 1): 4.0, ("AVX512", 2): 1.0}

    def start(self):
        *_, options = self._build.args
        taken = speeds[options["isa"], options["inter_threads"]] * options["max_batch_size"]
        return Mock(translate=lambda lines: (lines, taken))

    monkeypatch.setattr(TextEngine, "_start", start)
    monkeypatch.setattr(rivals, "cpuinfo", lambda name: "flags : avx2 avx512f")
    engine.choose(LINES, threads=2)
    best = {"isa": "AVX512", "max_batch_size": 4, "batch_type": "examples", "inter_threads": 2, "intra_threads": 1}
    best |= own
    assert len(engine.tried) == tries and engine.tried[0][0] == best
    assert engine.tried[0][1] == pytest.approx(speeds[best["isa"], 2] * best["max_batch_size"], abs=0.1)
    assert engine._build.args == ("model", "cpu", 2, 4, {"a": 1, **best})


def test_the_command_writes_what_it_found(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(real_text, "TextEngine", MadeUp)
    (tmp_path / "in.en").write_text("a b\nc\n")
    (tmp_path / "in.de").write_text("A B\nC\n")
    common = "--data", tmp_path / "data", "--languages", "en", "de", "--engine", "plain", "--engine", "quick"
    text = "--text", f"{tmp_path / 'in.en'}:{tmp_path / 'in.de'}"
    run = in_process("benchmark translate", monkeypatch)
    run(*common, *text, "--json", tmp_path / "o.json", "--markdown", tmp_path / "o.md")
    assert "quick" in capsys.readouterr().out
    found = json.loads((tmp_path / "o.json").read_text())
    assert found["command"].startswith("resmlp-mt benchmark translate --data ")
    assert [row["engine"] for row in found["rows"]] == ["plain", "quick"]
    assert "| in.en | quick |" in (tmp_path / "o.md").read_text()
    run("en-de", "--rival", "marian/m.npz", "ctranslate2/t.pt:isa=AVX2", *common, *text, "--json", tmp_path / "r.json")
    engines = [row["engine"] for row in json.loads((tmp_path / "r.json").read_text())["rows"]]
    rivals = ["marian/m.npz:best", "ctranslate2/t.pt:compute_type=int8,best,isa=AVX2"]
    assert engines[:3] == [*rivals, "en-de:engine=compiled,precision=int8"]
    monkeypatch.setattr(real_text, "compare", None)  # the checks come before any measurement
    with pytest.raises(UserError, match="--plot: is of BLEU: give --text SOURCE:REFERENCE"):
        run(*common, "--text", tmp_path / "in.en", "--plot", tmp_path / "o.png")
    with pytest.raises(UserError, match=r"--rival x\.pt: give ctranslate2/MODEL or marian/MODEL"):
        run(*common, *text, "--rival", "marian/a.npz", "x.pt")
    with pytest.raises(UserError, match="--text: two files have one name"):
        run(*common, "--text", tmp_path / "in.en", "--text", tmp_path / "in.en")
    (tmp_path / "in.de").write_text("A B\n")
    with pytest.raises(UserError, match=r"in.de ends after line 1 but .*in.en goes on"):
        run(*common, *text)
