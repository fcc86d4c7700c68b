"""``scripts/prepare_wmt14.py`` on replicas, in a process forked from one that has imported fairseq already."""

import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data import replicas
from forked import become, fork

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "prepare_wmt14.py"


@dataclass
class Finished:
    """The exit status (negative: killed by that signal) and what was printed to stdout and stderr."""

    status: int
    output: str
    error: str


@dataclass
class Command:
    """Arguments, where the archives are served, and a moment to die at as by ``kill -9``.

    Attributes:
        folder: for what is printed
        urls: by the names of the archives
        arguments: of the script
        kill: end of the path that a file or folder is about to be given
    """

    folder: Path
    urls: Mapping[str, str]
    arguments: Sequence[object]
    kill: str | None = None

    def start(self) -> multiprocessing.Process:
        return fork(_main, self)

    def run(self) -> Finished:
        process = self.start()
        try:
            process.join()
        finally:
            process.kill()
        printed = [(self.folder / name).read_text() for name in ("stdout", "stderr")]
        return Finished(process.exitcode, *printed)


def _main(command: Command) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(command.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    replicas.change_catalogs(command.urls)
    if command.kill:
        os.replace, os.rename = (_dying(move, command.kill) for move in (os.replace, os.rename))
    become(str(SCRIPT), *map(str, command.arguments))


def _dying(move, end):
    def moved(source, target):
        if str(target).endswith(end):
            os.kill(os.getpid(), signal.SIGKILL)
        move(source, target)

    return moved
