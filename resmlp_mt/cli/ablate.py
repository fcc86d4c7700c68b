"""Train, translate and score the rows of a table of variants, several at a time, and show the table."""

import argparse
from pathlib import Path

from resmlp_mt.cli.arguments import add_recipe, add_retrain, command_parser, run_of

EPILOG = """
Every row has a folder, OUT/ROW: checkpoints, logs, average.pt, the translation. Run again after a break, each goes on
from its last checkpoint, to the weights of an unbroken run; a finished row is not run again, and one whose options or
data have changed since is refused unless named by --retrain. The table is OUT/table.md, table.json and, with
matplotlib, table.png and training.png, which has a curve a training.

A recipe with seeds: [1, 2, 3] trains every row once a seed, in OUT/seed1/ROW and so on. One with subset: valid is
scored on the validation set, in OUT/table.valid.md and so on: choose there, and score the test set once, at the end.

examples:
  resmlp-mt ablate examples/ablations/variants.yaml --work work/multi30k --jobs 2
  resmlp-mt ablate examples/ablations/variants.yaml --work work/multi30k --rows paper none
  resmlp-mt ablate examples/ablations/variants.yaml --work work/multi30k --table
"""


def ablate() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG, run_of("ablations.table"))
    recipe = "the table's file, such as examples/ablations/variants.yaml"
    add_recipe(parser, recipe, Path("work/multi30k"), "ablations")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="run these only (default: all)")
    add_retrain(parser, "ROW")
    return parser
