"""``plot`` a trained model's mixing matrices (pictures, profiles, sparsity, pruning); ``plot-training`` curves."""

import argparse
from pathlib import Path

from resmlp_mt.cli.arguments import (
    add_number,
    add_path,
    add_user_dir,
    command_parser,
    import_user_dir,
    number_within,
    run_of,
)
from resmlp_mt.common.files import check_can_be_written
from resmlp_mt.lab.drawing import check_files, check_matplotlib

MATRICES = """
written to --out:
  index.html        all of it on one page that needs no other file and no network
  overview.png, profiles.png, sparsity.png, encoder-1.png, ..., decoder-1.png, ...
  change-encoder-1.png, ...   with several checkpoints, oldest first: how each A has changed
  bands.png, bands-sentence.png   with --data: what bands read, on average and in one sentence
  mixing.json       the figures
  pruned-0.5.pt               with --prune 0.5: for fairseq-generate

It shows (and prunes) the part of A that training used. A checkpoint's optimizer state tells that part. An averaged
checkpoint has no such state: give a checkpoint of the training before it, or --length.

examples:
  resmlp-mt plot checkpoints/checkpoint1.pt checkpoints/checkpoint10.pt --out mixing --length 40
  resmlp-mt plot checkpoints/checkpoint_last.pt checkpoints/avg.pt --out mixing --prune 0.5 0.9
"""
CURVES = """
A log is what fairseq-train printed with --log-format simple or json, of a training that is finished or still runs. To
keep it: fairseq-train ... --log-format simple --log-interval 20 2>&1 | tee -a RUN/train.log

example:
  resmlp-mt plot-training work/multi30k/*/train.log --out both.png
"""


def plot() -> argparse.ArgumentParser:
    parser = command_parser(MATRICES, _plot)
    last = "checkpoints of one model, oldest first; most pictures show the last"
    add_path(parser, "checkpoints", "CHECKPOINT", last, nargs="+")
    add_path(parser, "--out", "DIR", "folder for the results", required=True)
    length = "show the first T positions (default: those that the training used)"
    parser.add_argument("--length", type=int, metavar="T", help=length)
    pruned = "also write the last checkpoint with this share of each A's weights (the smallest) set to zero"
    parser.add_argument("--prune", nargs="+", type=number_within(1e-9, 1), default=[], metavar="SHARE", help=pruned)
    data = "binarized data: also show what a model's bands (--mixing-band) read in its first 1,000 sentences"
    add_path(parser, "--data", "DIR", data)
    parser.add_argument("--subset", default="valid", metavar="NAME", help="subset of --data")
    add_number(parser, "--sentence", 999_999_999, "number of the sentence of --data that gets a picture of its own", 1)
    add_user_dir(parser)
    return parser


def plot_training() -> argparse.ArgumentParser:
    parser = command_parser(CURVES, _plot_training)
    add_path(parser, "logs", "LOG", "logs of fairseq-train, one for each training", nargs="+")
    add_path(parser, "--out", "FILE", "the PNG file", required=True)
    return parser


def _plot(args: argparse.Namespace) -> None:
    check_matplotlib("plot")
    check_can_be_written(args.out / "index.html")
    import_user_dir(args.user_dir)
    run_of("analysis.report")(args)


def _plot_training(args: argparse.Namespace) -> None:
    check_files([args.out], args.logs, "plot-training")
    from resmlp_mt.lab.trainings.log import draw_curves, read_log

    runs = {name: read_log(path) for name, path in _names_of(args.logs).items()}
    draw_curves(runs, args.out)
    for name, curves in runs.items():
        print(f"{name}: {max([*curves.training, *curves.epochs]):,.0f} updates")
    print(f"wrote {args.out}")


def _names_of(paths: list[Path]) -> dict[str, Path]:
    """Return a name for each log: that of its folder or of the file; its whole path, if those names are not unique."""
    found = {path.resolve().parent.name if path.stem == "train" else path.stem: path for path in paths}
    return found if len(found) == len(paths) else {str(path): path for path in paths}
