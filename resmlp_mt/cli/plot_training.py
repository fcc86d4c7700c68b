"""Draw the curves of trainings from their logs: loss, perplexity, learning rate, words a second."""

import argparse
import importlib.util
from pathlib import Path

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import check_can_be_written, check_outputs

EPILOG = """
A log is what fairseq-train printed with --log-format simple or json, of a training that is finished or still runs. To
keep it: fairseq-train ... --log-format simple --log-interval 20 2>&1 | tee -a RUN/train.log

examples:
  resmlp-mt plot-training work/multi30k/resmlp/train.log --out resmlp.png
  resmlp-mt plot-training work/multi30k/*/train.log --out both.png
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("logs", nargs="+", type=named, metavar="LOG", help="one a training")
    out, default = "a PNG file (default: training.png)", Path("training.png")
    parser.add_argument("--out", type=named, default=default, metavar="FILE", help=out)
    return parser


def names_of(paths: list[Path]) -> dict[str, Path]:
    """A name for each log: its folder's or its own, or, where those do not tell them apart, its whole path."""
    found = {path.resolve().parent.name if path.stem == "train" else path.stem: path for path in paths}
    if len(found) < len(paths):
        found = {str(path): path for path in paths}
    if len(found) < len(paths):
        raise UserError(f"{', '.join(map(str, paths))}: a log is given twice")
    return found


def main() -> None:
    args = get_parser().parse_args()
    if not importlib.util.find_spec("matplotlib"):
        raise UserError("plot-training needs matplotlib: pip install matplotlib")
    from resmlp_mt.lab.trainings.curves import draw_curves
    from resmlp_mt.lab.trainings.log import read_curves

    check_can_be_written(args.out)
    check_outputs([args.out], args.logs)
    runs = {name: read_curves(path) for name, path in names_of(args.logs).items()}
    draw_curves(runs, args.out)
    for name, curves in runs.items():
        print(f"{name}: {max(curves.training):,.0f} updates")
    print(f"wrote {args.out}")
