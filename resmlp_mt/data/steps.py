"""The record of finished steps, by which a run continues where the last one was killed; the disk space they need."""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, check_outputs, checksum, lock, one_line_write_errors, remove_unfinished

RULES = 5  # raise it when a change of this package changes what a step writes
PATIENCE = 2.0  # seconds for which the worker processes of a killed run may still hold its lock
NAME = "steps.json"  # the file that marks a folder as ours
BESIDE = (NAME, "times.json", "summary.json")  # files that every prepared folder has


@dataclass(frozen=True)
class Step:
    """One step: what it reads, what it writes, and everything else that its result depends on."""

    name: str  # unique within a folder
    inputs: Sequence[Path]
    outputs: Sequence[Path]  # each is written atomically; all are inside the folder
    options: dict[str, Any]  # whatever else decides the outputs' bytes, as JSON values
    libraries: Sequence[str] = ()  # distributions whose versions decide them, too


class Steps:
    """The steps of one folder, recorded in its ``steps.json``. Use through ``Steps.of_folder``.

    The record names all files that are ours, before they appear. For each finished step it has the checksums of inputs
    and outputs, the options, and library versions. ``times.json`` has the time of each step: it alone differs from run
    to run.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._file = JsonFile(folder / NAME)
        if not (isinstance(self._file.values.get("files"), list) and isinstance(self._file.values.get("steps"), dict)):
            self._file.values = {"files": [], "steps": {}}
        self._times = JsonFile(folder / "times.json")
        self._sums: dict[Path, str] = {}
        self._seen: dict[str, Step] = {}

    @classmethod
    @contextlib.contextmanager
    def of_folder(
        cls, folder: Path, outputs: Sequence[Path], inputs: Sequence[Path] = (), overwrite: bool = False
    ) -> Iterator["Steps"]:
        """Lock a folder for this run, and remove unfinished files of a killed run.

        If another run works in the folder, or a file of the user is in the way, nothing is changed.

        Args:
            outputs: all files that the steps will write; files of an earlier preparation in ``data-bin`` are removed
            inputs: files of the user that the steps will read
            overwrite: allow writing over files that are not on record
        """
        cls(folder)._check(outputs, inputs, overwrite)
        refusal = f"{folder}: another run is preparing it: wait for it, or choose another folder"
        with lock_folder(folder, refusal, PATIENCE):
            steps = cls(folder)
            steps._check(outputs, inputs, overwrite)  # again: another run may have ended in between
            names = sorted({*steps._file.values["files"], *BESIDE, *steps._names(outputs)})
            for path in filter(steps._is_inside, (folder / name for name in ("data-bin", *names))):
                remove_unfinished(path)
            steps._file.values["files"] = names
            steps._file.save()
            try:
                yield steps
            except BaseException:
                # missing files go off the record: a file that the user puts there later must not count as ours
                there = [name for name in steps._file.values["files"] if os.path.lexists(folder / name)]
                steps._file.values["files"] = there
                with contextlib.suppress(UserError):  # such as a full disk: the error that ended the run is reported
                    steps._file.save()
                raise

    def run(self, step: Step, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do ``work``, unless its outputs exist already, made from the same inputs with the same options.

        Return what ``work`` returned (now or when it ran), as JSON values; its ``"pairs"``: how many it worked on.
        """
        self._seen[step.name] = step
        made_from = {
            "rules": RULES,
            "options": json.loads(json.dumps(step.options)),
            "inputs": [self._sum(path) for path in step.inputs],
            "libraries": {name: metadata.version(name) for name in step.libraries},
        }
        done = self._file.values["steps"].get(step.name)
        is_there = done is not None and all(path.is_file() for path in step.outputs)
        if is_there and done["made_from"] == made_from and done["outputs"] == self._output_sums(step):
            print(f"{step.name}: nothing changed, reused", flush=True)
            return done["result"]
        print(step.name, flush=True)
        begun = time.monotonic()
        result = work()
        seconds, pairs = max(time.monotonic() - begun, 1e-9), result["pairs"]
        rate = round(pairs / seconds)
        if pairs:
            print(f"{step.name}: {pairs:,} pairs in {seconds:,.1f} s, {rate:,} pairs/s", flush=True)
        for path in step.outputs:
            self._sums.pop(path, None)
        stamp = {"made_from": made_from, "outputs": self._output_sums(step), "result": result}
        self._file.values["steps"][step.name] = stamp
        self._file.save()
        self._times.values[step.name] = {"pairs": pairs, "seconds": round(seconds, 3), "pairs_per_second": rate}
        self._times.save()
        return result

    def finish(self) -> None:
        """Remove files that runs with other options left, so that the folder depends on this run alone."""
        values = self._file.values
        ours = {*BESIDE, *self._names([path for step in self._seen.values() for path in step.outputs])}
        for name in set(values["files"]) - ours:
            path = self._folder / name
            if path.is_file() and self._is_inside(path):
                path.unlink()
        values.update(files=sorted(ours), steps={name: values["steps"][name] for name in self._seen})
        self._file.save()

    def _check(self, outputs: Sequence[Path], inputs: Sequence[Path], overwrite: bool) -> None:
        """Check that no file of the user would be lost."""
        data_bin = self._folder / "data-bin"
        written = [*outputs, *(self._folder / name for name in BESIDE)]
        ours = [self._folder / name for name in self._file.values["files"]]
        check_outputs([*written, data_bin, *ours], inputs)
        others = (file for file in (data_bin, *data_bin.rglob("*")) if file.is_symlink() or not file.is_dir())
        for path in [*written, *others]:
            name = path.relative_to(self._folder)
            for part in (path, *(self._folder / parent for parent in name.parents[:-1])):
                if part.is_symlink():
                    raise UserError(f"{part}: is a symbolic link, through which nothing is written: remove it")
            allowed = path in written  # other files of data-bin would be removed: --overwrite is not for these
            is_ours = name.as_posix() in self._file.values["files"]
            if os.path.lexists(path) and not is_ours and not (overwrite and allowed):
                allow = ", or allow it with --overwrite" if allowed else ""
                raise UserError(
                    f"{path}: is not of an earlier preparation, and would be lost: move it away, choose another "
                    f"--out{allow}"
                )

    def _is_inside(self, path: Path) -> bool:
        """Return whether a path on record is inside the folder, not behind a symbolic link of the user."""
        return path.resolve().is_relative_to(self._folder.resolve())

    def _names(self, paths: Sequence[Path]) -> list[str]:
        return [path.relative_to(self._folder).as_posix() for path in paths]

    def _sum(self, path: Path) -> str:
        # Computed once per run: the lock protects our files, and inputs count as they were at first.
        if path not in self._sums:
            self._sums[path] = checksum(path)
        return self._sums[path]

    def _output_sums(self, step: Step) -> dict[str, str]:
        return dict(zip(self._names(step.outputs), map(self._sum, step.outputs), strict=True))


# Bytes that a preparation writes, as multiples of its raw text. Measured on Multi30k, 4,000 merges: tokenized 1.02,
# subwords 1.12, data-bin 0.66 (less where sentences are longer); rounded up.
WORK = {"tokenized": 1.1, "subwords": 1.2, "data-bin": 0.7}


def disk(out: Path, text: int) -> tuple[int, int]:
    """Return the bytes still needed in ``out`` to prepare ``text`` bytes of raw text, and the free ones on its disk."""
    folders = [folder for name in (*WORK, ".data-bin.*.tmp") for folder in out.glob(name)]
    there = sum(path.lstat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
    existing = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    return max(0, round(sum(WORK.values()) * text) - there), shutil.disk_usage(existing).free


def check_disk(out: Path, text: int, download: int = 0) -> None:
    """Check that the disk has room to prepare ``text`` bytes of raw text, and for ``download`` bytes of downloads."""
    work, free = disk(out, text)
    if (needed := download + work) > free:
        parts = f"{format_bytes(download)} of downloads, {format_bytes(text)} of raw text"
        problem = f"{format_bytes(free)} free on its disk, but about {format_bytes(needed)} needed ({parts})"
        raise UserError(f"{out}: {problem}: make room, choose another folder, or try a small --sample")


def format_bytes(number: int) -> str:
    """Format a number of bytes, such as ``"2.6 GB"``."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"


def lock_folder(folder: Path, refusal: str, patience: float = 0.0) -> IO[str]:
    """Make a folder if it is missing, lock its file ``.lock``, and return that file, open."""
    with one_line_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".lock", "a")  # noqa: SIM115 (closed by the caller)
    lock(file, refusal, patience)
    return file
