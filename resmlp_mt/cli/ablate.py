"""Train, translate and score the rows of a table of variants, several at a time, and show the table."""

import argparse
from pathlib import Path

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import add_trainings, command_parser

EPILOG = """
Every row has a folder, OUT/ROW: checkpoints, logs, average.pt, the translation. Run again after a break, each goes on
from its last checkpoint, to the weights of an unbroken run; a finished row is not run again, and one whose options or
data have changed since is refused unless named by --anew. The table is OUT/table.md, table.json and, with matplotlib,
table.png and training.png, which has a curve a training.

A recipe with seeds: [1, 2, 3] trains every row once a seed, in OUT/seed1/ROW and so on. One with subset: valid is
scored on the validation set, in OUT/table.valid.md and so on: choose there, and score the test set once, at the end.

examples:
  resmlp-mt ablate examples/ablations/variants.yaml --work work/multi30k --jobs 2
  resmlp-mt ablate examples/ablations/variants.yaml --work work/multi30k --rows paper none
  resmlp-mt ablate examples/ablations/variants.yaml --work work/multi30k --table
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("recipe", type=Path, help="the table's file, such as examples/ablations/variants.yaml")
    work = "the folder of the data, with data-bin and the reference (default: work/multi30k)"
    parser.add_argument("--work", type=named, default=Path("work/multi30k"), help=work)
    parser.add_argument("--out", type=named, help="the folder for all results (default: WORK/ablations/RECIPE)")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="run these only")
    what = add_trainings(parser, "ROW")
    what.add_argument("--table", action="store_true", help="run nothing: make the table of the rows that are finished")
    return parser


def main() -> None:
    args = get_parser().parse_args()
    from resmlp_mt.lab.ablations.command import run

    run(args)
