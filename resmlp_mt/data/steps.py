"""Finished steps on record, so that a run goes on where the last one was killed."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, unfinished_within
from resmlp_mt.common.locks import lock
from resmlp_mt.data.checksums import Checksums
from resmlp_mt.data.record import LOCK, Place, Record

RULES = 3  # raise it with every change of this package that changes what some step writes
PATIENCE = 2.0  # seconds for which the worker processes of a killed run may have its lock


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

    def __init__(self, place: Place):
        self._place = place
        self._record = Record(place.folder)
        self._times = JsonFile(place.folder / "times.json")
        self._checksums = Checksums(place.folder / ".checksums.json", ours=place.folder)
        self._seen: dict[str, Step] = {}

    @classmethod
    @contextlib.contextmanager
    def of_folder(cls, place: Place) -> Iterator["Steps"]:
        """Open a folder for one run at a time, and clear away what a killed run left unfinished.

        Raises:
            UserError: another run works in the folder, it cannot be written, or something of a user's is in the way:
                then nothing has been changed
        """
        place.check()
        try:
            place.folder.mkdir(parents=True, exist_ok=True)
            file = open(place.folder / LOCK, "a")  # noqa: SIM115 (closed below)
        except OSError as error:
            raise UserError(f"{place.folder}: cannot be written: {error.strerror or error}") from error
        with file:
            refusal = f"{place.folder}: another run is preparing it: wait for it, or choose another folder"
            lock(file, refusal, PATIENCE)
            with unfinished_within(place.folder):
                steps = cls(place)
                steps._record.check(place)  # checked again, since another run may have ended in between
                try:
                    yield steps
                except BaseException:
                    with contextlib.suppress(OSError, UserError):
                        steps._record.release()
                    raise

    def run(self, step: Step, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do ``work`` unless its outputs are there already, made from the same inputs by the same options.

        Returns:
            what ``work`` returned (now or when it ran), as JSON values; its ``"pairs"`` is how many pairs it worked on

        Raises:
            UserError: an input cannot be read, the work failed, or something of a user's is where it would write
        """
        self._seen[step.name] = step
        made_from = {
            "rules": RULES,
            "options": json.loads(json.dumps(step.options)),
            "inputs": [self._checksums.of(path) for path in step.inputs],
            "libraries": dict(map(_installed, step.libraries)),
        }
        done = self._record.result(step.name, made_from, self._sums(step))
        if done is not None:
            print(f"{step.name}: nothing changed, reused", flush=True)
            return done
        print(step.name, flush=True)
        # Checked again: hours may have passed, and the user may have put files there.
        self._record.check(replace(self._place, outputs=step.outputs))
        self._record.claim(step.outputs)
        begun = time.monotonic()
        result = work()
        self._took(step, time.monotonic() - begun, result["pairs"])
        self._record.finished(step.name, made_from, self._sums(step) or {}, result)
        self._checksums.save()
        return result

    def finish(self) -> None:
        """Remove what runs with other options have left, so that a folder does not depend on its past."""
        self._record.keep(self._seen, self._checksums.of)
        self._checksums.save()

    def _took(self, step: Step, seconds: float, pairs: int) -> None:
        rate = pairs / max(seconds, 1e-9)
        print(f"{step.name}: {pairs:,} pairs in {seconds:,.1f} s, {rate:,.0f} pairs/s", flush=True)
        self._times.values[step.name] = {"pairs": pairs, "seconds": round(seconds, 3), "pairs_per_second": round(rate)}
        self._times.save()

    def _sums(self, step: Step) -> dict[str, str] | None:
        if not all(path.is_file() for path in step.outputs):
            return None
        return {self._record.name_of(path): self._checksums.of(path) for path in step.outputs}


def _installed(alternatives: str) -> tuple[str, str]:
    for name in alternatives.split("|"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return name, metadata.version(name)
    raise UserError(f"{alternatives.split('|')[0]} is not installed: pip install {alternatives.split('|')[0]}")
