"""Commands that run as processes of their own."""

import subprocess
import sys
import threading

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.trainings.queue import Stopped, locked, run


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A function that runs Python code as a module, and returns the reported processor seconds."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def execute(code, stop=None):
        (tmp_path / "code.py").write_text(code)
        told = []
        with locked(tmp_path / "row") as lock:
            run(["code", 1], tmp_path / "out", tmp_path / "log", lock, stop or threading.Event(), told.append)
        return told

    return execute


def test_processor_time_is_that_of_the_whole_process_and_its_children(command, tmp_path):
    told = command(
        "import os, subprocess, sys, time\n"
        "while time.process_time() < 0.5: pass\n"
        "if len(sys.argv) == 2:\n"
        "    subprocess.run([sys.executable, '-m', 'code', '1', 'child'])\n"
        "    times = os.times()\n"
        "    print(sum(times[:4]), os.environ['OMP_NUM_THREADS'])\n"
    )
    seconds, threads = (tmp_path / "out").read_text().split()
    assert threads == "1"
    assert float(seconds) > 0.9  # the child's half, too
    assert -0.05 < told[-1] - float(seconds) < 0.45  # it ends after it printed this; nothing is counted twice


def test_a_failure_is_told_with_the_last_line_of_the_log(command):
    with pytest.raises(UserError, match=r"code failed: the disk is full \(see .*log\)"):
        command("import sys\nsys.exit('at first\\nthe disk is full\\n')")
    with pytest.raises(UserError, match="code killed by signal 9"):
        command("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")


def test_a_command_ends_when_it_is_told_to(command):
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        command("import time\ntime.sleep(10_000)", stop)  # longer than a test may take


def test_a_command_ends_with_the_process_that_started_it(command, tmp_path):
    ask = "import ctypes\nfound = ctypes.c_int()\nctypes.CDLL(None).prctl(2, ctypes.byref(found))\nprint(found.value)"
    command(ask)  # PR_GET_PDEATHSIG
    assert (tmp_path / "out").read_text() == "9\n"


def test_a_folder_is_locked_as_long_as_a_command_runs_there(tmp_path):
    with locked(tmp_path) as lock:
        with pytest.raises(UserError, match="another run, or a training left over from one, works here"):
            locked(tmp_path)
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], pass_fds=[lock.fileno()])
    with pytest.raises(UserError, match="another run"):
        locked(tmp_path)
    process.kill()
    process.wait()
    locked(tmp_path).close()
