"""Finished steps on record, so that a run goes on where the last one was killed."""

import contextlib
import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from resmlp_mt.corpora.checksums import Checksums
from resmlp_mt.errors import UserError
from resmlp_mt.files import JsonFile, PathLike

RULES = 3  # raise it with every change of this package that changes what some step writes
NOT_COMPARED = (".checksums.json", "times.json")  # files of a folder that differ from run to run


@dataclass(frozen=True)
class Step:
    """One step: what it reads, what it writes, and everything else that its result depends on.

    Attributes:
        name: unique within a folder
        inputs: files read
        outputs: files written, each one atomically, all inside the folder
        options: whatever else decides the outputs' bytes, as JSON values
        libraries: distributions whose version decides too; of alternatives (``"a|b"``) the installed one
    """

    name: str
    inputs: Sequence[Path]
    outputs: Sequence[Path]
    options: dict[str, Any]
    libraries: Sequence[str] = ()


class Steps:
    """The steps of one folder, recorded in its ``steps.json``. Use through ``Steps.of_folder``.

    How long each step took when it ran is in ``times.json``: that differs from run to run, and nothing else does.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._record = JsonFile(folder / "steps.json")
        self._times = JsonFile(folder / "times.json")
        self._checksums = Checksums(folder / ".checksums.json", ours=folder)
        self._seen: dict[str, Step] = {}

    @classmethod
    @contextlib.contextmanager
    def of_folder(cls, folder: PathLike) -> Iterator["Steps"]:
        """Open a folder for one run at a time, and clear away what a killed run left unfinished.

        Raises:
            UserError: another run works in the folder, or it cannot be written
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = open(folder / ".lock", "w")  # noqa: SIM115 (closed below)
        except OSError as error:
            raise UserError(f"{folder}: cannot be written: {error.strerror or error}") from error
        with lock:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UserError(
                    f"{folder}: another run is preparing it: wait for it, or choose another folder"
                ) from error
            for unfinished in folder.rglob(".*.tmp"):
                # (a command that outlived its killed parent may still be writing there)
                if unfinished.is_dir():
                    shutil.rmtree(unfinished, ignore_errors=True)
                else:
                    unfinished.unlink(missing_ok=True)
            yield cls(folder)

    def run(self, step: Step, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do ``work`` unless its outputs are there already, made from the same inputs by the same options.

        Returns:
            what ``work`` returned (now or when it ran), as JSON values; its ``"pairs"`` is how many pairs it worked on

        Raises:
            UserError: an input cannot be read, or the work failed
        """
        self._seen[step.name] = step
        made_from = {
            "rules": RULES,
            "options": json.loads(json.dumps(step.options)),
            "inputs": [self._checksums.of(path) for path in step.inputs],
            "libraries": dict(map(_installed, step.libraries)),
        }
        done = self._record.values.get(step.name)
        if done and done["made_from"] == made_from and done["outputs"] == self._sums(step):
            print(f"{step.name}: nothing changed, reused", flush=True)
            return done["result"]
        print(step.name, flush=True)
        begun = time.monotonic()
        result = work()
        self._took(step, time.monotonic() - begun, result["pairs"])
        self._record.values[step.name] = {"made_from": made_from, "outputs": self._sums(step), "result": result}
        self._checksums.save()
        self._record.save()
        return result

    def finish(self) -> None:
        """Remove what runs with other options have left, so that a folder does not depend on its past."""
        kept = {path for step in self._seen.values() for path in step.outputs}
        for name, done in self._record.values.items():
            for output in done["outputs"] if name not in self._seen else ():
                if self.folder / output not in kept:
                    (self.folder / output).unlink(missing_ok=True)
        self._record.values = {name: self._record.values[name] for name in self._seen}
        self._record.save()
        self._checksums.save()

    def _took(self, step: Step, seconds: float, pairs: int) -> None:
        rate = pairs / max(seconds, 1e-9)
        print(f"{step.name}: {pairs:,} pairs in {seconds:,.1f} s, {rate:,.0f} pairs/s", flush=True)
        self._times.values[step.name] = {"pairs": pairs, "seconds": round(seconds, 3), "pairs_per_second": round(rate)}
        self._times.save()

    def _sums(self, step: Step) -> dict[str, str] | None:
        if not all(path.is_file() for path in step.outputs):
            return None
        return {str(path.relative_to(self.folder)): self._checksums.of(path) for path in step.outputs}


def _installed(alternatives: str) -> tuple[str, str]:
    for name in alternatives.split("|"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return name, metadata.version(name)
    raise UserError(f"{alternatives.split('|')[0]} is not installed: pip install {alternatives.split('|')[0]}")
