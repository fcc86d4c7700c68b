"""Commands that train many models, ``ablate`` and ``scale``, and ``distill``, which makes data to train on."""

import argparse
from pathlib import Path

from resmlp_mt.cli.arguments import add_flag, add_number, add_path, command_parser, run_of
from resmlp_mt.data.languages import check_name

ROWS = """
Every row has a folder, OUT/ROW, or OUT/seedN/ROW if the recipe has seeds. After a break, run the command again: each
row continues from its last checkpoint and ends with the weights of an unbroken run. Finished rows are not run again. A
row whose options or data have changed needs --retrain. The table is OUT/table.md, table.json and, with matplotlib,
table.png and training.png (of the validation set: table.valid.md and so on). A recipe (examples/ablations/README.md)
may also be a search: OUT/tuning.md.

example:
  resmlp-mt ablate examples/ablations/variants.yaml --work work/multi30k --jobs 2 --rows paper none
"""
CELLS = """
A cell of the grid is a family (such as transformer, gated), a size and an amount of data. Each cell is trained in its
own folder, OUT/cells/CELL, the cheapest first, for the updates that the recipe sets for its amount of data. After a
break, run the command again: it continues, and finished cells are not run again. Each amount of data is a sample of
WORK's training set in OUT/data; larger samples contain the smaller ones; all cells have the same validation set. The
results are OUT/scaling.md, scaling.json and, with matplotlib, scaling.png: losses, trends of differences, fitted laws.

example:
  resmlp-mt scale examples/scaling/tatoeba.yaml --work work/tatoeba2000 --jobs 2
"""
TEACHER = """
The command puts the teacher's translations back in order and checks that each belongs to its source in DATA.
Dictionaries, sources, valid and test are copies of DATA's.

example:
  fairseq-generate DATA --path teacher.pt --gen-subset train --beam 5 --required-batch-size-multiple 1 > train.txt
  resmlp-mt distill train.txt --data DATA --source-lang en --target-lang de --out distilled
"""


def ablate() -> argparse.ArgumentParser:
    parser = command_parser(ROWS, run_of("ablations.table"))
    _add_trainings(parser, "examples/ablations/variants.yaml", "ROW", "ablations", Path("work/multi30k"))
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="run only these rows (default: all)")
    return parser


def scale() -> argparse.ArgumentParser:
    parser = command_parser(CELLS, run_of("scaling.study"))
    what = _add_trainings(parser, "examples/scaling/tatoeba.yaml", "CELL", "scaling")
    add_flag(what, "--dry-run", "train nothing; list the cells and their cost")
    return parser


def _add_trainings(
    parser: argparse.ArgumentParser, recipe: str, name: str, out: str, work: Path | None = None
) -> "argparse._MutuallyExclusiveGroup":
    """Add the options of a command that trains each ``name``; return the group of options that choose the work."""
    add_path(parser, "recipe", "RECIPE", f"a file such as {recipe}")
    data = "folder with data-bin and the reference"
    add_path(parser, "--work", "WORK", data, default=work, required=work is None)
    add_path(parser, "--out", "OUT", f"the folder for all results (default: WORK/{out}/ and the recipe's name)")
    add_number(parser, "--jobs", 1000, "trainings at the same time, with one thread each", 1)
    again = f"delete these {name.lower()}s first, to train them again; after a break, go on without it"
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--retrain", nargs="+", default=[], metavar=name, help=again)
    add_flag(what, "--table", "train nothing; show the finished results")
    return what


def distill() -> argparse.ArgumentParser:
    parser = command_parser(TEACHER, _distill)
    files = "output of fairseq-generate --gen-subset train; several files are the shards of one run"
    add_path(parser, "generated", "FILE", files, nargs="+")
    add_path(parser, "--data", "DATA", "the binarized data that the teacher translated", required=True)
    for side, example in ("source", "en"), ("target", "de"):
        parser.add_argument(f"--{side}-lang", required=True, metavar="LANG", help=f"such as {example}")
    add_path(parser, "--out", "OUT", "new folder to write", required=True)
    add_flag(parser, "--keep-original", "also add the original pairs, after the teacher's")
    return parser


def _distill(args: argparse.Namespace) -> None:
    from resmlp_mt.lab.distillation import DataBin, distill

    langs = check_name(args.source_lang, "--source-lang"), check_name(args.target_lang, "--target-lang")
    count = distill(args.generated, DataBin(args.data, langs), args.out, args.keep_original)
    print(
        f"wrote {args.out}: {count['pairs']:,} pairs for training; of the teacher's translations {count['same']:,} are "
        f"the reference, {count['empty']:,} are empty; {count['unknown']:,} unknown subwords"
    )
