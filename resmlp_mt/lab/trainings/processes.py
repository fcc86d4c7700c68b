"""fairseq's commands as processes of their own, with their processor time, one thread each."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import IO

import psutil

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, lock_folder

PAUSE = 3.0  # seconds after which a command's processor time is told again
BEAT = 0.2  # seconds between two looks at a command


class Stopped(Exception):
    """The whole run was told to stop."""


def locked(folder: Path) -> IO[str]:
    """Open a folder for one run at a time.

    The lock is held as long as anybody has the file open: also by a command that has outlived its killed parent.
    """
    return lock_folder(folder, f"{folder}: another run, or a training left over from one, works here: let it end")


def run(
    command: Sequence[PathLike],
    output: Path,
    log: Path,
    held: IO[str],
    stop: Event,
    tell: Callable[[float], None] = lambda seconds: None,
) -> None:
    """Run ``python -m MODULE ARGUMENTS`` to its end, or until ``stop``; what it prints is added to files.

    Args:
        output, log: for stdout and stderr
        held: a locked file that the command keeps open
        tell: told the command's processor time (user and system, in seconds) every now and then and at the end
    """
    with open(output, "ab") as out, open(log, "ab") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            pass_fds=[held.fileno()],
        )
    try:
        beats = 0
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if stop.wait(BEAT):
                raise Stopped
            beats += 1
            if beats % round(PAUSE / BEAT) == 0:
                tell(processor_seconds(process.pid))
        tell(processor_seconds(process.pid))  # it has ended, but its figures are there until wait()
    finally:
        process.terminate()
        status = process.wait()
    if status != 0:
        name = str(command[0]).replace("fairseq_cli.", "fairseq-")
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        end = f"killed by signal {-status}" if status < 0 else f"failed: {lines[-1].strip() if lines else 'no message'}"
        raise UserError(f"{name} {end} (see {log})")


def processor_seconds(pid: int) -> float:
    """What a process, with its finished children, has had of the processor."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system + times.children_user + times.children_system
