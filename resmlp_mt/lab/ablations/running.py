"""Trainings in folders of their own, done if they were not done already, several at a time.

A row of a table is one, once a seed: trained, averaged, translated.
"""

import contextlib
import datetime
import hashlib
import math
import os
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import IO, Any, TypeVar

import resmlp_mt
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, PathLike
from resmlp_mt.data.checksums import sha256_of
from resmlp_mt.fairseq_plugin.checkpoints.averaging import average_checkpoints, last_checkpoints, save_checkpoint
from resmlp_mt.lab.ablations.processes import locked, run
from resmlp_mt.lab.ablations.recipe import Recipe
from resmlp_mt.lab.ablations.training_log import check_updates

USER_DIR = Path(resmlp_mt.__file__).parent


def digests(folder: Path) -> dict[str, str]:
    """The checksums of the files of a folder of binarized data.

    Raises:
        UserError: there is none
    """
    paths = sorted(path for path in folder.glob("*") if path.suffix in (".bin", ".idx", ".txt"))
    if not paths:
        raise UserError(f"{folder}: no binarized data: prepare it first (for Multi30k, examples/multi30k/prepare.py)")
    return {path.name: sha256_of(path) for path in paths}


def code_digest() -> str:
    """The first digits of a checksum of the models' code, which shows rows that other code has trained."""
    code = hashlib.sha256()
    for room in "fairseq_plugin", "nn":
        for path in sorted((USER_DIR / room).glob("*.py")):
            code.update(path.read_bytes())
    return code.hexdigest()[:8]


def circumstances(about: dict[str, str]) -> dict[str, str]:
    """What is kept with a training that has ended."""
    return {"on": datetime.date.today().isoformat(), "the models' code": code_digest(), **about}


def row_folders(recipe: Recipe, out: Path, data: Path, sums: dict[str, str]) -> list["RowFolder"]:
    """The folders of a table: OUT/ROW, or OUT/seedN/ROW where the recipe has ``seeds``; seed by seed.

    Args:
        out: the folder for all results
        data: the binarized data
        sums: its checksums
    """
    if not recipe.seeds:
        return [RowFolder(name, recipe.seed, data, sums, out / name, recipe) for name in recipe.rows]
    return [
        RowFolder(name, seed, data, sums, out / f"seed{seed}" / name, recipe)
        for seed in recipe.seeds
        for name in recipe.rows
    ]


@dataclass(frozen=True)
class TrainingFolder:
    """The folder of a training.

    Attributes:
        name: what ``--anew`` calls it
        seed: of the training
        data: the binarized data
        sums: its checksums
        folder: where all of this is: checkpoints, logs, and what they were made from (``row.json``)
    """

    name: str
    seed: int
    data: Path
    sums: dict[str, str] = field(repr=False)
    folder: Path

    @property
    def label(self) -> str:
        """What the training is called."""
        raise NotImplementedError

    @property
    def options(self) -> list[str]:
        """The options of fairseq-train, those apart that name files."""
        raise NotImplementedError

    @property
    def is_trained(self) -> bool:
        """Whether it has been trained to the end, by these options and from this data."""
        return self._state.values.get("training") == self._training and bool(self._state.values.get("trained"))

    @property
    def finished(self) -> bool:
        """Whether all is done."""
        return self.is_trained

    def after(self, state: JsonFile, lock: IO[str], stop: Event) -> None:
        """What is done after the training."""

    def progress(self) -> str:
        """How far a training is that goes on, for the terminal; nothing to say nothing."""
        return ""

    @property
    def log(self) -> Path:
        """What fairseq-train printed."""
        return self.folder / "train.log"

    @property
    def processor_seconds(self) -> float:
        """The processor time of the training, that of its broken-off runs included."""
        return sum(self._state.values["processor_seconds"])

    @property
    def trained(self) -> dict[str, str]:
        """Date and circumstances of the training."""
        return self._state.values["trained"]

    def finish(self, stop: Event, anew: bool = False, about: dict[str, str] | None = None) -> None:
        """Do what is not done yet.

        Args:
            stop: ends it when set; run again, it goes on
            anew: forget all that is there
            about: the circumstances of a training, to be kept with it

        Raises:
            UserError: a step failed, or the folder holds a training of other options or data
            Stopped: it was ended
        """
        with contextlib.closing(locked(self.folder)) as lock:
            try:
                self._check_folder()
                if anew:
                    self._empty()
                state = self._state
                self._check(state.values.get("training"))
                if not self.is_trained:
                    self._train(state, lock, stop, about or {})
                if not self.finished:
                    self.after(state, lock, stop)
            except OSError as error:
                raise UserError(f"{error.filename or self.folder}: {error.strerror or error}") from error

    @property
    def _state(self) -> JsonFile:
        state = JsonFile(self.folder / "row.json")
        if not _is_record(state.values):
            state.values = {}
        return state

    def _check_folder(self) -> None:
        """Refuse a folder with other files: fairseq-train would go on from any checkpoints in it."""
        if not self._state.values and any(not path.name.startswith(".") for path in self.folder.iterdir()):
            raise UserError(
                f"{self.folder}: its row.json does not tell what is in it: remove the folder, or choose another --out"
            )

    @property
    def _training(self) -> dict[str, Any]:
        return {"options": self.options, "data": self.sums}

    def _check(self, before: dict[str, Any] | None) -> None:
        if before is None or before == self._training:
            return
        if before["data"] != self.sums:
            changed = f"other data than {self.data} has now"
        else:
            then, now = _by_name(before["options"]), _by_name(self._training["options"])
            different = [name for name in {**then, **now} if then.get(name) != now.get(name)]
            was, now_is = (" ".join(each.get(name, f"no {name}") for name in different) for each in (then, now))
            changed = f"other options ({was}, now {now_is})"
        raise UserError(
            f"{self.folder}: trained with {changed}: --anew {self.name} trains it again, another --out keeps both"
        )

    def _train(self, state: JsonFile, lock: IO[str], stop: Event, about: dict[str, str]) -> None:
        state.values["training"] = self._training
        earlier = state.values.setdefault("processor_seconds", [])

        told = ""

        def tell(seconds: float) -> None:
            nonlocal told
            state.values["processor_seconds"] = [*earlier, seconds]
            state.save()
            now = self.progress() if self.log.exists() else ""
            if now and now != told:
                told = now
                print(f"{self.label}: {now}", flush=True)

        tell(0.0)
        command: list[PathLike] = ["fairseq_cli.train", self.data, "--user-dir", USER_DIR, "--save-dir", self.folder]
        run([*command, *self.options], self.log, self.log, lock, stop, tell)
        state.values["trained"] = circumstances(about)
        state.save()

    def _empty(self) -> None:
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != ".lock":
                path.unlink()


@dataclass(frozen=True)
class RowFolder(TrainingFolder):
    """The folder of a row with a seed: beside a training's files, ``average.pt`` and translations.

    Attributes:
        recipe: the table's
    """

    recipe: Recipe

    @property
    def label(self) -> str:
        """What the training is called: the row, and the seed where the recipe has several."""
        return f"{self.name}, seed {self.seed}" if self.recipe.seeds else self.name

    @property
    def options(self) -> list[str]:
        return self.recipe.training_options(self.name, self.seed)

    @property
    def translation(self) -> Path:
        """What fairseq-generate printed."""
        return self.folder / f"{self.recipe.subset}.txt"

    @property
    def average(self) -> Path:
        """The checkpoint that translates."""
        return self.folder / "average.pt"

    @property
    def finished(self) -> bool:
        """Whether there is a translation, made with the recipe's options."""
        search = _searches(self._state.values).get(self.recipe.subset)
        return self.is_trained and search == self._search and self.translation.is_file()

    def progress(self) -> str:
        epoch = check_updates(self.log, self.recipe.updates_per_epoch)
        return f"epoch {epoch} of {self.recipe.epochs_of(self.name)}" if epoch else ""

    @property
    def _search(self) -> list[str]:
        return [*self.recipe.search, "--gen-subset", self.recipe.subset]

    def after(self, state: JsonFile, lock: IO[str], stop: Event) -> None:
        recipe = self.recipe
        paths = last_checkpoints(self.folder, recipe.average, "epoch", upper_bound=recipe.epochs_of(self.name))
        save_checkpoint(average_checkpoints(paths), self.average)
        part, log = self.translation.with_suffix(".txt.part"), self.folder / "generate.log"
        for path in part, log:
            path.unlink(missing_ok=True)
        source, target = recipe.langs
        command: list[PathLike] = [
            *("fairseq_cli.generate", self.data, "--user-dir", USER_DIR, "--path", self.average),
            *("--source-lang", source, "--target-lang", target, "--required-batch-size-multiple", "1", *self._search),
        ]
        run(command, part, log, lock, stop)
        os.replace(part, self.translation)
        state.values["search"] = _searches(state.values) | {recipe.subset: self._search}
        state.save()


def _is_record(values: Any) -> bool:
    """Whether row.json holds what ``RowFolder`` writes: another program's file could have the name."""
    if not isinstance(values, dict) or not isinstance(values.get("training"), dict):
        return False
    seconds, search = values.get("processor_seconds"), values.get("search", {})
    return (
        _texts(values["training"].get("options"), list)
        and _texts(values["training"].get("data"), dict)
        and isinstance(seconds, list)
        and all(isinstance(each, int | float) and 0 <= each < math.inf for each in seconds)
        and _texts(values.get("trained", {}), dict)
        and all(_texts(each, list) for each in (search.values() if isinstance(search, dict) else [search]))
    )


def _searches(values: dict[str, Any]) -> dict[str, list[str]]:
    """The options of each subset's translation; earlier versions kept those of one alone, which end with its name."""
    search = values.get("search", {})
    return search if isinstance(search, dict) else {search[-1]: search} if search else {}


def _texts(values: Any, container: type) -> bool:
    texts = values.values() if isinstance(values, dict) else values
    return isinstance(values, container) and all(isinstance(text, str) for text in texts)


def _by_name(options: list[str]) -> dict[str, str]:
    """Each option with its values; the last one of a kind counts."""
    found: dict[str, str] = {}
    name = ""
    for word in options:
        if word.startswith("--"):
            name = found[word] = word
        else:
            name = found[name.split()[0]] = f"{name} {word}"
    return found


Folder = TypeVar("Folder", bound=TrainingFolder)


def time_left(waiting: Sequence[TrainingFolder], seconds: Mapping[str, float], jobs: int) -> float | None:
    """About how many seconds rows will take.

    Args:
        waiting: the rows
        seconds: that rows of the table took, by name; a row without takes their mean
        jobs: rows at a time

    Returns:
        None where no row tells
    """
    if not seconds:
        return None
    usual = statistics.mean(seconds.values())
    return sum(seconds.get(row.name, usual) for row in waiting) / min(jobs, len(waiting) or 1)


def finish_rows(
    rows: Sequence[Folder], jobs: int, anew: frozenset[str] = frozenset(), about: dict[str, str] | None = None
) -> Iterator[tuple[Folder, str]]:
    """Finish rows, in their order, several at a time, and say so.

    Args:
        jobs: how many at a time, each of one thread
        anew: the names of those that are trained again
        about: the circumstances of a training, to be kept with it

    Yields:
        each row as it ends, with what went wrong or nothing; the others go on
    """
    stop = Event()
    with ThreadPoolExecutor(min(jobs, len(rows) or 1)) as pool:
        try:
            running = {
                pool.submit(row.finish, stop, row.name in anew, {"rows at a time": str(jobs), **(about or {})}): row
                for row in rows
            }
            for done in as_completed(running):
                error = done.exception()
                if error is not None and not isinstance(error, UserError):
                    raise error
                yield running[done], str(error or "")
        finally:  # also if the caller was interrupted
            stop.set()
            pool.shutdown(cancel_futures=True)
