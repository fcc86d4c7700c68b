"""How fairseq-interactive reads what is put in."""

import io
import sys
from types import SimpleNamespace

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.raw_text import Lines


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
