"""What ``ablate`` does with its options."""

import argparse
import importlib.util
import json
import shlex
import signal
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_outputs, write_json
from resmlp_mt.lab.ablations.recipe import read_recipe
from resmlp_mt.lab.ablations.running import RowFolder, TrainingFolder, digests, finish_rows, row_folders, time_left
from resmlp_mt.lab.ablations.table import Table, duration, make_table
from resmlp_mt.lab.ablations.training_log import read_curves
from resmlp_mt.lab.benchmarks.machine import describe
from resmlp_mt.score.bleu import sacre_bleu


def known(rows: Collection[str], names: list[str], what: str = "row") -> frozenset[str]:
    """The names, all of which must be there.

    Raises:
        UserError: one is not
    """
    for name in names:
        if name not in rows:
            raise UserError(f"{name}: no such {what}; there are: {', '.join(rows)}")
    return frozenset(names)


def save(table: Table, rows: list[RowFolder], out: Path) -> None:
    """Write the table's files."""
    pictures: list[str] = []
    markdown, as_json, *drawn = rows[0].recipe.table_files
    if importlib.util.find_spec("matplotlib"):
        from resmlp_mt.lab.ablations.curves import draw_curves
        from resmlp_mt.lab.ablations.plots import draw

        pictures = drawn
        draw(table, out / pictures[0])
        draw_curves({row.label: read_curves(row.log) for row in rows if row.finished}, out / pictures[1], table.title)
    else:
        print("no pictures without matplotlib: pip install matplotlib", file=sys.stderr)
    write_json(out / as_json, table.as_json())
    with atomic_write(out / markdown) as stream:
        stream.write(table.as_markdown(pictures))


def recorded(recipe: Path) -> dict[str, float]:
    """Processor seconds of a training of each row, by an earlier run's table beside the recipe; nothing without one."""
    try:
        rows = json.loads(recipe.with_suffix(".json").read_text(encoding="utf-8"))["figures"]
        return {str(row["name"]): float(row["processor_seconds"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def tell_time(waiting: Sequence[TrainingFolder], seconds: dict[str, float], jobs: int) -> None:
    """Print how many trainings are ahead and how long they take."""
    left = time_left(waiting, seconds, jobs)
    how_long = "how long they take is known when one is finished" if left is None else f"about {duration(left)}"
    if waiting:
        print(f"to run: {len(waiting)} trainings, {jobs} at a time, {how_long}", flush=True)


def check_data_path(path: Path) -> None:
    """Refuse a name that fairseq takes for something else: it splits at colons, and reads options and variables."""
    if str(path).startswith("-") or ":" in str(path) or "${" in str(path):
        raise UserError(f"{path}: fairseq would not take it for one folder: choose a name without :, ${{ and a first -")


def end(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


def train_all(rows: Sequence[TrainingFolder], jobs: int, anew: frozenset[str], planned: dict[str, float]) -> list[str]:
    """Finish trainings and tell of each as it ends, and of how long the others take.

    Args:
        jobs: how many at a time
        anew: the names of those that are trained again
        planned: processor seconds of a training, by name, as far as known before

    Returns:
        the labels of those that failed
    """
    machine = describe(threads=1, packages=())
    signal.signal(signal.SIGTERM, end)  # so that the trainings end with it
    waiting = [row for row in rows if row.name in anew or not row.is_trained]
    seconds = planned | {row.name: row.processor_seconds for row in rows if row.is_trained}
    tell_time(waiting, seconds, jobs)
    failed = []
    for row, error in finish_rows(rows, jobs, anew, machine):
        print(f"{row.label}: {error or 'finished'}", file=sys.stderr if error else sys.stdout, flush=True)
        if row in waiting:
            waiting.remove(row)
            if not error:
                seconds[row.name] = row.processor_seconds
            tell_time(waiting, seconds, jobs)
        if error:
            failed.append(row.label)
    return failed


def run(args: argparse.Namespace) -> None:
    """Train what is not finished and make the table."""
    recipe = read_recipe(args.recipe)
    sacre_bleu(recipe.langs[1])  # a missing package is found now, not after the training
    only, anew = known(recipe.rows, args.rows or list(recipe.rows)), known(recipe.rows, args.anew)
    if not anew <= only:
        raise UserError(f"--anew {' '.join(sorted(anew - only))}: not of the --rows: {', '.join(args.rows)}")
    reference = args.work / recipe.reference
    if not reference.is_file():
        raise UserError(f"{reference}: no such file: prepare the data first, or give its folder as --work")
    out = args.out or args.work / "ablations" / args.recipe.stem
    data = args.work / recipe.data
    for path in data, out:
        check_data_path(path)
    rows = row_folders(recipe, out, data, digests(data))
    outputs = [*(out / name for name in recipe.table_files), *(row.folder for row in rows)]
    check_outputs(outputs, [args.recipe, reference, data])

    failed = []
    if not args.table:
        failed = train_all([row for row in rows if row.name in only], args.jobs, anew, recorded(args.recipe))
    command = shlex.join(["resmlp-mt", "ablate", *sys.argv[1:]])
    table = make_table(recipe, rows, reference, {"Made by": f"`{command}`"})
    save(table, rows, out)
    print(table.as_text())
    if failed:
        raise UserError(f"not finished: {'; '.join(failed)}")
