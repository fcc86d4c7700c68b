"""Speed and memory of preparing a corpus, beside the plain sequence of command-line tools, with the same bytes."""

import argparse

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser, positive
from resmlp_mt.common.files import check_can_be_written, check_outputs, write_json


def get_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = command_parser(__doc__)
    parser.add_argument("--from", dest="multi30k", type=named, required=True, help="folder with Multi30k's .gz files")
    parser.add_argument("--pairs", type=positive(10**8), default=300_000, help="training pairs (default: %(default)s)")
    parser.add_argument("--symbols", type=positive(10**6), default=4000, help="BPE merges (default: %(default)s)")
    parser.add_argument("--jobs", type=positive(1000), default=2, help="processes of each tool, and ours (default: 2)")
    parser.add_argument("--rounds", type=positive(1000), default=3, help="runs of each chain, in turn (default: 3)")
    parser.add_argument("--json", type=named, help="write all figures to this file")
    return parser


def main() -> None:
    """Run the command."""
    args = get_parser().parse_args()
    if args.json:
        check_can_be_written(args.json)
        check_outputs([args.json], args.multi30k.glob("*.gz"))
    from resmlp_mt.lab.benchmarks.corpora import compare, table

    result = compare(args.multi30k, args.pairs, args.symbols, args.jobs, args.rounds)
    print(f"{args.pairs:,} pairs, {args.jobs} processes, {args.rounds} rounds: the same bytes\n\n{table(result)}")
    if args.json:
        write_json(args.json, result)
