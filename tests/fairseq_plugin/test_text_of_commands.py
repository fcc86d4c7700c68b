"""Raw text: when it is treated as its data was, and the lines that fairseq-interactive is given."""

import io
import sys
from types import SimpleNamespace

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data import raw_text as written
from resmlp_mt.fairseq_plugin import raw_text
from resmlp_mt.fairseq_plugin.raw_text import Lines


@pytest.mark.parametrize("command", ["generation", "interactive_generation"])
def test_the_preparation_of_the_text_is_chosen_where_no_option_says_otherwise(data, parse, command):
    def text_of(data, *given):
        args = parse(command, data, *given)
        return args.tokenizer, args.bpe

    assert raw_text.RECORD == written.NAME
    assert text_of(data) == text_of(f"{data}:other") == ("prepared", "prepared")
    assert text_of(data, "--tokenizer", "space") == ("space", None)
    assert text_of(data, "--bpe", "characters") == (None, "characters")
    joined_by_option = None if command == "generation" else "prepared"
    assert text_of(data, "--remove-bpe") == (joined_by_option, joined_by_option)
    (data / raw_text.RECORD).unlink()
    assert text_of(data) == (None, None)


def test_generation_does_without_the_libraries_of_text(data, parse, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert parse("generation", data).tokenizer is None
    assert parse("interactive_generation", data).tokenizer == "prepared"  # which then says what is missing


@pytest.mark.parametrize("by_stdin", [False, True])
def test_lines_end_at_lf_alone(tmp_path, monkeypatch, by_stdin):
    content = "a\rb\r\nc\u2028d\x85e\n\n \tf\x0c\nlast".encode()
    (tmp_path / "text").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    found = list(Lines().read("-" if by_stdin else str(tmp_path / "text"), 2))
    assert found == [["a\rb", "c\u2028d\x85e"], ["", "f"], ["last"]]


def test_a_line_that_is_not_utf_8_harms_no_other(tmp_path, capsys):
    (tmp_path / "text").write_bytes(b"a\nb\nc\nd\xff\ne\n")
    reading = Lines().read(str(tmp_path / "text"), 2)
    assert [next(reading) for _ in range(3)] == [["a", "b"], ["c", ""], ["e"]]
    with pytest.raises(UserError, match="lines without a translation, as told above: 1"):
        next(reading)
    told = "sentence 3 (line 4): not UTF-8 (invalid start byte): convert it, for example with iconv\n"
    assert capsys.readouterr().err == told
