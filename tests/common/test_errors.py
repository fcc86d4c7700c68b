"""How a command ends: as a process of its own, which alone has a stdout and an end."""

import signal
import subprocess
import sys

import pytest

COMMAND = """
import sys
from resmlp_mt.common.errors import UserError, told_in_one_line

with told_in_one_line():
    {body}
"""


def ended(body, redirect="", **options):
    """A command of these lines, from a shell that redirects it."""
    script = f'exec "$0" -c "$1" {redirect}'
    command = ["bash", "-c", script, sys.executable, COMMAND.format(body=body)]
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.mark.parametrize(
    ("body", "redirect", "status", "message"),
    [
        ("raise UserError('a.txt: no such file')", "", 1, "a.txt: no such file\n"),
        ("raise KeyboardInterrupt", "", -signal.SIGINT, "interrupted\n"),
        ("raise BrokenPipeError", "", 1, ""),
        ("print('x')", "> /dev/full", 1, "output cannot be written: No space left on device\n"),
        ("print('x')", ">&-", 0, ""),
        ("raise OSError(13, 'Denied', 'a')", "", 1, "a: cannot be reached: Denied: choose another name\n"),
        ("print('x' * 10**6)", "> >(true)", 1, ""),
    ],
)
def test_what_the_user_decided_ends_in_one_line(body, redirect, status, message):
    done = ended(body, redirect)
    assert (done.returncode, done.stderr) == (status, message)


@pytest.mark.parametrize(
    ("body", "beginning", "lines"),
    [
        ("import no_such_package.part", f"no_such_package is not installed for {sys.executable}: ", 1),
        ("raise OSError(5, 'Input/output error')", "Traceback", 2),  # a mistake in the code
        ("import resmlp_mt.nothing", "Traceback", 2),
    ],
)
def test_what_is_missing_is_named_and_a_mistake_in_the_code_keeps_its_traceback(body, beginning, lines):
    done = ended(body)
    assert (done.returncode, done.stderr.startswith(beginning)) == (1, True)
    assert min(len(done.stderr.splitlines()), 2) == lines


def test_names_of_files_that_are_no_text():
    done = ended(r"print('tr\udce4in.en')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "tr\\udce4in.en\n", "")
