"""How the loss falls with parameters, data and compute: train a grid of models, fit laws to it, make a page."""

import argparse
from pathlib import Path

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import add_trainings, command_parser

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


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("recipe", type=Path, help="the study's file, such as examples/scaling/tatoeba.yaml")
    work = "the folder of the data, with data-bin and the reference"
    parser.add_argument("--work", type=named, required=True, help=work)
    parser.add_argument("--out", type=named, help="the folder for all results (default: WORK/scaling/RECIPE)")
    what = add_trainings(parser, "CELL")
    what.add_argument("--dry-run", action="store_true", help="tell the cells and their cost, and end")
    what.add_argument("--table", action="store_true", help="train nothing: make the page of what is finished")
    return parser


def main() -> None:
    args = get_parser().parse_args()
    from resmlp_mt.lab.scaling.command import run

    run(args)
