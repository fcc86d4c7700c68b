"""What ``scale`` does with its options."""

import argparse

from resmlp_mt.ablations.command import check_data_path, known, train_all
from resmlp_mt.errors import UserError
from resmlp_mt.files import check_outputs
from resmlp_mt.scaling.cells import cell_folders, sampled
from resmlp_mt.scaling.grid import cells_of, plan, plan_table
from resmlp_mt.scaling.recipe import read_scaling_recipe
from resmlp_mt.tables import text_table


def run(args: argparse.Namespace) -> None:
    """Train what is not finished and make the page."""
    recipe = read_scaling_recipe(args.recipe)
    anew = known([cell.name for cell in cells_of(recipe)], args.anew, "cell")
    reference, data = args.work / recipe.reference, args.work / recipe.data
    if not reference.is_file():
        raise UserError(f"{reference}: no such file: prepare the data first, or give its folder as --work")
    out = args.out or args.work / "scaling" / args.recipe.stem
    for path in data, out:
        check_data_path(path)
    plans = plan(recipe, data)
    if args.dry_run:
        print(text_table(plan_table(plans)))
        return
    check_outputs([out], [args.recipe, reference, data])
    cells = cell_folders(recipe, plans, out, sampled(recipe, data, out))
    failed: list[str] = []
    if not args.table:
        failed = train_all(cells, args.jobs, anew, {cell.name: cell.plan.seconds for cell in cells})
    if failed:
        raise UserError(f"not finished: {'; '.join(failed)}")
