"""What ``scale`` does with its options."""

import argparse
import datetime
import shlex
import sys
from collections.abc import Sequence

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import check_outputs, read_lines
from resmlp_mt.common.tables import facts, text_table
from resmlp_mt.data.binarized import lengths, read_dictionary
from resmlp_mt.lab.machine import describe
from resmlp_mt.lab.scaling.fit import fit_families
from resmlp_mt.lab.scaling.grid import cells_of, plan, plan_table
from resmlp_mt.lab.scaling.page import FILES, Study, save
from resmlp_mt.lab.scaling.recipe import read_scaling_recipe
from resmlp_mt.lab.scaling.runs import CellFolder, cell_folders, read_run
from resmlp_mt.lab.trainings.queue import check_places, known, train_all


def run(args: argparse.Namespace) -> None:
    """Train what is not finished and make the page."""
    recipe = read_scaling_recipe(args.recipe)
    anew = known([cell.name for cell in cells_of(recipe)], args.retrain, "cell")
    out = args.out or args.work / "scaling" / args.recipe.stem
    reference, data = args.work / recipe.reference, args.work / recipe.data
    check_places(reference, data, out)
    plans = plan(recipe, data)
    if args.dry_run:
        print(text_table(plan_table(plans)))
        return
    check_outputs([out, *(out / name for name in FILES)], [args.recipe, reference, data])
    text, target = list(read_lines(reference)), lengths(data, "valid", recipe.langs)[1]
    if len(text) != len(target) or not any(text):
        raise UserError(f"{reference}: not the text of the validation set, which has {len(target):,} sentences")
    cells = cell_folders(recipe, plans, out, data)
    failed: list[str] = []
    if not args.table:
        failed = train_all(cells, args.jobs, anew, {cell.name: cell.plan.seconds for cell in cells})
    vocabulary = len(read_dictionary(data / f"dict.{recipe.langs[1]}.txt"))
    runs = [read_run(cell, vocabulary) for cell in cells if cell.finished]
    if not runs:
        raise UserError(f"{recipe.title}: no cell is finished: see the logs of the cells")
    families = fit_families(runs, list(recipe.families))
    tokens_a_character = int(target.sum()) / sum(map(len, text))
    study = Study(recipe.title, len(cells), runs, families, tokens_a_character, about(cells))
    save(study, out)
    print(f"{study.notes()[0]}\nthe page: {out / FILES[0]}")
    if failed:
        raise UserError(f"not finished: {'; '.join(failed)}")


def about(cells: Sequence[CellFolder]) -> dict[str, str]:
    """How and where it was made."""
    trained = sorted({facts(cell.trained) for cell in cells if cell.finished})
    return {
        "command": shlex.join(["resmlp-mt", "scale", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "machine": describe(threads=1)["processor"],
        "trained": "; ".join(trained[:3]),
    }
