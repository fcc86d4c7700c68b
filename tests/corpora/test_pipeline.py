"""The whole preparation: every bad input, the same bytes, killed runs, changed options."""

import dataclasses
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from resmlp_mt.corpora.binarize import Binarizing, write_dictionary
from resmlp_mt.corpora.filtering import PairFilter
from resmlp_mt.corpora.pipeline import Corpus, Recipe, prepare
from resmlp_mt.corpora.sources import PlainText
from resmlp_mt.corpora.steps import NOT_COMPARED
from resmlp_mt.corpora.subwords import Subwords
from resmlp_mt.corpora.summary import format_summary
from resmlp_mt.corpora.tokens import Words
from resmlp_mt.errors import UserError
from resmlp_mt.files import read_lines

ROOT = Path(__file__).parents[2]
RECIPE = Recipe(Words(normalize=False), Subwords("bpe", 60), PairFilter(max_ratio=8.0))


def _command(corpus: Corpus, out: Path, *options: str) -> list[str]:
    """The command whose result is that of RECIPE."""
    command = [sys.executable, str(ROOT / "scripts/prepare_text.py"), "--source-lang", "en", "--target-lang", "de"]
    for split in ("train", "valid", "test"):
        for source in corpus.sets[split]:
            command += [f"--{split}", *map(str, source.inputs)]
    return [*command, "--out", str(out), "--symbols", "60", "--max-ratio", "8", "--keep-punctuation", *options]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def _contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in NOT_COMPARED)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _binarised(out: Path) -> dict[str, bytes]:
    """Of data-bin, what fairseq-preprocess makes too."""
    contents = _contents(out / "data-bin")
    assert contents.pop("bpe.codes") == (out / "bpe.codes").read_bytes()
    assert json.loads(contents.pop("text.json"))["learned"] == "bpe.codes"
    return contents


@pytest.fixture(scope="module")
def prepared(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up corpus, prepared once."""
    out = tmp_path_factory.mktemp("prepared") / "out"
    prepare(corpus, RECIPE, out)
    return out


@pytest.fixture
def without_binarising(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preparation ends before its slowest step."""

    def stop(self: Binarizing, *args: object) -> None:
        raise UserError("as far as this test goes")

    monkeypatch.setattr(Binarizing, "run", stop)


def test_everything_is_there_and_counted(prepared: Path) -> None:
    summary = json.loads((prepared / "summary.json").read_text())
    train = {"read": 300, "kept": 297, "dropped": {"empty": 1, "ratio": 1, "too long": 1}}
    assert summary["pairs"]["train"] == {**train, "sources": [{"name": "train.en", **train}]}
    assert [summary["pairs"][split]["kept"] for split in ("valid", "test")] == [40, 43]
    assert summary["learned"] == 60
    assert summary["text"]["train"]["de"]["unknown"] == 0
    assert not list(prepared.rglob("*.tmp")) and not list(prepared.rglob("*.log"))


def test_binarised_sentences_are_those_of_fairseq_interactive(
    corpus: Corpus, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    import resmlp_mt.models  # noqa: F401  (as --user-dir imports it)

    # data-bin alone, with no other option than fairseq cannot be without
    monkeypatch.setattr(sys, "argv", ["fairseq-interactive"])
    parser = options.get_interactive_generation_parser()
    args = options.parse_args_and_arch(parser, [str(prepared / "data-bin"), "--path", "x"])
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    tokenizer, bpe = task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe)
    task.load_dataset("test")
    raw = list(read_lines(corpus.test[0].source))
    assert len(task.dataset("test").src) == len(raw) == 43
    for sentence, line in zip(task.dataset("test").src, raw, strict=True):
        assert task.source_dictionary.string(sentence) == bpe.encode(tokenizer.encode(line))


def _run_and_kill(corpus: Corpus, out: Path, renames: int, before: bool) -> bool:
    """Prepare in a process that kills itself before or after it gives a file or folder its name for the nth time.

    Returns:
        whether it was killed
    """
    child = os.fork()
    if child == 0:
        left = renames

        def counting(rename: Callable[..., None]) -> Callable[..., None]:
            def rename_or_die(*args: object) -> None:
                nonlocal left
                left -= 1
                if not left and before:
                    os.kill(os.getpid(), signal.SIGKILL)
                rename(*args)
                if not left:
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
    # The second run is killed at its second rename, the third at its third: before, amid and after every step.
    out = tmp_path / "out"
    runs = 1
    while _run_and_kill(corpus, out, runs, before):
        runs += 1
    assert runs > 10
    assert _contents(out) == _contents(prepared)


def test_killed_with_two_workers_and_run_again(corpus: Corpus, prepared: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = _command(corpus, out, "--jobs", "2")
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment())
    while run.stdout.readline().strip() != "split train":
        assert run.poll() is None
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert not (out / "data-bin").exists()
    done = subprocess.run(command, capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stderr
    assert "tokenize train 1: nothing changed, reused\n" in done.stdout
    assert _contents(out) == _contents(prepared)


def test_second_run_reuses_everything(
    corpus: Corpus, prepared: Path, capsys: pytest.CaptureFixture[str], without_binarising: None
) -> None:
    before = _contents(prepared)
    times = {path: path.stat().st_mtime_ns for path in (prepared / "data-bin").iterdir()}
    prepare(corpus, RECIPE, prepared, jobs=2)
    assert capsys.readouterr().out.count("nothing changed, reused") == 9
    assert _contents(prepared) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times


def _other_text(corpus: Corpus, recipe: Recipe, out: Path) -> tuple[Corpus, Recipe]:
    changed = out.parent / "changed.en"
    changed.write_bytes(corpus.test[0].source.read_bytes().replace(b"man", b"boy"))
    return dataclasses.replace(corpus, test=[PlainText(changed, corpus.test[0].target)]), recipe


def _other_symbols(corpus: Corpus, recipe: Recipe, out: Path) -> tuple[Corpus, Recipe]:
    return corpus, dataclasses.replace(recipe, subwords=Subwords("bpe", 50))


def _other_limit(corpus: Corpus, recipe: Recipe, out: Path) -> tuple[Corpus, Recipe]:
    return corpus, dataclasses.replace(recipe, pair_filter=PairFilter(max_length=20))


def _damaged_result(corpus: Corpus, recipe: Recipe, out: Path) -> tuple[Corpus, Recipe]:
    (out / "subwords" / "valid.de").write_text("")
    return corpus, recipe


def _lost_record(corpus: Corpus, recipe: Recipe, out: Path) -> tuple[Corpus, Recipe]:
    (out / "steps.json").write_text("{")
    return corpus, recipe


@pytest.mark.parametrize(
    ("change", "redone"),
    [
        (_other_text, ["tokenize test 1", "split test", "binarise"]),
        (_other_symbols, ["learn subwords", "split train", "split valid", "split test", "binarise"]),
        (_other_limit, ["split train", "binarise"]),
        (_damaged_result, ["split valid"]),
        (_lost_record, [*(f"tokenize {s} 1" for s in ("train", "valid", "test")), "learn subwords",
                        *(f"split {s}" for s in ("train", "valid", "test")), "binarise"]),
    ],
)  # fmt: skip
def test_just_what_changed_is_done_again(
    corpus: Corpus,
    prepared: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    without_binarising: None,
    change: Callable[[Corpus, Recipe, Path], tuple[Corpus, Recipe]],
    redone: list[str],
) -> None:
    out = tmp_path / "out"
    subprocess.run(["cp", "-r", prepared, out], check=True)
    changed_corpus, changed_recipe = change(corpus, RECIPE, out)
    if "binarise" in redone:
        with pytest.raises(UserError, match="as far as"):
            prepare(changed_corpus, changed_recipe, out)
    else:
        prepare(changed_corpus, changed_recipe, out)
        assert _contents(out) == _contents(prepared)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if ":" not in line] == redone


def test_sentencepiece(corpus: Corpus, tmp_path: Path, without_binarising: None) -> None:
    recipe = Recipe(Words("none"), Subwords("sentencepiece", 120))
    for name in ("one", "two"):
        with pytest.raises(UserError, match="as far as"):
            prepare(corpus, recipe, tmp_path / name)
    assert _contents(tmp_path / "one") == _contents(tmp_path / "two")
    tokenized = list(read_lines(tmp_path / "one" / "tokenized" / "test.1.de"))
    pieces = list(read_lines(tmp_path / "one" / "subwords" / "test.de"))
    assert [line.replace(" ", "").replace("▁", " ").strip() for line in pieces] == tokenized


def _with(corpus: Corpus, folder: Path, split: str, side: int, text: bytes | None) -> Corpus:
    """The corpus with one file changed, or missing."""
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
        ("valid", 1, b"\xe2\x80\xa8 \x00\n" + b"eins\n" * 39, r"bad\.de:1: no words"),
        ("test", 1, b"eins\n" * 2 + b"\xff\n" * 41, r"bad\.de:3: not UTF-8"),
        ("train", 0, None, r"bad\.en: no such file"),
    ],
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_bad_text_is_one_line_and_leaves_nothing(
    corpus: Corpus, tmp_path: Path, split: str, side: int, text: bytes | None, message: str, jobs: int
) -> None:
    bad = _with(corpus, tmp_path, split, side, text)
    with pytest.raises(UserError, match=message) as error:
        prepare(bad, RECIPE, tmp_path / "out", jobs)
    assert "\n" not in str(error.value)
    left = {name for name in _contents(tmp_path / "out") if not name.startswith("tokenized/")}
    assert left <= {".lock", "steps.json"}
    assert not [name for name in _contents(tmp_path / "out") if split in name]


def test_several_sources_and_a_sample(corpus: Corpus, tmp_path: Path) -> None:
    sides = [(tmp_path / "more.en"), (tmp_path / "more.de")]
    sides[0].write_bytes(
        b"".join(b"one dog sees\xff the man .\n" if n == 1 else b"two men see a dog .\n" for n in range(9))
    )
    sides[1].write_bytes(b"zwei Frauen sehen .\n" * 9)
    more = PlainText(*sides)
    several = dataclasses.replace(corpus, train=[*corpus.train, more], valid=[*corpus.valid, *corpus.test], sample=7)
    summary = prepare(several, RECIPE, tmp_path / "out", jobs=2)
    first = {"name": "train.en", "read": 7, "kept": 4, "dropped": {"empty": 1, "ratio": 1, "too long": 1}}
    second = {"name": "more.en", "read": 7, "kept": 6, "dropped": {"not UTF-8": 1}}
    dropped = {"empty": 1, "not UTF-8": 1, "ratio": 1, "too long": 1}
    assert summary["pairs"]["train"] == {"read": 14, "kept": 10, "dropped": dropped, "sources": [first, second]}
    assert summary["pairs"]["valid"]["kept"] == 40 + 43
    assert "more.en" in format_summary(summary) and "1 not UTF-8" in format_summary(summary)
    subwords = [list(read_lines(tmp_path / "out" / "subwords" / f"train.{lang}")) for lang in ("en", "de")]
    plain = [[line.replace("@@ ", "") for line in side] for side in subwords]
    assert plain[1][-6:] == ["zwei Frauen sehen ."] * 6 and plain[0][-6:] == ["two men see a dog ."] * 6

    # Less again: no trace of what is no longer asked for
    prepare(dataclasses.replace(corpus, sample=7), RECIPE, tmp_path / "out")
    prepare(dataclasses.replace(corpus, sample=7), RECIPE, tmp_path / "anew")
    assert _contents(tmp_path / "out") == _contents(tmp_path / "anew")


def test_counts_are_those_of_the_files(prepared: Path) -> None:
    text = json.loads((prepared / "summary.json").read_text())["text"]
    for split, sides in text.items():
        for lang, side in sides.items():
            lines = [line.split() for line in read_lines(prepared / "subwords" / f"{split}.{lang}")]
            assert side["subwords"] == sum(map(len, lines))
            assert side["longest"] == max(map(len, lines))
            assert side["words"] == sum(not piece.endswith("@@") for line in lines for piece in line)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_binarised_as_by_fairseq_preprocess(prepared: Path, tmp_path: Path, workers: str) -> None:
    from fairseq import options
    from fairseq_cli import preprocess

    command = ["-s", "en", "-t", "de", "--joined-dictionary", "--destdir", str(tmp_path), "--workers", workers]
    for split in ("train", "valid", "test"):
        command += [f"--{split}pref", str(prepared / "subwords" / split)]
    preprocess.main(options.get_preprocessing_parser().parse_args(command))
    (tmp_path / "preprocess.log").unlink()
    assert _contents(tmp_path) == _binarised(prepared)


@pytest.mark.parametrize("symbols", [9, 12, 65_495, 65_496])
def test_dictionaries_and_numbers_are_fairseqs_of_any_size(tmp_path: Path, symbols: int) -> None:
    from fairseq.data import Dictionary
    from fairseq.data.indexed_dataset import MMapIndexedDataset, make_builder

    counts = {f"w{number}": number % 7 + 1 for number in range(symbols - 4)} | {
        "madeupword0001": 3,
        "<s>": 1,
        "</s>": 2,
    }
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


def test_positions_in_blocks(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resmlp_mt.corpora.binarize.BLOCK", 7)
    Binarizing(prepared / "subwords", tmp_path / "data-bin", ("en", "de")).run({"train": 297, "valid": 40, "test": 43})
    assert _contents(tmp_path / "data-bin") == _binarised(prepared)


def test_texts_of_another_length_are_not_binarised(prepared: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="subwords/train: 298 lines expected, 297 found"):
        Binarizing(prepared / "subwords", tmp_path / "data-bin", ("en", "de")).run({"train": 298})
    assert list(tmp_path.iterdir()) == []


def test_empty_files(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    with pytest.raises(UserError, match=r"empty: empty: the valid set needs at least one pair"):
        empty = PlainText(tmp_path / "empty", tmp_path / "empty")
        prepare(dataclasses.replace(corpus, valid=[empty]), RECIPE, tmp_path / "out")


def test_nothing_left_to_train_on(corpus: Corpus, tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, pair_filter=PairFilter(max_length=1))
    with pytest.raises(
        UserError, match=r"train\.en: no training pair is left \(.*299 too long.*\): look at the limits"
    ):
        prepare(corpus, recipe, tmp_path / "out")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe(subwords=Subwords(symbols=0)), "--symbols 0"),
        (lambda: Recipe(pair_filter=PairFilter(max_length=0)), "--max-length 0"),
        (lambda: Recipe(pair_filter=PairFilter(max_ratio=0.5)), "--max-ratio 0.5"),
    ],
)
def test_bad_options(make: Callable[[], Recipe], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_bad_calls(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--jobs 0"):
        prepare(corpus, RECIPE, tmp_path, jobs=0)
    with pytest.raises(UserError, match="both 'en'"):
        dataclasses.replace(corpus, langs=("en", "en"))
    with pytest.raises(UserError, match="--sample 0"):
        dataclasses.replace(corpus, sample=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file: cannot be written"):
        prepare(corpus, RECIPE, tmp_path / "file")


def test_full_disk_ends_the_command_in_one_line(corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "out"
    limit = 5_000  # bytes a file, less than the training text
    done = subprocess.run(
        _command(corpus, out),
        capture_output=True,
        text=True,
        env=_environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1
    assert re.fullmatch(r".*/out/tokenized/train\.1\.(en|de): cannot be written: File too large\n", done.stderr)
    assert set(_contents(out)) == {".lock"}


def test_two_runs_in_one_folder(corpus: Corpus, tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX);"
         "print(flush=True); time.sleep(60)", str(tmp_path / ".lock")], stdout=subprocess.PIPE
    )  # fmt: skip
    try:
        holder.stdout.readline()
        with pytest.raises(UserError, match="another run is preparing it"):
            prepare(corpus, RECIPE, tmp_path)
    finally:
        holder.kill()
        holder.wait()
