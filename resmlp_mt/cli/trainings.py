"""Commands that train many models, ``ablate`` and ``scale``, and ``distill``, which makes data to train on."""

import argparse
from pathlib import Path

from resmlp_mt.cli.arguments import add_flag, add_number, add_path, command_parser, run_of
from resmlp_mt.data.languages import check_name

ROWS = """
Every row has a folder, OUT/ROW. Run again after a break, each goes on from its last checkpoint, to the weights of an
unbroken run. A finished row is not run again; a row whose options or data have changed needs --retrain. The table is
OUT/table.md, table.json and, with matplotlib, table.png and training.png; on val (subset: valid) table.valid.md and so
on. A recipe (examples/ablations/README.md) may be a search: see OUT/tuning.md.

example:
  resmlp-mt ablate examples/ablations/variants.yaml --work work/multi30k --jobs 2 --rows paper none
"""
CELLS = """
A cell of the grid is a family (such as transformer, gated), a size and an amount of data. Each is trained in a folder
of its own, OUT/cells/CELL, the cheapest first, for the updates that the recipe gives its amount of data. Run again
after a break, it goes on; a finished cell is not run again. Each amount of data is a sample of WORK's training set in
OUT/data; larger samples hold the smaller ones, the validation set is one for all. What the finished cells tell is
OUT/scaling.md, scaling.json and, with matplotlib, scaling.png: losses, the trend of their differences, the laws.

example:
  resmlp-mt scale examples/scaling/tatoeba.yaml --work work/tatoeba2000 --jobs 2
"""
TEACHER = """
The teacher's translations are put back in order; each must stand beside its own source, which is compared with the
data's. Dictionaries, sources, valid and test are those of DATA, byte for byte.

example:
  fairseq-generate DATA --path teacher.pt --gen-subset train --beam 5 --required-batch-size-multiple 1 > train.txt
  resmlp-mt distill train.txt --data DATA --source-lang en --target-lang de --out distilled
"""


def ablate() -> argparse.ArgumentParser:
    parser = command_parser(ROWS, run_of("ablations.table"))
    _add_trainings(parser, "examples/ablations/variants.yaml", "ROW", "ablations", Path("work/multi30k"))
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="run these only (default: all)")
    return parser


def scale() -> argparse.ArgumentParser:
    parser = command_parser(CELLS, run_of("scaling.page"))
    what = _add_trainings(parser, "examples/scaling/tatoeba.yaml", "CELL", "scaling")
    add_flag(what, "--dry-run", "train nothing: tell the cells and their cost")
    return parser


def _add_trainings(
    parser: argparse.ArgumentParser, recipe: str, name: str, out: str, work: Path | None = None
) -> "argparse._MutuallyExclusiveGroup":
    """Add the options of a command with a training for each ``name``; returns the group of those that choose what."""
    parser.add_argument("recipe", type=Path, metavar="RECIPE", help=f"a file such as {recipe}")
    data = "the folder of the data, with data-bin and the reference"
    add_path(parser, "--work", "WORK", data, default=work, required=work is None)
    add_path(parser, "--out", "OUT", f"the folder for all results (default: WORK/{out}/ and the recipe's name)")
    add_number(parser, "--jobs", 1000, "trainings at a time, of one thread each", 1)
    again, what = f"delete what these {name.lower()}s have, and train them again", parser.add_mutually_exclusive_group()
    what.add_argument("--retrain", nargs="+", default=[], metavar=name, help=again)
    add_flag(what, "--table", "train nothing: show what is finished")
    return what


def distill() -> argparse.ArgumentParser:
    parser = command_parser(TEACHER, _distill)
    files = "what fairseq-generate printed for --gen-subset train; several files are the shards of one run"
    parser.add_argument("generated", nargs="+", metavar="FILE", help=files)
    add_path(parser, "--data", "DATA", "the binarized data that was translated", required=True)
    for side, example in ("source", "en"), ("target", "de"):
        parser.add_argument(f"--{side}-lang", required=True, metavar="LANG", help=f"such as {example}")
    add_path(parser, "--out", "OUT", "the folder to make, which must not exist yet", required=True)
    add_flag(parser, "--keep-original", "add the original pairs, after the teacher's")
    return parser


def _distill(args: argparse.Namespace) -> None:
    from resmlp_mt.lab.distillation import DataBin, distill

    langs = check_name(args.source_lang, "--source-lang"), check_name(args.target_lang, "--target-lang")
    result = distill(args.generated, DataBin(args.data, *langs), args.out, args.keep_original)
    print(
        f"wrote {args.out}: {result.pairs:,} pairs for training; of the teacher's translations {result.same:,} are the "
        f"reference, {result.empty:,} are empty; {result.unknown:,} unknown subwords"
    )
