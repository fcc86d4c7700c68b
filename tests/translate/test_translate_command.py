"""``resmlp-mt translate``: line for line, in order, broken off and resumed, and every mistake in one line."""

import gzip
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import distributed
import pytest

from resmlp_mt import Translator
from resmlp_mt.cli import main
from resmlp_mt.common import progress
from resmlp_mt.common.errors import UserError
from resmlp_mt.translate import lines as line_by_line
from resmlp_mt.translate.lines import GrowingFile, LineTranslator, Window, Work
from resmlp_mt.translate.options import EngineOptions, Options

TEXTS = ["the hen in there.", "A man.", "", "Is it the other?", "Well, no one sings here!"]
Run = Callable[..., bytes]


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command on a text given to it: what it writes to standard output."""

    def run(*arguments: object, given: bytes = b"", model: Path = folder) -> bytes:
        out = io.BytesIO()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
        monkeypatch.setattr(sys, "argv", ["resmlp-mt", "translate", str(model), *map(str, arguments)])
        main()
        return out.getvalue()

    return run


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[str]:
    return [each.text for each in Translator(folder).translate(TEXTS)]


def text_of(texts: list[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def failure(run: Run, capsys: pytest.CaptureFixture[str], *arguments: object, **given: Any) -> str:
    """The last line of what a run that fails says."""
    with pytest.raises(SystemExit) as end:
        run(*arguments, **given)
    return str(end.value.code)


def test_line_for_line(run: Run, expected: list[str]) -> None:
    assert run(given=text_of(TEXTS)) == text_of(expected)
    assert run(given=text_of(TEXTS)[:-1].replace(b"\n", b"\r\n")) == text_of(expected)
    assert run(given=b"") == b""


def test_many_windows_keep_the_order(run: Run, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_by_line, "FIRST_WINDOW", 2)
    monkeypatch.setattr(line_by_line, "WINDOW", 3)
    assert run(given=text_of(5 * TEXTS)) == text_of(5 * expected)


def test_processes_give_the_same_in_order(folder: Path, tmp_path: Path) -> None:
    """By the command, in a process in which PyTorch has not computed: forks of one that has may wait for ever."""
    texts, files = 60 * TEXTS, ["--input", str(tmp_path / "in"), "--output"]
    (tmp_path / "in").write_bytes(text_of(texts))
    command = [sys.executable, "-c", "import resmlp_mt.cli as c; c.main()", "translate", str(folder), *files]
    for jobs in "1", "2":
        subprocess.run([*command, str(tmp_path / jobs), "--jobs", jobs, "--threads", "1"], check=True)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    (tmp_path / "in").write_bytes(text_of([*texts, LONG]))
    done = subprocess.run([*command, str(tmp_path / "3"), "--jobs", "2"], check=False, capture_output=True, text=True)
    assert done.returncode == 1 and f"in:{len(texts) + 1}: 85 tokens, but the model takes 23" in done.stderr
    assert (tmp_path / "3.partial").read_bytes() == b"".join((tmp_path / "1").read_bytes().splitlines(True)[:192])


def test_files(run: Run, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(text_of(TEXTS)))
    assert run("--input", tmp_path / "in.gz", "--output", tmp_path / "out") == b""
    assert (tmp_path / "out").read_bytes() == text_of(expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.gz", "out"]


def test_layouts(run: Run, folder: Path) -> None:
    translations = Translator(folder).translate(TEXTS, n_best=2, alignment=True)
    rows = run("--n-best", 2, "--scores", "--alignment", given=text_of(TEXTS)).decode().split("\n")[:-1]
    assert len(rows) == 2 * len(TEXTS)
    for row, found in zip(rows, [each for both in translations for each in both], strict=True):
        score, text, links = row.split("\t")
        assert (text, float(score)) == (found.text, pytest.approx(found.score, abs=1e-4))
        for link in links.split():
            source, target = map(int, link.split("-"))
            assert found.alignment[target][source] == max(found.alignment[target])
    objects = [
        json.loads(row) for row in run("--json", "--alignment", "--n-best", 2, given=text_of(TEXTS)).splitlines()
    ]
    for both, row in zip(translations, objects, strict=True):
        assert row["source_tokens"] == both[0].source_tokens
        for found, each in zip(both, row["translations"], strict=True):
            assert (each["text"], each["tokens"]) == (found.text, found.tokens)
            assert len(each["alignment"]) == len(found.tokens)


def test_options_reach_the_translator(run: Run, folder: Path) -> None:
    options = {"beam": 1, "max_len_b": 4, "length_penalty": 0.5}
    expected = [each.text for each in Translator(folder, precision="int8").translate(TEXTS, **options)]
    arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    assert run(*arguments, "--precision", "int8", "--batch-tokens", 20, given=text_of(TEXTS)) == text_of(expected)


LONG = "The hen in there is a man. " * 5


@pytest.mark.parametrize(
    ("given", "arguments", "message"),
    [
        (b"A man.\nthe \xff hen\n", [], "standard input:2: not UTF-8: convert it by iconv"),
        (text_of(["A man.", LONG]), [], "standard input:2: 85 tokens, but the model takes 23: split the text, or "),
        (b"", ["--input", "none"], "none: no such file"),
        (b"", ["--resume"], "--resume: goes on with an output file: give --output"),
        (b"", ["--output", "."], ".: is there already"),
        (b"A man.\n", ["--beam", 0], "beam 0: give a whole number from 1 to 1,000"),
    ],
)
def test_mistakes(
    run: Run,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: bytes,
    arguments: list[object],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert failure(run, capsys, *arguments, given=given).startswith(message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("too_long", ["split", "truncate"])
def test_lines_that_are_too_long(run: Run, folder: Path, too_long: str) -> None:
    expected = [each.text for each in Translator(folder).translate(["A man.", LONG], too_long=too_long)]
    assert run("--too-long", too_long, given=text_of(["A man.", LONG])) == text_of(expected)


def test_the_input_is_not_written_over(run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"A man.\n")
    told = failure(run, capsys, "--input", tmp_path / "text", "--output", tmp_path / "text")
    assert "is there already: move it away, or choose another name" in told


@pytest.fixture
def broken_off(
    run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A run that broken UTF-8 in line 9 has ended; the input is mended."""
    monkeypatch.setattr(line_by_line, "FIRST_WINDOW", 2)
    monkeypatch.setattr(line_by_line, "WINDOW", 2)
    whole = text_of(2 * TEXTS)
    (tmp_path / "in").write_bytes(whole.replace(b"other", b"o\xffher").replace(b"o\xffher", b"other", 1))
    told = failure(run, capsys, "--input", tmp_path / "in", "--output", tmp_path / "out", "--beam", 2)
    assert told.startswith(f"{tmp_path / 'in'}:9: not UTF-8")
    (tmp_path / "in").write_bytes(whole)
    yield tmp_path


def test_a_run_that_was_broken_off_goes_on(run: Run, broken_off: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run("--beam", 2, given=text_of(2 * TEXTS))
    partial = broken_off / "out.partial"
    assert partial.read_bytes() == b"".join(expected.splitlines(keepends=True)[:8])
    with open(partial, "ab") as file:
        file.write(b"half a li")  # killed as it was writing
    seen: list[Window] = []
    add = GrowingFile.add
    monkeypatch.setattr(GrowingFile, "add", lambda self, window, out: (seen.append(window), add(self, window, out)))
    arguments = ["--input", broken_off / "in", "--output", broken_off / "out", "--beam", 2, "--batch-tokens", 9]
    run(*arguments, "--resume")
    assert (broken_off / "out").read_bytes() == expected
    assert [window.first for window in seen] == [9]
    assert sorted(path.name for path in broken_off.iterdir()) == ["in", "out"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            "out.partial: left by a run that was broken off: give --resume, or remove it and out.partial.json",
        ),
        (
            ["--resume", "--beam", 3],
            "out.partial: begun with beam 2, not 3: give the same, or remove it and out.partial.json",
        ),
    ],
)
def test_it_goes_on_only_where_it_was(
    run: Run, capsys: pytest.CaptureFixture[str], broken_off: Path, arguments: list[object], message: str
) -> None:
    before = (broken_off / "out.partial").read_bytes()
    told = failure(run, capsys, "--input", broken_off / "in", "--output", broken_off / "out", *arguments)
    assert told.startswith(f"{broken_off / message}")
    assert (broken_off / "out.partial").read_bytes() == before


def test_a_line_that_is_too_long_may_be_split_then(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_by_line, "FIRST_WINDOW", 2)
    (tmp_path / "in").write_bytes(text_of([*TEXTS, LONG]))
    expected = run("--too-long", "split", given=text_of([*TEXTS, LONG]))
    files = ["--input", tmp_path / "in", "--output", tmp_path / "out"]
    with pytest.raises(SystemExit):
        run(*files)
    assert (tmp_path / "out.partial").stat().st_size
    run(*files, "--resume", "--too-long", "split")
    assert (tmp_path / "out").read_bytes() == expected


@pytest.mark.parametrize("change", [lambda text: text.replace(b"A man", b"a man", 1), lambda text: text[:20]])
def test_another_input_is_refused(
    run: Run, capsys: pytest.CaptureFixture[str], broken_off: Path, change: Callable[[bytes], bytes]
) -> None:
    (broken_off / "in").write_bytes(change((broken_off / "in").read_bytes()))
    arguments = ["--input", broken_off / "in", "--output", broken_off / "out", "--beam", 2, "--resume"]
    assert "its first 8 lines are not those that" in failure(run, capsys, *arguments)


def test_another_model_is_refused(
    run: Run, capsys: pytest.CaptureFixture[str], broken_off: Path, folder: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    settings = json.loads((other / "generation_config.json").read_text())
    (other / "generation_config.json").write_text(json.dumps({**settings, "length_penalty": 2.0}))
    arguments = ["--input", broken_off / "in", "--output", broken_off / "out", "--beam", 2, "--resume"]
    assert "begun with model" in failure(run, capsys, *arguments, model=other)


def test_a_partial_file_of_somebody_else_is_left_alone(
    run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "out.partial").write_text("mine")
    told = failure(run, capsys, "--output", tmp_path / "out", "--resume", given=b"A man.\n")
    assert "is not as its record says: remove it and out.partial.json" in told
    assert (tmp_path / "out.partial").read_text() == "mine"


def test_a_file_that_appears_during_the_run_is_left_alone(tmp_path: Path) -> None:
    told = r"out: has appeared meanwhile: the translations are in .*out\.partial"
    with pytest.raises(UserError, match=told), GrowingFile(tmp_path / "out", {}, False) as file:
        file.add(Window(1, [b"a"]), b"b\n")
        (tmp_path / "out").write_text("mine")
    assert (tmp_path / "out").read_text() == "mine"
    (tmp_path / "out").unlink()
    with GrowingFile(tmp_path / "out", {}, True) as file:
        assert file.lines == 1
    assert (tmp_path / "out").read_bytes() == b"b\n"


def test_progress_tells_how_much_is_left(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    (tmp_path / "in").write_bytes(text_of(TEXTS))
    run("--input", tmp_path / "in")
    assert "translate: 5 of 5" in capsys.readouterr().err


def test_a_cluster_gives_the_same(run: Run, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_by_line, "FIRST_WINDOW", 2)
    monkeypatch.setattr(line_by_line, "WINDOW", 2)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", dashboard_address=None
    ) as dask:
        found = run("--cluster", dask.scheduler_address, given=text_of(4 * TEXTS))
    assert found == text_of(4 * expected)


def test_a_machine_with_another_model_is_refused(folder: Path) -> None:
    work = Work(str(folder), "another checksum", "in", Options(), EngineOptions())
    with pytest.raises(UserError, match=r"holds another model on .*: copy the folder there"):
        LineTranslator(work)


def test_help_without_torch() -> None:
    """In a process of its own, since this one has imported everything."""

    script = "import sys; from resmlp_mt.cli import parser_of; parser_of('translate'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_two_runs_at_one_file(run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with GrowingFile(tmp_path / "out", {}, False):
        told = failure(run, capsys, "--output", tmp_path / "out", "--resume", given=b"A man.\n")
        assert "another run is writing it" in told
