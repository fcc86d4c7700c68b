"""``tune:`` of a recipe: every row gets the same number of trials; short trainings come first, and the best continue.

Successive halving (Jamieson and Talwalkar 2016): in each round, trials are trained from scratch for the round's epochs;
with ``${updates}`` in the options the learning rate can be zero at their end. The trials with the best validation
perplexity, and always the row with its unchanged options, go on to the next round.
"""

import itertools
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import write_json, write_whole
from resmlp_mt.common.progress import markdown_table, text_table
from resmlp_mt.lab.ablations.recipe import Recipe, RowFolder
from resmlp_mt.lab.machine import facts
from resmlp_mt.lab.trainings import queue
from resmlp_mt.lab.trainings.log import read_log


@dataclass(frozen=True)
class Trial(RowFolder):
    """The folder of a trial in one round. It is not translated; a trial that diverges counts as the worst."""

    may_diverge: ClassVar[bool] = True
    finished = queue.TrainingFolder.finished

    @property
    def retrain_name(self) -> str:
        return self.name.rpartition(".")[0]  # the name of the row


@dataclass(frozen=True)
class Result:
    row: str
    trial: int  # 1: the row's options unchanged
    options: str  # those chosen for it, in addition to the row's own
    epochs: int
    perplexity: float | None  # on the validation set, after the last epoch; None: it diverged
    processor_seconds: float
    trained: dict[str, str]  # date and circumstances


def choices(recipe: Recipe, row: str) -> list[str]:
    """Return the options that each trial adds to its row's: first none, then fixed random ones; no two do the same."""
    space = {**recipe.tune.space.get("all", {}), **recipe.tune.space.get(row, {})}
    chosen: dict[str, dict[str, str]] = {}  # with the values of all options of the trial
    options, dice = "", random.Random(f"{recipe.tune.seed} {row}")
    for _ in range(1000):
        words = f"{recipe.options} {recipe.rows[row] or ''} {options}"
        values = dict(re.findall(r"(--\S+)((?:\s+(?!--)\S+)*)", words))  # the last of each option
        if values not in chosen.values():
            chosen[options] = values
        if len(chosen) == recipe.tune.trials:
            return [*chosen]
        options = " ".join(filter(None, (dice.choice(each or [""]) for each in space.values())))
    raise UserError(f"tune: {row} has fewer than {recipe.tune.trials} different trials: give it a larger space")


def round_of(recipe: Recipe, trials: Mapping[str, Sequence[int]], epochs: int) -> Recipe:
    """Return a round as a recipe whose rows are the trials ``ROW.NUMBER``; rows keep the ratio of their ``epochs``."""
    rows, budgets = {}, {}
    for row, numbers in trials.items():
        options = choices(recipe, row)
        for number in numbers:
            rows[f"{row}.{number}"] = f"{recipe.rows[row] or ''} {options[number - 1]}"
            budgets[f"{row}.{number}"] = max(1, round(epochs * recipe.epochs_of(row) / recipe.max_epoch))
    return replace(recipe, rows=rows, epochs=budgets, max_epoch=epochs, seeds=[], average=1)


def results(recipe: Recipe, trials: Sequence[Trial]) -> list[Result]:
    """Return the results of a round's finished trials, the best of each row first."""
    found = []
    for each in trials:
        if each.finished:
            row, _, number = each.name.rpartition(".")
            epochs, options = each.recipe.epochs_of(each.name), choices(recipe, row)[int(number) - 1]
            perplexity = None
            log = read_log(each.log)
            if not each.has_diverged() and log.is_finite(epochs):
                log.check_updates(recipe.updates_per_epoch)
                perplexity = log.figures(epochs).perplexity
            found.append(Result(row, int(number), options, epochs, perplexity, sum(each.runs), each.trained))
    return sorted(found, key=lambda each: (list(recipe.rows).index(each.row), each.perplexity or math.inf, each.trial))


def tune(
    recipe: Recipe, out: Path, data: Path, jobs: int, only: frozenset[str], retrain: frozenset[str], train: bool
) -> list[Result]:
    """Train the rows ``only``, round after round; return the finished trials of all rows, the last round first."""
    sums = queue.digests(data)
    trials = {row: list(range(1, recipe.tune.trials + 1)) for row in recipe.rows}

    def folders_of(epochs: int) -> list[Trial]:
        this = round_of(recipe, trials, epochs)
        return [Trial(name, recipe.seed, data, sums, out / f"{epochs}-epochs" / name, this) for name in this.rows]

    queue.empty(itertools.chain(*map(folders_of, recipe.tune.rounds)), retrain)
    found: list[Result] = []
    for epochs in recipe.tune.rounds:
        folders = folders_of(epochs)
        failed = queue.train_all([each for each in folders if each.retrain_name in only], jobs) if train else []
        done = results(recipe, folders)
        found = done + found
        if failed:
            raise UserError(f"not finished: {'; '.join(failed)}")
        going_on = {}
        for row, numbers in trials.items():
            finished = [each for each in done if each.row == row]  # the best first
            others = [each.trial for each in finished if each.trial != 1 and each.perplexity]
            if len(finished) == len(numbers):
                # a short round favours little dropout: so the unchanged row always goes on
                going_on[row] = [1, *others[: max(1, len(numbers) // recipe.tune.reduction)]]
        trials = going_on
    if not found:
        raise UserError(f"{recipe.title}: no trial is finished: see the logs of the trials")
    return found


def save(recipe: Recipe, found: Sequence[Result], out: Path, about: Mapping[str, str]) -> str:
    """Write all trials to ``tuning.json`` and ``tuning.md``; return them as text for the terminal."""
    values: dict[str, Any] = {"title": recipe.title, "about": dict(about), "tune": asdict(recipe.tune)}
    write_json(out / "tuning.json", {**values, "rows": recipe.rows, "trials": [asdict(each) for each in found]})
    cells = [["row", "trial", "epochs", "valid. perplexity", "processor time", "options beside the row's own"]]
    for each in found:
        perplexity = "diverged" if each.perplexity is None else f"{each.perplexity:.2f}"
        time, options = queue.duration(each.processor_seconds), each.options or "(as it stands)"
        cells.append([each.row, str(each.trial), str(each.epochs), perplexity, time, options])
    circumstances = sorted({f"Trained: {facts(each.trained)}." for each in found})
    parts = [f"# {recipe.title}", markdown_table(cells), *circumstances, f"{facts(about)}."]
    write_whole(out / "tuning.md", "\n\n".join(parts) + "\n")
    return f"{recipe.title}\n\n{text_table(cells)}"
