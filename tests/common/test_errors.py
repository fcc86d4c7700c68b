"""How a command ends. Each one runs in its own process: the tests redirect stdout and check the exit status."""

import re
import signal
import subprocess
import sys

import pytest

COMMAND = """
import sys
from resmlp_mt.common.errors import UserError, one_line_errors

with one_line_errors():
    {body}
"""
ABORT = "import os; from concurrent.futures import *; ProcessPoolExecutor(1).submit(os.abort).result()"
TRACEBACK = r"Traceback(.*\n){2,}"


@pytest.mark.parametrize(
    ("body", "redirect", "status", "message"),
    [
        ("raise UserError('a.txt: no such file')", "", 1, "a.txt: no such file\n"),
        ("print('x'); raise KeyboardInterrupt", ">&2", -signal.SIGINT, "x\ninterrupted\n"),
        ("print('x')", "> /dev/full", 1, "output cannot be written: No space left on device\n"),
        ("print('x')", ">&-", 0, ""),
        ("print('x' * 10**6)", "> >(true)", 1, ""),
        (r"print('tr\udce4in.en')", ">&2", 0, r"tr\\udce4in\.en\n"),  # a file name that is not UTF-8
        ("import no_such_package.part", "", 1, f"no_such_package is not installed for {sys.executable}: .*\n"),
        (ABORT, "", 1, "a process was killed .*\n"),
        ("raise OSError(5, 'Input/output error')", "", 1, TRACEBACK),  # a bug, not a user's mistake
        ("import resmlp_mt.nothing", "", 1, TRACEBACK),
    ],
)
def test_what_the_user_decided_ends_in_one_line(body, redirect, status, message):
    shell = f'unset PYTHONUNBUFFERED; exec "$0" -c "$1" {redirect}'
    command = ["bash", "-c", shell, sys.executable, COMMAND.format(body=body)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status and re.fullmatch(message, done.stderr)
