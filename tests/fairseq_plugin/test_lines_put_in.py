"""How fairseq-interactive reads what is put in."""

import io
import sys
from types import SimpleNamespace

import pytest
from fairseq import options

import resmlp_mt.fairseq_plugin  # noqa: F401  (installs what is tested)
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import LONGEST_SENTENCE
from resmlp_mt.fairseq_plugin.patches.interactive import _Lines


def read(path, at_once=2):
    """All that is read of a file, and the mistake that ended it."""
    found = []
    try:
        for lines in _Lines(None).read(str(path), at_once):
            found.append(lines)
    except UserError as error:
        return found, str(error)
    return found, None


@pytest.fixture
def write(tmp_path):
    def write(content):
        (tmp_path / "text").write_bytes(content)
        return tmp_path / "text"

    return write


def test_lines_end_at_lf_alone(write):
    text = "a\rb\r\nc\u2028d\x85e\n\n \tf\x0c\nlast"
    assert read(write(text.encode())) == ([["a\rb", "c\u2028d\x85e"], ["", "f"], ["last"]], None)
    assert read(write(b"")) == ([], None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\nc\nd\xff\ne\n", "text:4: not UTF-8 (invalid start byte): convert it, for example with iconv"),
        (b"a\nb\nc\n" + b"x" * (LONGEST_SENTENCE + 1), f"text:4: more than {LONGEST_SENTENCE:,} bytes: give text"),
    ],
)
def test_lines_before_a_broken_one_are_read(write, content, message):
    path = write(content)
    found, told = read(path)
    assert found == [["a", "b"], ["c"]]
    assert told.startswith(f"{path.parent}/{message}")


def test_what_cannot_be_opened_is_told(tmp_path):
    assert read(tmp_path / "none") == ([], f"{tmp_path}/none: cannot be read: No such file or directory")


def test_stdin_is_read_as_bytes(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO("ä\rb\nc".encode())))
    assert read("-") == ([["ä\rb", "c"]], None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "stdin is closed: give text to it, or --input"),
        (["--print-step"], "--print-step: for models that refine in steps"),
        (["--retain-iter-history"], "--retain-iter-history: for models"),
    ],
)
def test_what_lacks_is_told_before_a_model_is_loaded(monkeypatch, given, message):
    monkeypatch.setattr(sys, "argv", ["fairseq-interactive"])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match=message):
        options.parse_args_and_arch(options.get_interactive_generation_parser(), ["data", "--path", "x", *given])
