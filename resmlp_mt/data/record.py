"""``steps.json``: which files of a folder are of a preparation, and what they were made from."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, check_outputs, check_unfinished

NAME = "steps.json"
BESIDE = (NAME, "times.json", ".checksums.json", "summary.json")  # what every prepared folder has
LOCK = ".lock"  # nothing is ever written into it
# Beside the entries of steps, one that names what may be there without a finished step: outputs of a step that has
# begun, and those of earlier runs with other options.
OTHERS = "unfinished"
_INSIDE = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)  # names below a folder, none of them hidden


@dataclass(frozen=True)
class Place:
    """A folder to prepare in, and what is to be there.

    Attributes:
        folder: made if missing
        outputs: files that all steps will write
        folders: folders that steps will replace as a whole
        inputs: a user's files that they will read
        unnamed: outputs that earlier versions wrote, too, but did not put on record
        overwrite: files that are not on record may be written over
    """

    folder: Path
    outputs: Sequence[Path] = ()
    folders: Sequence[Path] = ()
    inputs: Sequence[Path] = ()
    unnamed: Sequence[Path] = ()
    overwrite: bool = False

    def check(self) -> None:
        """See that nothing of a user's would be lost, without a change to the folder: ``Record.check``."""
        Record(self.folder).check(self)


class Record:
    """The record of a folder. A file that is no such record is not ours.

    Args:
        folder: whose; need not exist
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._file = JsonFile(folder / NAME)
        if not all(map(_is_entry, self._file.values.values())) or any(name in BESIDE for name in self._names()):
            self._file.values = {}

    def check(self, place: Place) -> None:
        """See that nothing of a user's would be lost, without a change to the folder.

        Raises:
            UserError: an input would be written over or removed; an output is there that is not on record; or a
                symbolic link or something else is there that cannot be written through
        """
        named = self._names()
        files = [*(self.folder / name for name in BESIDE), *place.outputs]
        files_and_lock = [*files, self.folder / LOCK]
        written = [*files_and_lock, *place.folders]
        check_outputs([*written, check_unfinished(self.folder), *(self.folder / name for name in named)], place.inputs)
        ours = named | (set(BESIDE) if named else set())
        if any("sum" not in entry for name, entry in self._file.values.items() if name != OTHERS):
            ours.update(map(self.name_of, place.unnamed))  # the folder was made by an earlier version
        for path in written:
            self._check_way(path)
        for path in files_and_lock:
            if path.exists() and not path.is_file():
                raise UserError(f"{path}: is not a regular file, as is to be written there: move it away")
        for path in [*files, *(file for folder in place.folders for file in _files(folder))]:
            if os.path.lexists(path) and self.name_of(path) not in ours and not place.overwrite:
                raise UserError(
                    f"{path}: is not of an earlier preparation, and would be written over: move it away, choose "
                    "another --out, or allow it with --overwrite"
                )

    def result(self, name: str, made_from: dict[str, Any], outputs: dict[str, str] | None) -> dict[str, Any] | None:
        """What a finished step returned, if it is on record as made from the same, and its outputs are as they were."""
        entry = self._file.values.get(name, {})
        wanted = {"made_from": made_from, "outputs": outputs, "result": entry.get("result")}
        return entry["result"] if entry == {**wanted, "sum": _sum(wanted)} else None

    def differs(self, name: str, settings: dict[str, Any]) -> bool:
        """Whether a step is on record that finished with other settings than these."""
        made_from = self._file.values.get(name, {}).get("made_from")
        known: dict[str, Any] = made_from if isinstance(made_from, dict) else {}
        options = known.get("options")
        flat = {**known, **(options if isinstance(options, dict) else {})}
        return bool(known) and any(flat.get(key) != value for key, value in json.loads(json.dumps(settings)).items())

    @property
    def steps(self) -> list[str]:
        """The names of all finished steps."""
        return [name for name in self._file.values if name != OTHERS]

    def has(self, name: str) -> bool:
        """Whether a step is on record as finished, and what it wrote is there."""
        entry = self._file.values.get(name, {"outputs": {}})
        return bool(entry["outputs"]) and all((self.folder / output).is_file() for output in entry["outputs"])

    def claim(self, outputs: Iterable[Path]) -> None:
        """Name outputs before they appear: a run that is killed then leaves nothing that the next takes for foreign."""
        self._others.update(dict.fromkeys(map(self.name_of, outputs)))
        self._file.save()

    def release(self) -> None:
        """Take back the claims to outputs that have not appeared."""
        for name, sha256 in list(self._others.items()):
            if sha256 is None and not os.path.lexists(self.folder / name):
                del self._others[name]
        if self._names():
            self._file.save()
        else:
            (self.folder / NAME).unlink(missing_ok=True)

    def finished(self, name: str, made_from: dict[str, Any], outputs: dict[str, str], result: dict[str, Any]) -> None:
        """Put a step on record in the place of an earlier one of its name."""
        for output, sha256 in self._file.values.get(name, {}).get("outputs", {}).items():
            self._others.setdefault(output, sha256)
        entry = {"made_from": made_from, "outputs": outputs, "result": result}
        self._file.values[name] = {**entry, "sum": _sum(entry)}
        for output in outputs:
            self._others.pop(output, None)
        self._file.save()

    def keep(self, names: Iterable[str], sum_of: Callable[[Path], str]) -> None:
        """Forget all but these steps, and remove the files of the others that are as they were made."""
        values = self._file.values
        kept = {name: values[name] for name in names}
        outputs = {output for entry in kept.values() for output in entry["outputs"]}
        for entry in values.values():
            for output, sha256 in entry["outputs"].items():
                path = self.folder / output
                if output not in outputs and self._is_plain(path) and path.is_file() and sha256 in (None, sum_of(path)):
                    try:
                        path.unlink()
                    except OSError as error:
                        raise UserError(f"{path}: cannot be removed: {error.strerror or error}") from error
        self._file.values = kept
        self._file.save()

    def name_of(self, path: Path) -> str:
        """A file's name in the record."""
        return path.relative_to(self.folder).as_posix()

    @property
    def _others(self) -> dict[str, str | None]:
        return self._file.values.setdefault(OTHERS, {"outputs": {}})["outputs"]

    def _names(self) -> set[str]:
        return {name for entry in self._file.values.values() for name in entry["outputs"]}

    def _is_plain(self, path: Path) -> bool:
        """Whether no symbolic link stands between the folder and a file in it."""
        return os.path.realpath(path) == os.path.join(os.path.realpath(self.folder), self.name_of(path))

    def _check_way(self, output: Path) -> None:
        for part in [*reversed(Path(self.name_of(output)).parents[:-1]), Path(self.name_of(output))]:
            path = self.folder / part
            if path.is_symlink():
                raise UserError(f"{path}: is a symbolic link, through which nothing is written: remove it")
            if path != output and os.path.lexists(path) and not path.is_dir():
                raise UserError(f"{path}: is not a folder: move it away, or choose another --out")


def _files(path: Path) -> list[Path]:
    """What a folder holds at any depth, or the path itself where it is none."""
    if not path.is_dir():
        return [path]
    found = [Path(folder, name) for folder, folders, names in os.walk(path) for name in (*folders, *names)]
    return sorted(file for file in found if file.is_symlink() or not file.is_dir())


def _is_entry(entry: Any) -> bool:
    outputs = entry.get("outputs") if isinstance(entry, dict) else None
    return isinstance(outputs, dict) and all(
        _INSIDE.fullmatch(name) and (sha256 is None or isinstance(sha256, str)) for name, sha256 in outputs.items()
    )


def _sum(entry: dict[str, Any]) -> str:
    # An entry that was changed by hand does not count.
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
