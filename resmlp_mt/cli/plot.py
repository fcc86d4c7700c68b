"""Look at the mixing matrices of a trained model: pictures, profiles, sparsity, and what pruning leaves."""

import argparse
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import add_user_dir, command_parser, import_user_dir, positive
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_outputs

EPILOG = """
written to --out:
  index.html        all of it on one page that needs no other file and no network
  overview.png, profiles.png, sparsity.png, encoder-1.png, ..., decoder-1.png, ...
  change-encoder-1.png, ...   with several checkpoints, oldest first: how each A has changed
  bands.png, bands-sentence.png   with --data: what bands read, on average and in one sentence
  sparsity.csv, mixing.json   the figures
  pruned-0.5.pt               with --prune 0.5: for fairseq-generate

A is as large as the longest sentence may be, but only a part of it is ever trained. What is shown (and pruned) are the
positions whose bias had at least 1% of the squared gradients of the position that had most, which Adagrad's or Adam's
state in a checkpoint of fairseq-train tells. An averaged checkpoint has no such state: for it, give one of the
training's own checkpoints before it, or --length; otherwise all positions are shown that any sentence reached.

examples:
  python scripts/plot_mixing.py checkpoints/checkpoint_best.pt --out mixing
  python scripts/plot_mixing.py checkpoints/checkpoint1.pt checkpoints/checkpoint10.pt --out mixing --length 40
  python scripts/plot_mixing.py checkpoints/checkpoint_last.pt checkpoints/avg.pt --out mixing --prune 0.5 0.9
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument(
        "checkpoints", nargs="+", metavar="CHECKPOINT", help="of one model, oldest first; the last is looked at closely"
    )
    parser.add_argument("--out", type=named, required=True, metavar="DIR", help="folder to write to, made if missing")
    parser.add_argument(
        "--length", type=int, metavar="T", help="look at the first T positions (default: what the training used)"
    )
    parser.add_argument(
        "--prune",
        nargs="+",
        default=[],
        metavar="SHARE",
        help="also write the last checkpoint with the smallest SHARE of the weights of each A, such as 0.5, set to "
        "zero, one file a share",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder of binarized data: also show what a model's bands (--mixing-band), which depend on the text, read "
        "in its first 1,000 sentences",
    )
    parser.add_argument("--subset", default="valid", metavar="NAME", help="of --data (default: %(default)s)")
    parser.add_argument(
        "--sentence",
        type=positive(999_999_999),
        default=1,
        metavar="N",
        help="of --data, to show by itself (default: %(default)s)",
    )
    add_user_dir(parser)
    return parser


def shares(parser: argparse.ArgumentParser, given: list[str]) -> dict[str, float]:
    """Each share as it was written, and its value."""
    found = {}
    for text in given:
        try:
            found[text] = float(text)
        except ValueError:
            found[text] = -1.0
        if not 0 < found[text] <= 1:
            parser.error(f"--prune {text}: give a share of the weights, above 0 up to 1, such as 0.5")
    return found


def check_length(length: int | None, readings: list[Any]) -> None:
    most = max(mixing.length for mixing in readings[-1].mixings)
    if length is not None and not 2 <= length <= most:
        raise UserError(f"--length {length}: the model has {most} positions: give 2 to {most}")


def bands_in_text(args: argparse.Namespace) -> list[Any]:
    """What the last checkpoint's bands read in ``--data``.

    Raises:
        UserError: the model has no band, the data is not its own, or there is no such sentence
    """
    from resmlp_mt.data.dictionaries import read_dictionary
    from resmlp_mt.export.loading import load
    from resmlp_mt.lab.analysis.bands import bands_of, read_bands
    from resmlp_mt.lab.distillation import DataBin

    path = args.checkpoints[-1]
    trained = load([path], args.data)
    if not bands_of(trained.model):
        raise UserError(f"{path}: has no band that depends on the text (--mixing-band): leave out --data")
    data = DataBin(Path(args.data), *trained.languages)
    pairs = list(zip(*(data.side(args.subset, language) for language in trained.languages), strict=True))
    source, target = map(read_dictionary, trained.dictionaries)
    return read_bands(trained.model, pairs, (source, target), args.sentence)


def main() -> None:
    parser = get_parser()
    args = parser.parse_args()
    pruning = shares(parser, args.prune)
    if not importlib.util.find_spec("matplotlib"):
        raise UserError("plot_mixing.py needs matplotlib: pip install matplotlib")
    from resmlp_mt.fairseq_plugin.checkpoints.averaging import save_checkpoint
    from resmlp_mt.fairseq_plugin.checkpoints.loading import load_checkpoint
    from resmlp_mt.fairseq_plugin.checkpoints.model import model_of
    from resmlp_mt.lab.analysis.matrices import SIDES
    from resmlp_mt.lab.analysis.pruning import pruned
    from resmlp_mt.lab.analysis.reading import read_series
    from resmlp_mt.lab.analysis.report import Report

    out = args.out
    if os.path.lexists(out) and not out.is_dir():
        raise UserError(f"--out {out}: is no folder: choose another name")
    import_user_dir(args.user_dir)
    readings = read_series(args.checkpoints)
    check_length(args.length, readings)
    report = Report(readings, args.length, bands_in_text(args) if args.data is not None else ())
    for side, length in report.used.lengths.items():
        print(f"{side}: positions 1 to {length}")
    for side in SIDES:
        if side not in report.used.lengths:
            print(f"{side}: its mixing is no matrix over positions, and is not drawn")
    print(f"({report.used.how})")

    pruned_files = {text: out / f"pruned-{text}.pt" for text in pruning}
    names = "sparsity.csv", "mixing.json", "index.html", *(f"{name}.png" for name in report.pictures())
    check_outputs([*(out / name for name in names), *pruned_files.values()], args.checkpoints)
    drawn = report.draw()
    for name, png in drawn.items():
        with atomic_write(out / f"{name}.png", "wb") as stream:
            stream.write(png)
    texts = report.sparsity_csv(), json.dumps(report.as_json(), indent=1) + "\n", report.as_page(drawn)
    for name, text in zip(names, texts, strict=False):
        with atomic_write(out / name) as stream:
            stream.write(text)
    print(f"wrote {out / 'index.html'}")
    last = args.checkpoints[-1]
    for text, share in pruning.items():
        checkpoint = load_checkpoint(last)
        save_checkpoint(pruned(checkpoint, model_of(last, checkpoint), share, report.used), pruned_files[text])
        print(f"wrote {pruned_files[text]}")
