"""How a command ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _ended(body: str, stdout: object = subprocess.PIPE) -> tuple[int, str | None, str]:
    script = f"from resmlp_mt.errors import told_in_one_line\nwith told_in_one_line():\n    {body}\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("body", ["print('x', flush=True)", "print('x')"])
def test_standard_output_on_a_full_disk(body: str) -> None:
    with open("/dev/full", "w") as full:
        status, _, told = _ended(body, full)
    assert (status, told) == (1, "the output cannot be written: No space left on device\n")


def test_names_of_files_that_are_no_text() -> None:
    assert _ended(r"print('tr\udce4in.en')") == (0, "tr\\udce4in.en\n", "")
