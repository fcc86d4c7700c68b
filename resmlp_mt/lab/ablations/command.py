"""What ``ablate`` does with its options."""

import argparse
import importlib.util
import json
import shlex
import sys
from pathlib import Path

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_outputs, write_json
from resmlp_mt.lab.ablations.recipe import RowFolder, read_recipe, row_folders
from resmlp_mt.lab.ablations.table import Table, make_table
from resmlp_mt.lab.trainings.log import draw_curves, read_curves
from resmlp_mt.lab.trainings.queue import check_places, known, train_all
from resmlp_mt.score.bleu import sacre_bleu


def save(table: Table, rows: list[RowFolder], out: Path) -> None:
    """Write the table's files."""
    pictures: list[str] = []
    markdown, as_json, *drawn = rows[0].recipe.table_files
    if importlib.util.find_spec("matplotlib"):
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


def run(args: argparse.Namespace) -> None:
    """Train what is not finished and make the table."""
    recipe = read_recipe(args.recipe)
    sacre_bleu(recipe.langs[1])  # a missing package is found now, not after the training
    only, anew = (known(recipe.rows, given, "row") for given in (args.rows or list(recipe.rows), args.retrain))
    if not anew <= only:
        raise UserError(f"--retrain {' '.join(sorted(anew - only))}: not of the --rows: {', '.join(args.rows)}")
    out = args.out or args.work / "ablations" / args.recipe.stem
    reference, data = args.work / recipe.reference, args.work / recipe.data
    check_places(reference, data, out)
    rows = row_folders(recipe, out, data)
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
