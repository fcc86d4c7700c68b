"""Finished steps on record, so that a run goes on where the last one was killed."""

import contextlib
import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike, atomic_write

RULES = 1  # raise it with every change of this package that changes what some step writes


def sha256_of(path: PathLike) -> str:
    """The sha256 of a file's bytes, in hexadecimal.

    Raises:
        UserError: the file cannot be read
    """
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


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
    """The steps of one folder, recorded in its ``steps.json``. Use through ``Steps.of_folder``."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._path = folder / "steps.json"
        self._record: dict[str, dict[str, Any]] = {}
        # A broken record is no record: every step is done again.
        with contextlib.suppress(OSError, ValueError):
            self._record = json.loads(self._path.read_text(encoding="utf-8"))

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
            what ``work`` returned (now or when it ran), as JSON values

        Raises:
            UserError: an input cannot be read, or the work failed
        """
        made_from = {
            "rules": RULES,
            "options": json.loads(json.dumps(step.options)),
            "inputs": [sha256_of(path) for path in step.inputs],
            "libraries": dict(map(_installed, step.libraries)),
        }
        done = self._record.get(step.name)
        if done and done["made_from"] == made_from and done["outputs"] == self._sums(step):
            print(f"{step.name}: nothing changed, reused", flush=True)
            return done["result"]
        print(step.name, flush=True)
        result = work()
        self._record[step.name] = {"made_from": made_from, "outputs": self._sums(step), "result": result}
        with atomic_write(self._path) as file:
            json.dump(self._record, file, indent=1)
        return result

    def _sums(self, step: Step) -> dict[str, str] | None:
        if not all(path.is_file() for path in step.outputs):
            return None
        return {str(path.relative_to(self.folder)): sha256_of(path) for path in step.outputs}


def _installed(alternatives: str) -> tuple[str, str]:
    for name in alternatives.split("|"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return name, metadata.version(name)
    raise UserError(f"{alternatives.split('|')[0]} is not installed: pip install {alternatives.split('|')[0]}")
