"""Make binarized data of what a teacher translated: the training sources with the teacher's targets."""

import argparse

from resmlp_mt.cli.arguments import add_flag, add_path, command_parser
from resmlp_mt.data.languages import check_name

EPILOG = """
The teacher's translations are put back in order; each must stand beside its own source, which is compared with the
data's. Dictionaries, sources, valid and test are those of DATA, byte for byte.

example:
  fairseq-generate DATA --path teacher.pt --gen-subset train --beam 5 --required-batch-size-multiple 1 > train.txt
  resmlp-mt distill train.txt --data DATA --source-lang en --target-lang de --out distilled
"""


def distill() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG, _run)
    files = "what fairseq-generate printed for --gen-subset train; several files are the shards of one run"
    parser.add_argument("generated", nargs="+", metavar="FILE", help=files)
    add_path(parser, "--data", "DATA", "the binarized data that was translated", required=True)
    parser.add_argument("--source-lang", required=True, metavar="LANG", help="such as en")
    parser.add_argument("--target-lang", required=True, metavar="LANG", help="such as de")
    add_path(parser, "--out", "OUT", "the folder to make, which must not exist yet", required=True)
    add_flag(parser, "--keep-original", "train on the original pairs too, after the teacher's")
    return parser


def _run(args: argparse.Namespace) -> None:
    from resmlp_mt.lab.distillation import DataBin, distill

    langs = check_name(args.source_lang, "--source-lang"), check_name(args.target_lang, "--target-lang")
    data = DataBin(args.data, *langs)
    result = distill(args.generated, data, args.out, args.keep_original)
    print(
        f"wrote {args.out}: {result.pairs:,} pairs for training; of the teacher's translations {result.same:,} are the "
        f"reference, {result.empty:,} are empty; {result.unknown:,} unknown subwords"
    )
