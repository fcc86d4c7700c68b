"""Look at the mixing matrices of a trained model: pictures, profiles, sparsity, and what pruning leaves."""

import argparse
import importlib.util
import os
from pathlib import Path

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import add_user_dir, command_parser, import_user_dir, number_within, positive
from resmlp_mt.common.errors import UserError

EPILOG = """
written to --out:
  index.html        all of it on one page that needs no other file and no network
  overview.png, profiles.png, sparsity.png, encoder-1.png, ..., decoder-1.png, ...
  change-encoder-1.png, ...   with several checkpoints, oldest first: how each A has changed
  bands.png, bands-sentence.png   with --data: what bands read, on average and in one sentence
  mixing.json       the figures
  pruned-0.5.pt               with --prune 0.5: for fairseq-generate

A is as large as the longest sentence may be, but only a part of it is ever trained. What is shown (and pruned) are the
positions whose bias had at least 1% of the squared gradients of the position that had most, which Adagrad's or Adam's
state in a checkpoint of fairseq-train tells. An averaged checkpoint has no such state: for it, give one of the
training's own checkpoints before it, or --length; otherwise all positions are shown that any sentence reached.

examples:
  resmlp-mt plot checkpoints/checkpoint_best.pt --out mixing
  resmlp-mt plot checkpoints/checkpoint1.pt checkpoints/checkpoint10.pt --out mixing --length 40
  resmlp-mt plot checkpoints/checkpoint_last.pt checkpoints/avg.pt --out mixing --prune 0.5 0.9
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    add = parser.add_argument
    last = "of one model, oldest first; the last is looked at closely"
    add("checkpoints", nargs="+", type=Path, metavar="CHECKPOINT", help=last)
    add("--out", type=named, required=True, metavar="DIR", help="folder to write to, made if missing")
    add("--length", type=int, metavar="T", help="look at the first T positions (default: what the training used)")
    smallest = "also write the last checkpoint with this share of each A's weights, the smallest, set to zero"
    add("--prune", nargs="+", type=number_within(1e-9, 1), default=[], metavar="SHARE", help=smallest)
    text = "binarized data: also show what a model's bands (--mixing-band) read in its first 1,000 sentences"
    add("--data", metavar="DIR", help=text)
    add("--subset", default="valid", metavar="NAME", help="of --data (default: %(default)s)")
    add("--sentence", type=positive(999_999_999), default=1, metavar="N", help="of --data, to show by itself (1)")
    add_user_dir(parser)
    return parser


def main() -> None:
    args = get_parser().parse_args()
    if not importlib.util.find_spec("matplotlib"):
        raise UserError("plot needs matplotlib: pip install matplotlib")
    if os.path.lexists(args.out) and not args.out.is_dir():
        raise UserError(f"--out {args.out}: is no folder: choose another name")
    import_user_dir(args.user_dir)
    from resmlp_mt.lab.analysis.command import run

    run(args)
