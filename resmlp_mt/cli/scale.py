"""How the loss falls with parameters, data and compute: train a grid of models, fit laws to it, make a page."""

import argparse

from resmlp_mt.cli.arguments import add_recipe, add_retrain, command_parser, run_of

EPILOG = """
A cell of the grid is a family (such as transformer, resmlp), a size and an amount of data. Each is trained in a folder
of its own, OUT/cells/CELL, the cheapest first, until its validation loss has stopped falling or its budget ends. Run
again after a break, it goes on; a finished cell is not run again. Each amount of data is a sample of WORK's training
set in OUT/data; larger samples hold the smaller ones, the validation set is one for all.

--dry-run tells what all cells are and cost, and trains nothing. The page is OUT/scaling.html, scaling.png, scaling.md
and scaling.json, of the cells that are finished; --table makes it again without training.

examples:
  resmlp-mt scale examples/scaling/tatoeba.yaml --work work/tatoeba --dry-run
  resmlp-mt scale examples/scaling/tatoeba.yaml --work work/tatoeba --jobs 2
  resmlp-mt scale examples/scaling/tatoeba.yaml --work work/tatoeba --table
"""


def scale() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG, run_of("scaling.page"))
    add_recipe(parser, "the study's file, such as examples/scaling/tatoeba.yaml", None, "scaling")
    what = add_retrain(parser, "CELL")
    what.add_argument("--dry-run", action="store_true", help="tell the cells and their cost, and end")
    return parser
