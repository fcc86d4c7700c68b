"""The whole preparation: bad input, the same bytes every time, killed runs, changed options."""

import contextlib
import dataclasses
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from data.conftest import contents

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import read_lines
from resmlp_mt.common.workers import working
from resmlp_mt.data.binarize import Binarizing, write_dictionary
from resmlp_mt.data.chunks import PairFilter
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, prepare
from resmlp_mt.data.sources import PlainText
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words
from scripts import in_process

RECIPE = CorpusRecipe(Words(normalize=False), Subwords("bpe", 60), PairFilter(max_ratio=8.0))


@pytest.fixture(scope="module")
def prepared(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the made-up corpus, prepared once."""
    out = tmp_path_factory.mktemp("prepared") / "out"
    prepare(corpus, RECIPE, out)
    return out


@pytest.fixture
def without_binarizing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop preparation before its slowest step."""

    def stop(self: Binarizing, *args: object) -> None:
        raise UserError("as far as this test goes")

    monkeypatch.setattr(Binarizing, "run", stop)


def test_everything_is_there_and_counted(prepared):
    summary = json.loads((prepared / "summary.json").read_text())
    train = {"read": 300, "kept": 297, "dropped": {"empty": 1, "ratio": 1, "too long": 1}}
    assert summary["pairs"]["train"] == {**train, "sources": [{"name": "train.en", **train}]}
    assert [summary["pairs"][split]["kept"] for split in ("valid", "test")] == [40, 43]
    assert summary["learned"] == 60
    assert summary["text"]["train"]["de"]["unknown"] == 0
    assert not list(prepared.rglob("*.tmp")) and not list(prepared.rglob("*.log"))
    for split, sides in summary["text"].items():
        for lang, side in sides.items():
            lines = [line.split() for line in read_lines(prepared / "subwords" / f"{split}.{lang}")]
            assert (side["subwords"], side["longest"]) == (sum(map(len, lines)), max(map(len, lines)))
            assert side["words"] == sum(not piece.endswith("@@") for line in lines for piece in line)


def _run_and_kill(corpus: Corpus, out: Path, renames: int, before: bool) -> bool:
    """Prepare in a process that kills itself at its rename number ``renames``; return whether it was killed."""
    child = os.fork()
    if child == 0:
        number = itertools.count(1)

        def counting(rename: Callable[..., None]) -> Callable[..., None]:
            def rename_or_die(*args: object) -> None:
                last = next(number) == renames
                if not (last and before):
                    rename(*args)
                if last:
                    os.kill(os.getpid(), signal.SIGKILL)

            return rename_or_die

        os.replace, os.rename = counting(os.replace), counting(os.rename)
        try:
            prepare(corpus, RECIPE, out)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("before", [True, False])
def test_killed_at_any_rename_and_run_again(corpus: Corpus, prepared: Path, tmp_path: Path, before: bool) -> None:
    # Run n is killed at its rename number n: before, within and after every step.
    out, runs = tmp_path / "out", 1
    while _run_and_kill(corpus, out, runs, before):
        runs += 1
    assert runs > 10
    assert contents(out) == contents(prepared)


def _other_text(out):
    changed = out.parent / "changed.en"
    changed.write_bytes((out.parent / "test.en").read_bytes().replace(b"man", b"boy"))
    return {"test": [PlainText(changed, out.parent / "test.de")]}, {}


@pytest.mark.parametrize(
    ("change", "redone"),
    [
        (lambda out: ({}, {}), []),
        (_other_text, ["tokenize test 1", "split test", "binarize"]),
        (
            lambda out: ({}, {"subwords": Subwords("bpe", 50)}),
            ["learn subwords", "split train", "split valid", "split test", "binarize"],
        ),
        (lambda out: ({}, {"pair_filter": PairFilter(max_length=20)}), ["split train", "binarize"]),
    ],
)
def test_just_what_changed_is_done_again(corpus, prepared, tmp_path, capsys, without_binarizing, change, redone):
    out = tmp_path / "out"
    subprocess.run(["cp", "-a", prepared, out], check=True)
    for path in corpus.test[0].inputs:
        shutil.copy(path, tmp_path)
    of_corpus, of_recipe = change(out)
    times = {path: path.stat().st_mtime_ns for path in (out / "data-bin").iterdir()}
    with pytest.raises(UserError, match="as far as") if "binarize" in redone else contextlib.nullcontext():
        prepare(dataclasses.replace(corpus, **of_corpus), dataclasses.replace(RECIPE, **of_recipe), out)
    assert [line for line in capsys.readouterr().out.splitlines() if ":" not in line] == redone
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert "binarize" in redone or contents(out) == contents(prepared)


def _with(corpus: Corpus, folder: Path, split: str, side: int, text: bytes | None) -> Corpus:
    """Return the corpus with another file for one side, which does not exist if ``text`` is None."""
    path = folder / f"bad.{corpus.langs[side]}"
    if text is not None:
        path.write_bytes(text)
    pair = list(corpus.sets[split][0].inputs)
    pair[side] = path
    return dataclasses.replace(corpus, **{split: [PlainText(*pair)]})


@pytest.mark.parametrize(
    ("split", "side", "text", "message"),
    [
        ("train", 1, b"eins\n", r"bad\.de ends after line 1 but .*train\.en goes on"),
        ("valid", 0, b"one\n" * 41, r"valid\.de ends after line 40 but .*bad\.en goes on"),
        ("test", 0, b"one\n" * 9 + b"\r\n" + b"one\n" * 33, r"bad\.en:10: no words: .*never dropped"),
        ("test", 1, b"eins\n" * 2 + b"\xff\n" * 41, r"bad\.de:3: not UTF-8"),
        ("train", 0, None, r"bad\.en: no such file"),
    ],
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_bad_text_is_one_line_and_leaves_nothing(corpus, tmp_path, split, side, text, message, jobs):
    bad = _with(corpus, tmp_path, split, side, text)
    with pytest.raises(UserError, match=message), working(jobs) as workers:
        prepare(bad, RECIPE, tmp_path / "out", workers)
    assert {name for name in contents(tmp_path / "out") if not name.startswith("tokenized/")} <= {".lock", "steps.json"}
    assert not [name for name in contents(tmp_path / "out") if split in name]


def test_nothing_left_to_train_on(corpus, tmp_path):
    message = r"train\.en: no pair is left \(.*299 too long.*\): look at the limits"
    with pytest.raises(UserError, match=message):
        prepare(corpus, dataclasses.replace(RECIPE, pair_filter=PairFilter(max_length=1)), tmp_path / "out")


def test_several_sources_and_a_sample(corpus: Corpus, tmp_path: Path) -> None:
    sides = [(tmp_path / "more.en"), (tmp_path / "more.de")]
    sides[0].write_bytes(b"two men see a dog .\none dog sees\xff the man .\n" + b"two men see a dog .\n" * 7)
    sides[1].write_bytes(b"zwei Frauen sehen .\n" * 9)
    more = PlainText(*sides)
    several = dataclasses.replace(corpus, train=[*corpus.train, more], valid=[*corpus.valid, *corpus.test], sample=7)
    with working(2) as workers:
        summary = prepare(several, RECIPE, tmp_path / "out", workers)
    first = {"name": "train.en", "read": 7, "kept": 4, "dropped": {"empty": 1, "ratio": 1, "too long": 1}}
    second = {"name": "more.en", "read": 7, "kept": 6, "dropped": {"not UTF-8": 1}}
    dropped = {"empty": 1, "not UTF-8": 1, "ratio": 1, "too long": 1}
    assert summary["pairs"]["train"] == {"read": 14, "kept": 10, "dropped": dropped, "sources": [first, second]}
    assert summary["pairs"]["valid"]["kept"] == 40 + 43
    subwords = [list(read_lines(tmp_path / "out" / "subwords" / f"train.{lang}")) for lang in ("en", "de")]
    plain = [[line.replace("@@ ", "") for line in side] for side in subwords]
    assert plain[1][-6:] == ["zwei Frauen sehen ."] * 6 and plain[0][-6:] == ["two men see a dog ."] * 6


def test_binarized_as_by_fairseq_preprocess(prepared, tmp_path, monkeypatch):
    from fairseq import options
    from fairseq_cli import preprocess

    command = ["-s", "en", "-t", "de", "--joined-dictionary", "--destdir", str(tmp_path / "theirs")]
    for split in ("train", "valid", "test"):
        command += [f"--{split}pref", str(prepared / "subwords" / split)]
    preprocess.main(options.get_preprocessing_parser().parse_args(command))
    (tmp_path / "theirs" / "preprocess.log").unlink()
    monkeypatch.setattr("resmlp_mt.data.binarize.BLOCK", 7)
    Binarizing(prepared / "subwords", tmp_path / "ours", ("en", "de")).run({"train": 297, "valid": 40, "test": 43})
    files = contents(prepared / "data-bin")
    assert files.pop("bpe.codes") == (prepared / "bpe.codes").read_bytes()
    assert json.loads(files.pop("text.json"))["learned"] == "bpe.codes"
    assert contents(tmp_path / "theirs") == contents(tmp_path / "ours") == files


@pytest.mark.parametrize("symbols", [9, 12, 65_495, 65_496])
def test_dictionaries_and_numbers_are_fairseqs_of_any_size(tmp_path: Path, symbols: int) -> None:
    from fairseq.data import Dictionary
    from fairseq.data.indexed_dataset import MMapIndexedDataset, make_builder

    counts = {f"w{number}": number % 7 + 1 for number in range(symbols - 4)}
    counts |= {"madeupword0001": 3, "<s>": 1, "</s>": 2}
    theirs = Dictionary()
    for symbol, count in counts.items():
        theirs.add_symbol(symbol, count)
    theirs.finalize()
    theirs.save(str(tmp_path / "theirs.txt"))
    (tmp_path / "subwords").mkdir()
    write_dictionary(counts, tmp_path / "subwords" / "dict.txt")
    assert (tmp_path / "subwords" / "dict.txt").read_bytes() == (tmp_path / "theirs.txt").read_bytes()

    lines = ["w0 w1 </s> w2", "<unk> w3 <s> <pad> unseen", f"w{symbols - 5}"]
    for split in ("train", "valid", "test"):
        for lang in ("en", "de"):
            (tmp_path / "subwords" / f"{split}.{lang}").write_text("".join(f"{line}\n" for line in lines))
    binarizing = Binarizing(tmp_path / "subwords", tmp_path / "data-bin", ("en", "de"))
    assert binarizing.run({"train": 3, "valid": 3, "test": 3})["unknown"]["test"] == {"en": 2, "de": 2}
    builder = make_builder(str(tmp_path / "theirs.bin"), "mmap", vocab_size=len(theirs))
    for line in lines:
        builder.add_item(theirs.encode_line(line, add_if_not_exist=False))
    builder.finalize(str(tmp_path / "theirs.idx"))
    for kind in ("bin", "idx"):
        ours = tmp_path / "data-bin" / f"train.en-de.de.{kind}"
        assert ours.read_bytes() == (tmp_path / f"theirs.{kind}").read_bytes()
    assert len(MMapIndexedDataset(str(tmp_path / "data-bin" / "train.en-de.de"))) == 3


# --- A folder with a user's own files in it


def _own_files(out: Path) -> list[Path]:
    """Write files that users might keep in the folder; return their paths."""
    names = [".draft.txt.tmp", ".a.tmp/keep", "subwords/.deep.tmp", "tokenized/train.0.en", "resmlp/checkpoint_best.pt"]
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("mine")
    return [out / name for name in names]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source-lang", "german"], "--source-lang 'german': not a code of ISO 639: .* --tokenize none"),
        (["--tokenize", "none", "--dash-splits"], "--dash-splits: is of --tokenize moses"),
        (["--max-ratio", "nan"], "^--max-ratio nan: give a number from 1 to"),
        (["--out", "a:b"], "^a:b: fairseq misreads names that contain ':' or"),
        (["--test", "nowhere", "nowhere"], "nowhere: no such file"),
        (["--test", "utf-16.txt", "utf-16.txt"], r"utf-16\.txt: is no UTF-8 text .*: iconv -f UTF-16"),
    ],
)
def test_a_command_that_fails_changes_nothing(corpus, tmp_path, tmp_path_factory, monkeypatch, options, message):
    _own_files(tmp_path)
    before = contents(tmp_path)
    monkeypatch.chdir(tmp_path_factory.mktemp("text"))
    Path("utf-16.txt").write_text("text\n" * 9, encoding="utf-16")
    given = ["--source-lang", "en", "--target-lang", "de", "--out", tmp_path]
    for split, (source,) in corpus.sets.items():
        given += [f"--{split}", *source.inputs]
    with pytest.raises(UserError, match=message):
        in_process("prepare-text", monkeypatch)(*given, *options)
    assert contents(tmp_path) == before


def test_a_preparation_has_what_the_command_s_options_say(tmp_path, monkeypatch):
    spy = Mock(side_effect=UserError("enough"))
    for module in "cli.prepare", "data.wmt14":
        monkeypatch.setattr(f"resmlp_mt.{module}.prepare", spy)
    text = (
        "text --source-lang en --target-lang de --train a b --valid a b --test a b --tokenize none --keep-punctuation"
    )
    text += " --dash-splits --max-length 9 --max-ratio 2 --symbols 9 --sample 7"
    french = "wmt14 en-fr --subwords sentencepiece"
    for command, symbols, sample in (text, 9, 7), ("wmt14 en-de", 32_000, None), (french, 40_000, None):
        name, *options = command.split()
        with pytest.raises(UserError, match="enough"):
            in_process(f"prepare-{name}", monkeypatch)(*options, "--out", tmp_path)
        corpus, recipe = spy.call_args.args[:2]
        words, pairs = (Words("none", True, False), (9, 2)) if sample else (Words(dash_splits=True), (250, 1.5))
        subwords = Subwords("sentencepiece" if command is french else "bpe", symbols)
        assert (corpus.sample, recipe) == (sample, CorpusRecipe(words, subwords, PairFilter(*pairs)))


def test_a_user_s_files_stay(corpus: Corpus, prepared: Path, tmp_path: Path) -> None:
    own = _own_files(tmp_path)
    prepare(corpus, RECIPE, tmp_path)
    assert [path.read_text() for path in own] == ["mine"] * len(own)
    for path in own:
        path.unlink()
    assert contents(tmp_path) == contents(prepared)


def _encoded(corpus: Corpus, folder: Path, split: str, encoding: str, share: float = 1.0) -> Corpus:
    """Return the corpus with this ``share`` of the lines of a target side in another encoding."""
    lines = corpus.sets[split][0].target.read_bytes().decode().replace("i", "ï").split("\n")[:-1]
    broken = round(share * len(lines))
    text = "".join(f"{line}\n" for line in lines[:broken]).encode(encoding, "replace")
    return _with(corpus, folder, split, 1, text + "".join(f"{line}\n" for line in lines[broken:]).encode())


@pytest.mark.parametrize(("share", "told"), [(0.1, True), (0.005, False)])
def test_lines_not_utf8_are_told_where_they_are_many(corpus, tmp_path, capsys, without_binarizing, share, told):
    bad = _encoded(corpus, tmp_path, "train", "latin-1", share)
    for _ in range(2):  # also when the step is reused
        with pytest.raises(UserError, match="as far as"):
            prepare(bad, RECIPE, tmp_path / "out")
        error = capsys.readouterr().err
        assert bool(re.fullmatch(r".*/bad\.de: \d+ of 300 lines \(\d+\.\d%\) are not UTF-8, .*\n", error)) == told


def test_a_text_in_latin_1_is_refused(corpus, tmp_path):
    bad = _encoded(corpus, tmp_path, "train", "latin-1")
    with pytest.raises(UserError, match=r"bad\.de: 2\d\d of 300 lines \(9\d\.\d%\) are not UTF-8: .*iconv -f LATIN1"):
        prepare(bad, RECIPE, tmp_path / "out")
    assert not (tmp_path / "out" / "tokenized" / "train.1.en").exists()


@pytest.mark.parametrize(
    ("lang", "line", "told"),
    [
        ("th", "A ที่นี่", ["ที ่ นี ่"]),
        ("uk", "Ось п'ять", ["п 'ять"]),
        ("fr", 'Prix : 3,5 % ; "l\'été" (peut-être) ? R&D !', []),
    ],
)
def test_words_that_moses_rules_tear_apart_are_told(corpus, tmp_path, capsys, without_binarizing, lang, line, told):
    torn = dataclasses.replace(_with(corpus, tmp_path, "valid", 1, f"{line}\n".encode() * 40), langs=("en", lang))
    with pytest.raises(UserError, match="as far as"):
        prepare(torn, RECIPE, tmp_path / "out")
    assert re.findall(r"bad\.de: 40 of 40 lines .* apart, such as (.*): give ", capsys.readouterr().err) == told
