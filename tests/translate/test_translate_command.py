"""``resmlp-mt translate``: line by line, in order, interrupted and resumed; every mistake gives one line."""

import gzip
import io
import json
import shutil
import subprocess
import sys

import pytest
from translate.small_folder import LONG, TEXTS

from resmlp_mt import Translator
from resmlp_mt.common import progress
from resmlp_mt.common.errors import UserError
from resmlp_mt.translate import lines as line_by_line
from resmlp_mt.translate.lines import GrowingFile


@pytest.fixture
def small_windows(monkeypatch):
    for name in "FIRST_WINDOW", "WINDOW":
        monkeypatch.setattr(line_by_line, name, 2)


@pytest.fixture
def files(tmp_path):
    """The options for a file to read and one to write."""
    return ["--input", tmp_path / "in", "--output", tmp_path / "out"]


@pytest.fixture(scope="module")
def expected(folder):
    return [each.text for each in Translator(folder).translate(TEXTS)]


def text_of(texts):
    return "".join(f"{text}\n" for text in texts).encode()


def failure(run, *arguments, **given):
    """Return the error message of a run that fails."""
    with pytest.raises(SystemExit) as end:
        run(*arguments, **given)
    return str(end.value.code)


def test_line_for_line_in_many_windows(run, expected, small_windows):
    assert run(given=text_of(TEXTS)) == text_of(expected)
    assert run(given=text_of(TEXTS)[:-1].replace(b"\n", b"\r\n")) == text_of(expected)
    assert run(given=b"") == b""
    assert run(given=text_of(5 * TEXTS)) == text_of(5 * expected)

    class Terminal(io.BytesIO):  # who types a line waits for its translation
        def isatty(self):
            return True

        def readline(self, most):
            assert sys.stdout.buffer.getvalue().count(b"\n") == self.getvalue()[: self.tell()].count(b"\n")
            return super().readline(most)

    assert run(given=text_of(TEXTS), stream=Terminal) == text_of(expected)


def test_processes_give_the_same_in_order(folder, tmp_path):
    """Use new processes: forks of a process in which PyTorch has computed may wait for ever."""
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


def test_files_and_progress(run, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    (tmp_path / "in").write_bytes(text_of(TEXTS))
    (tmp_path / "in.gz").write_bytes(gzip.compress(text_of(TEXTS)))
    assert run("--input", tmp_path / "in") == text_of(expected)
    assert "translate: 5 of 5" in capsys.readouterr().err
    assert run("--input", tmp_path / "in.gz", "--output", tmp_path / "out") == b""
    assert (tmp_path / "out").read_bytes() == text_of(expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "in.gz", "out"]


def test_layouts(run, folder):
    translations = Translator(folder).translate(TEXTS, n_best=2, alignment=True)
    rows = run("--n-best", 2, "--scores", "--alignment", given=text_of(TEXTS)).decode().split("\n")[:-1]
    for row, found in zip(rows, [each for both in translations for each in both], strict=True):
        score, text, links = row.split("\t")
        assert (text, float(score)) == (found.text, pytest.approx(found.score, abs=1e-4))
        for link in links.split():
            source, target = map(int, link.split("-"))
            assert found.alignment[target][source] == max(found.alignment[target])
    rows = run("--json", "--alignment", "--n-best", 2, given=text_of(TEXTS)).splitlines()
    for both, row in zip(translations, map(json.loads, rows), strict=True):
        assert row["source_tokens"] == both[0].source_tokens
        for found, each in zip(both, row["translations"], strict=True):
            assert (each["text"], each["tokens"]) == (found.text, found.tokens)
            assert len(each["alignment"]) == len(found.tokens)


def test_numbers_that_are_missing_are_told(run, expected, capsys, small_windows):
    assert run("--check", given=text_of([*TEXTS, "No 987,654 hens."])).startswith(text_of(expected))
    assert "standard input:6: missing: 987,654\n" in capsys.readouterr().err


def test_alignments_appear_with_the_output(run, folder, tmp_path, files, small_windows, monkeypatch):
    files += ["--alignments", tmp_path / "links"]
    (tmp_path / "in").write_bytes(text_of(TEXTS) + b"\xff\n")
    assert "in:6: not UTF-8" in failure(run, *files)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.partial", "out.partial.json"]
    (tmp_path / "in").write_bytes(text_of(TEXTS))

    def die_between_the_files(partial, first, last):
        last.touch()
        raise ZeroDivisionError

    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(line_by_line, "split", die_between_the_files)
        run(*files, "--resume")
    (tmp_path / "mine").touch()
    assert "mine: is there already" in failure(run, *files[:-1], tmp_path / "mine", "--resume")
    assert "in/links: " in failure(run, *files[:-1], tmp_path / "in" / "links", "--resume")
    (tmp_path / "mine").unlink()
    run(*files, "--resume")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "links", "out"]
    assert (tmp_path / "out").read_bytes() == run(given=text_of(TEXTS))
    found = [[tuple(map(int, link.split("-"))) for link in line.split()] for line in (tmp_path / "links").open()]
    assert found == [each.word_links for each in Translator(folder).translate(TEXTS, alignment=True)]
    (tmp_path / "out").unlink()
    assert "links: is there already" in failure(run, *files)


@pytest.mark.parametrize("too_long", ["split", "truncate"])
def test_options_reach_the_translator(run, folder, too_long, capsys):
    options = {"beam": 1, "max_len_b": 4, "length_penalty": 0.5, "too_long": too_long}
    expected = [each.text for each in Translator(folder, precision="int8").translate([*TEXTS, LONG], **options)]
    arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    found = run(*arguments, "--precision", "int8", "--batch-tokens", 20, given=text_of([*TEXTS, LONG]))
    assert found == text_of(expected)
    assert capsys.readouterr().err.count("--engine compiled is about twice as fast") == 1


@pytest.mark.parametrize(
    ("given", "arguments", "message"),
    [
        (b"A man.\nthe \xff hen\n", [], "standard input:2: not UTF-8: convert it by iconv"),
        (text_of(["A man.", LONG]), [], "standard input:2: 85 tokens, but the model takes 23: split the text, or "),
        (b"", ["--input", "none"], "none: no such file"),
        (b"", ["--resume"], "--resume needs --output, the file to continue"),
        (b"", ["--output", "b.gz"], "b.gz: would be plain text: give a name that does not end in .gz"),
        (b"", ["--output", "b", "--alignments", "c.gz"], "c.gz: would be plain text: give a name that does"),
        (b"", ["--output", "."], ".: is there already: move it away, or choose another name"),
        (b"", ["--alignments", "a"], "--alignments a: needs --output, another name"),
        (b"", ["--alignments", "a", "--output", "b", "--n-best", 2], "--alignments a: needs --output, another"),
    ],
)
def test_mistakes(run, tmp_path, monkeypatch, given, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert failure(run, *arguments, given=given).startswith(message)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def broken_off(run, tmp_path, files, small_windows):
    """A folder after a run that ended at broken UTF-8 in line 9; the input is correct again."""
    whole = text_of(2 * TEXTS)
    (tmp_path / "in").write_bytes(b"o\xffher".join(whole.rsplit(b"other", 1)))
    assert failure(run, *files, "--beam", 2).startswith(f"{tmp_path / 'in'}:9: not UTF-8")
    (tmp_path / "in").write_bytes(whole)
    return tmp_path


def test_a_run_that_was_broken_off_goes_on(run, broken_off, files, monkeypatch):
    expected = run("--beam", 2, given=text_of(2 * TEXTS))
    partial = broken_off / "out.partial"
    assert partial.read_bytes() == b"".join(expected.splitlines(keepends=True)[:8])
    with open(partial, "ab") as file:
        file.write(b"half a li")  # killed while writing
    seen, add = [], GrowingFile.add
    monkeypatch.setattr(GrowingFile, "add", lambda self, window, out: (seen.append(window), add(self, window, out)))
    run(*files, "--beam", 2, "--batch-tokens", 9, "--resume")
    assert (broken_off / "out").read_bytes() == expected
    assert [window.first for window in seen] == [9]
    assert sorted(path.name for path in broken_off.iterdir()) == ["in", "out"]


@pytest.mark.parametrize(
    ("arguments", "change", "message"),
    [
        ([], None, "out.partial: left by a run that was broken off: give --resume, or remove it and out.partial.json"),
        (["--resume", "--beam", 3], None, "out.partial: begun with beam 2, not 3: give the same, or remove it and"),
        (["--resume", "--beam", 2, "--precision", "bf16"], None, "out.partial: begun with precision fp32, not bf16"),
        (["--resume", "--beam", 2, "--scores"], None, "out.partial: begun with scores False, not True: give the same"),
        (["--resume", "--beam", 2], lambda text: text.replace(b"A man", b"a man", 1), "its first 8 lines are not"),
        (["--resume", "--beam", 2], lambda text: text[:20], "its first 8 lines are not those that"),
    ],
)
def test_it_goes_on_only_where_it_was(run, broken_off, files, arguments, change, message):
    before = (broken_off / "out.partial").read_bytes()
    if change:
        (broken_off / "in").write_bytes(change((broken_off / "in").read_bytes()))
    assert message in failure(run, *files, *arguments)
    assert (broken_off / "out.partial").read_bytes() == before


@pytest.mark.parametrize("name", ["generation_config.json", "model.safetensors", "subwords.model", "shortlist.txt"])
def test_another_model_is_refused(run, broken_off, files, folder, name):
    other = shutil.copytree(folder, broken_off / "other")
    (other / name).write_text("another")
    assert "begun with model" in failure(run, *files, "--beam", 2, "--resume", model=other)


def test_a_line_that_was_too_long_may_be_split_by_the_run_that_goes_on(run, tmp_path, files, small_windows):
    (tmp_path / "in").write_bytes(text := text_of([*TEXTS, LONG]))
    assert "in:6: 85 tokens" in failure(run, *files)
    run(*files, "--resume", "--too-long", "split")
    assert (tmp_path / "out").read_bytes() == run("--too-long", "split", given=text)


def test_files_of_others_and_those_that_appear_during_the_run_are_left_alone(run, tmp_path):
    out, partial = tmp_path / "out", tmp_path / "out.partial"
    partial.write_text("mine")
    told = failure(run, "--output", out, "--resume", given=b"A man.\n")
    assert "is not as its record says: remove it and out.partial.json" in told
    assert partial.read_text() == "mine"
    partial.unlink()
    told = r"out: has appeared meanwhile: the translations are in .*out\.partial"
    with pytest.raises(UserError, match=told), GrowingFile(out, {}, False) as file:
        assert "another run is writing it" in failure(run, "--output", out, "--resume", given=b"A man.\n")
        file.add(line_by_line.Chunk(1, [b"a"]), b"b\n")
        out.write_text("mine")
    assert out.read_text() == "mine"
    out.unlink()
    with GrowingFile(out, {}, True) as file:
        assert file.lines == 1
    assert out.read_bytes() == b"b\n"
