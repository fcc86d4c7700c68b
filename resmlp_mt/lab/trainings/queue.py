"""A queue of trainings: a folder for each, several at the same time, and no work done twice.

fairseq's commands run in their own processes with one thread each; their processor time is measured.
"""

import contextlib
import datetime
import hashlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import IO, Any, ClassVar

import psutil
import torch

import resmlp_mt
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, PathLike, checksum, one_line_write_errors, read_lines
from resmlp_mt.common.workers import end_with_parent
from resmlp_mt.data.steps import lock_folder
from resmlp_mt.lab.machine import describe

USER_DIR = Path(resmlp_mt.__file__).parent
PAUSE = 3.0  # seconds between two reports of a command's processor time
BEAT = 0.2  # seconds between two checks whether a command has ended
NOT_FINITE = "the training has diverged", "FloatingPointError"  # marks in the log: of our models, of fairseq's


class Stopped(Exception):
    """Raised when the whole run has to stop."""


def locked(folder: Path) -> IO[str]:
    """Lock a folder for one run at a time. A command that the run starts also holds the lock, until it has ended."""
    return lock_folder(folder, f"{folder}: another run, or a training left over from one, works here: let it end")


def run(
    command: Sequence[PathLike],
    output: Path,
    log: Path,
    held: IO[str],
    stop: Event,
    tell: Callable[[float], None] = lambda seconds: None,
) -> None:
    """Run ``python -m MODULE ARGUMENTS`` to its end, or until ``stop``; ``output`` and ``log`` get stdout and stderr.

    The command keeps the lock ``held``. ``tell`` gets its processor time in seconds, every PAUSE and at the end.
    """
    with open(output, "ab") as out, open(log, "ab") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, command)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            env={**os.environ, "OMP_NUM_THREADS": "1"}, pass_fds=[held.fileno()],
            preexec_fn=end_with_parent,  # nobody would measure the processor time of an orphan
        )  # fmt: skip
    try:
        last = time.monotonic()
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if stop.wait(BEAT):
                raise Stopped
            if time.monotonic() > last + PAUSE:
                last = time.monotonic()
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
    """Return the processor time of a process and its finished children, in seconds."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system + times.children_user + times.children_system


def digests(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.glob("*") if path.suffix in (".bin", ".idx", ".txt"))
    if not paths:
        raise UserError(f"{folder}: no binarized data: prepare it first (for Multi30k, examples/multi30k/prepare.py)")
    return {path.name: checksum(path) for path in paths}


def code_digest() -> str:
    """Return the first digits of a checksum of the models' code, to recognize trainings with different code."""
    paths = (path for room in ("fairseq_plugin", "nn") for path in sorted((USER_DIR / room).glob("*.py")))
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:8]


@dataclass(frozen=True)
class TrainingFolder:
    """The folder of a training: checkpoints, logs, and what they were made from (``row.json``)."""

    name: str
    seed: int
    data: Path
    sums: dict[str, str] = field(repr=False)  # checksums of the data
    folder: Path
    may_diverge: ClassVar[bool] = False  # if so, a diverged training counts as finished

    @property
    def label(self) -> str:
        return self.name

    @property
    def retrain_name(self) -> str:
        """The name that --retrain takes for this training."""
        return self.name

    @property
    def options(self) -> list[str]:
        """The options of fairseq-train, without those that name files."""
        raise NotImplementedError

    @property
    def is_trained(self) -> bool:
        """Whether this has been trained to the end, by these options and from this data."""
        values = self.state.values
        return values.get("training") == self._training and bool(values.get("trained"))

    @property
    def finished(self) -> bool:
        return self.is_trained

    def after(self, held: IO[str], stop: Event) -> None:
        """Do what follows the training, such as translating."""

    def progress(self) -> str:
        """Return how far a running training is, for the terminal; an empty text if there is nothing to print."""
        return ""

    @property
    def log(self) -> Path:
        return self.folder / "train.log"

    @property
    def runs(self) -> list[float]:
        """The processor time of each run of the training; all but the last were interrupted."""
        return self.state.values["processor_seconds"]

    @property
    def trained(self) -> dict[str, str]:
        return self.state.values["trained"]

    @property
    def state(self) -> JsonFile:
        """The record of what has been done in the folder (``row.json``); empty if the file is not ours."""
        state = JsonFile(self.folder / "row.json")
        training = state.values.get("training")
        if not isinstance(training, dict) or training.keys() != {"options", "data"}:
            state.values = {}
        return state

    @property
    def _training(self) -> dict[str, Any]:
        return {"options": self.options, "data": self.sums}

    def empty(self) -> None:
        """Delete what earlier runs left in the folder. If this is killed, the folder needs ``--retrain`` again."""
        if not self.folder.exists():
            return
        with one_line_write_errors(self.folder), contextlib.closing(locked(self.folder)):
            self._check_ours()
            state = self.state
            state.values = {"training": {"options": None, "data": self.sums}}
            state.save()
            for path in sorted(self.folder.iterdir(), key=lambda path: path.name == "row.json"):  # the record last
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != ".lock":
                    path.unlink()

    def finish(self, stop: Event, about: Mapping[str, str]) -> None:
        """Do what is not done yet. After ``stop``, the next run resumes."""
        with contextlib.closing(locked(self.folder)) as held:
            try:
                self._check_ours()  # fairseq-train would resume from any checkpoints
                self._check_training()
                if not self.is_trained:
                    self._train(held, stop, about)
                if not self.finished:
                    self.after(held, stop)
            except OSError as error:
                raise UserError(f"{error.filename or self.folder}: {error.strerror or error}") from error

    def _check_ours(self) -> None:
        if not self.state.values and any(not path.name.startswith(".") for path in self.folder.iterdir()):
            raise UserError(
                f"{self.folder}: its row.json does not tell what is in it: remove the folder, or choose another --out"
            )

    def _check_training(self) -> None:
        before = self.state.values.get("training")
        if before is None or before == self._training:
            return
        changed = "options, see row.json" if before["data"] == self.sums else f"data than {self.data} has now"
        raise UserError(
            f"{self.folder}: trained with other {changed}: --retrain {self.retrain_name} trains it again, another "
            "--out keeps both"
        )

    def _train(self, held: IO[str], stop: Event, about: Mapping[str, str]) -> None:
        state = self.state
        state.values["training"] = self._training
        earlier = state.values.setdefault("processor_seconds", [])
        codes = state.values.setdefault("codes", [])
        codes += {code_digest()} - set(codes)  # a training that was killed may be resumed with other code
        places = state.values.setdefault("places", [])  # or on another machine
        places.append(dict(about))
        shown = ""

        def tell(seconds: float) -> None:
            nonlocal shown
            state.values["processor_seconds"] = [*earlier, seconds]
            state.save()
            now = self.progress() if self.log.exists() else ""
            if now != shown:
                shown = now
                print(f"{self.label}: {now}", flush=True)

        tell(0.0)
        command: list[PathLike] = ["fairseq_cli.train", self.data, "--user-dir", USER_DIR, "--save-dir", self.folder]
        command += ["--distributed-world-size", "1"]  # one GPU even if there are several: each would add to the batch
        try:
            run([*command, *self.options], self.log, self.log, held, stop, tell)
        except UserError:
            if not (self.may_diverge and self.has_diverged()):
                raise
        today = datetime.date.today().isoformat()
        names = dict.fromkeys(name for each in places for name in each)
        told = {name: "; ".join(dict.fromkeys(each[name] for each in places if name in each)) for name in names}
        state.values["trained"] = {"on": today, "the models' code": " ".join(codes), **told}
        state.save()

    def has_diverged(self) -> bool:
        """Whether the training has ended because its numbers were no longer finite."""
        return any(mark in line for line in read_lines(self.log) for mark in NOT_FINITE)


def empty(trainings: Iterable[TrainingFolder], retrain: Collection[str]) -> None:
    """Delete what is to be trained again, all of it first: a broken-off run then goes on without ``--retrain``."""
    for each in trainings:
        if each.retrain_name in retrain:
            each.empty()


def check_known(names: Collection[str], given: Sequence[str], what: str) -> frozenset[str]:
    for name in sorted({*given} - {*names}):
        raise UserError(f"{name}: no such {what}; there are: {', '.join(names)}")
    return frozenset(given)


def resumed(runs: Mapping[str, Sequence[float]]) -> list[str]:
    """Return a note on the trainings, by name, whose processor time is that of several runs; none without such."""
    names = ", ".join(f"{name} ({len(each)} runs)" for name, each in runs.items() if len(each) > 1)
    return [f"Resumed, so that processor time may have updates that were done twice: {names}."] if names else []


def duration(seconds: float) -> str:
    return f"{seconds / 3600:.2f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"


def train_all(trainings: Sequence[TrainingFolder], jobs: int, planned: Mapping[str, float] | None = None) -> list[str]:
    """Finish trainings in their order, ``jobs`` at the same time; return the labels of those that failed.

    ``planned``: the expected seconds of each, by name; without it, all are taken to be equally long.
    """

    def tell_time() -> None:
        done = [sum(each.runs) for each in trainings if each.is_trained]
        seconds = [planned[each.name] if planned else statistics.mean(done) for each in waiting if planned or done]
        how_long = f", about {duration(sum(seconds) / min(jobs, len(seconds)))}" if seconds else ""
        if waiting:
            print(f"to run: {len(waiting)} trainings, {jobs} at a time{how_long}", flush=True)

    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that the trainings end with it
    device = "cuda" if torch.cuda.is_available() else "cpu"  # as fairseq-train chooses
    about = {"rows at a time": str(jobs), **describe(device, threads=1, packages=())}
    waiting = [each for each in trainings if not each.is_trained]
    tell_time()
    failed, stop = [], Event()
    with ThreadPoolExecutor(min(jobs, len(trainings) or 1)) as pool:
        try:
            running = {pool.submit(each.finish, stop, about): each for each in trainings}
            for done in as_completed(running):
                each, error = running[done], done.exception()
                if error is not None and not isinstance(error, UserError):
                    raise error
                print(f"{each.label}: {error or 'finished'}", file=sys.stderr if error else sys.stdout, flush=True)
                if error:
                    failed.append(each.label)
                if each in waiting:
                    waiting.remove(each)
                    tell_time()
        finally:  # also after an interrupt
            stop.set()
            pool.shutdown(cancel_futures=True)
    return failed
