"""How fairseq's commands end: what is told of an error, and what happens to results that are not whole."""

import errno
import logging
import os
import re
import sys
from argparse import Namespace
from types import ModuleType

import fairseq_cli.generate
import fairseq_cli.preprocess
import pytest
import torch
import torch.multiprocessing
from fairseq import options
from in_this_process import run
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, OmegaConfBaseException

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.patches import commands
from resmlp_mt.fairseq_plugin.patches.commands import explanation


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "codes"), r"codes: No such file: check the name"),
        (OSError(errno.ENOSPC, "No space left"), r"output: No space left: make room, then run the same command again"),
        (OSError("file codes not found"), r"file codes not found"),
        (AssertionError("--sampling requires --nbest to be equal to --beam"), r"--sampling requires --nbest to be "),
        (Exception("Please use `--ddp-backend=legacy_ddp` instead."), r"Please use `--ddp-backend=legacy_ddp` instead"),
        (ImportError("\n\nPlease install nltk:\n  pip install nltk"), r"Please install nltk: pip install nltk"),
        (
            RuntimeError("can't allocate memory: you tried to allocate 400 bytes."),
            r"not enough memory \(for 400 bytes ",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
            r"not enough memory \(for 2.00 GiB ",
        ),
        (MemoryError(), r"not enough memory: lower --max-tokens"),
        (
            AssertionError("world size is 2 but have 0 available devices"),
            r"world size is 2 .*: check the --distributed-",
        ),
        (torch.distributed.DistStoreError("Timed out"), r"Timed out: check the --distributed- options"),
    ],
)
def test_what_is_the_user_s_is_told_in_one_line(error, told):
    text = explanation(error)
    assert re.match(told, text), text
    assert "\n" not in text


def test_a_name_in_braces_that_nothing_has_is_told_in_one_line():
    with pytest.raises(OmegaConfBaseException) as error:
        _ = OmegaConf.create({"a": "${b}"}).a
    assert re.match(r"(str i|I)nterpolation key 'b' not found", explanation(error.value))


@pytest.mark.parametrize(
    "error",
    [
        KeyError("--path"),
        RuntimeError("a mistake"),
        AssertionError(),
        ConfigAttributeError("Key 'a' not in 'b'"),
        Exception(),
    ],
)
def test_a_mistake_in_the_code_is_not(error):
    assert explanation(error) is None


def test_fairseq_preprocess_ends_in_one_line_too(monkeypatch, capsys):
    monkeypatch.setattr(options, "parse_args_and_arch", options.parse_args_and_arch)  # put back at the end
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    commands.end_commands_in_one_line()
    assert sys.excepthook is sys.__excepthook__  # the tests are another command
    monkeypatch.setitem(sys.modules, "__main__", Namespace(cli_main=fairseq_cli.preprocess.cli_main, __spec__=None))
    commands.end_commands_in_one_line()
    error = FileNotFoundError(errno.ENOENT, "No such file", "train.en")
    sys.excepthook(type(error), error, None)
    assert capsys.readouterr().err == "train.en: No such file: check the name\n"


def fail(_, error):
    raise error


def test_a_worker_s_line_is_told_without_its_traceback():
    for error, told in (UserError("a.txt: no such file"), "a.txt: no such file"), (KeyError("a mistake"), None):
        with pytest.raises(torch.multiprocessing.ProcessRaisedException) as raised:
            torch.multiprocessing.start_processes(fail, (error,), start_method="fork")
        assert explanation(raised.value) == told


def test_results_are_whole_or_as_they_were(small, checkpoint, tmp_path, monkeypatch):
    results = tmp_path / "a" / "results"
    common = (small / "bin", "--path", checkpoint, "--cpu", "--num-workers", 0, "--results-path", results)
    run(fairseq_cli.generate, *common)
    whole = (results / "generate-test.txt").read_text()
    assert whole.count("\nH-") == 16 and "Generate test with beam=5" in whole

    with pytest.raises(UserError, match="--beam is 0"):
        run(fairseq_cli.generate, *common, "--beam", 0)
    assert os.listdir(results) == ["generate-test.txt"]
    assert (results / "generate-test.txt").read_text() == whole


@pytest.mark.parametrize("folder", ["file", "file/in it", "/proc/nothing/here"])
def test_results_that_cannot_be_written(small, checkpoint, tmp_path, folder):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=rf"--results-path .*{folder}: cannot be written \(.*\): choose another folder"):
        run(fairseq_cli.generate, small / "bin", "--path", checkpoint, "--cpu", "--results-path", tmp_path / folder)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("command", ["train", "generate"])
def test_translating_ends_where_its_log_finds_no_room(command, monkeypatch):
    """A training goes on: its log is not what it is for."""
    for name in "excepthook", "unraisablehook":
        monkeypatch.setattr(sys, name, getattr(sys, f"__{name}__"))
    told = []
    monkeypatch.setattr(logging.StreamHandler, "handleError", lambda self, record: told.append(record))
    main = ModuleType(f"fairseq_cli.{command}")
    main.__spec__ = Namespace(name=main.__name__)
    main.main = print
    commands._tell([main])
    full = logging.StreamHandler(open("/dev/full", "w", buffering=1))  # noqa: SIM115
    record = logging.makeLogRecord({"msg": "a line"})
    if command == "train":
        full.handle(record)
        assert told == [record]
    else:
        with pytest.raises(OSError, match="No space left"):
            full.handle(record)
