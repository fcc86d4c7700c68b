"""How fairseq's commands end: what is told of an error, and what happens to results that are not whole."""

import errno
import os
import re

import fairseq_cli.generate
import pytest
import torch
import torch.multiprocessing
from in_this_process import run

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin import uncaught
from resmlp_mt.fairseq_plugin.uncaught import explanation


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "codes"), r".*No such file: 'codes': check the path"),
        (AssertionError("--sampling requires --nbest to be equal to --beam"), r"--sampling requires --nbest to be "),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), r"not enough memory.*2.00 GiB"),
        (AssertionError("200 < 200"), r"no translation was found: the model's scores are nan"),
        (RuntimeError("a mistake"), None),
    ],
)
def test_what_is_the_user_s_is_told_in_one_line_and_a_mistake_in_the_code_is_not(error, told):
    text = explanation(error)
    assert text is None if told is None else re.match(told, text) and "\n" not in text, text


def test_a_program_that_uses_fairseq_keeps_its_tracebacks(monkeypatch, capsys):
    kept = []
    monkeypatch.setattr(uncaught, "_hook", lambda *error: kept.append(error))
    for error in FileNotFoundError(errno.ENOENT, "No such file", "train.en"), UserError("told"):
        uncaught._excepthook(type(error), error, None)
    assert (len(kept), capsys.readouterr().err) == (1, "told\n")


def fail(_, error):
    raise error


def test_a_worker_s_line_is_told_without_its_traceback():
    for error, told in (UserError("a.txt: no such file"), "a.txt: no such file"), (KeyError("a mistake"), None):
        with pytest.raises(torch.multiprocessing.ProcessRaisedException) as raised:
            torch.multiprocessing.start_processes(fail, (error,), start_method="fork")
        assert explanation(raised.value) == told


def test_results_are_whole_or_as_they_were(small, checkpoint, tmp_path):
    results = tmp_path / "a" / "results"
    common = (small / "bin", "--path", checkpoint, "--cpu", "--num-workers", 0, "--results-path", results)
    run(fairseq_cli.generate, *common)
    whole = (results / "generate-test.txt").read_text()
    assert whole.count("\nH-") == 16 and "Generate test with beam=5" in whole

    with pytest.raises(UserError, match="--nbest 6 --beam 5"):
        run(fairseq_cli.generate, *common, "--nbest", 6)
    assert os.listdir(results) == ["generate-test.txt"]
    assert (results / "generate-test.txt").read_text() == whole
