"""Translate text, a sentence a line, with a trained model's folder: line for line and in order."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import add_speed, command_parser, positive
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import binary_lines, check_can_be_written, check_outputs, opened
from resmlp_mt.translate.options import MOST, TOO_LONG, Options

EPILOG = """
Without --output the translations go to standard output. With it they grow in FILE.partial, which is always of whole
lines (look with tail -f), and which becomes FILE at the end. A run that was broken off goes on with --resume.

examples:
  resmlp-mt translate FOLDER < in.txt > out.txt
  resmlp-mt translate FOLDER --input in.txt --output out.txt --n-best 4 --scores
  resmlp-mt translate FOLDER --precision int8 --jobs 8 < in.txt > out.txt
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("folder", type=named, metavar="FOLDER", help="made by resmlp-mt export")
    parser.add_argument("--input", type=named, metavar="FILE", help="text in UTF-8, or .gz (default: standard input)")
    parser.add_argument("--output", type=named, metavar="FILE", help="a new file (default: standard output)")
    parser.add_argument("--resume", action="store_true", help="go on with what an interrupted run left of --output")
    search = parser.add_argument_group("search")
    search.add_argument("--beam", type=positive(MOST["beam"]), help="width of the search (default: the folder's)")
    search.add_argument(
        "--n-best",
        type=positive(MOST["n_best"]),
        default=1,
        metavar="N",
        help="so many lines for each line (default: 1)",
    )
    search.add_argument(
        "--length-penalty",
        type=float,
        metavar="P",
        help="a score is the log-probability of T tokens / T ** P (default: the folder's)",
    )
    search.add_argument(
        "--max-len-a",
        type=float,
        default=Options.max_len_a,
        metavar="A",
        help="a line of S tokens gets a translation of at most A S + B tokens (default: %(default)g)",
    )
    search.add_argument(
        "--max-len-b",
        type=positive(MOST["max_len_b"]),
        default=Options.max_len_b,
        metavar="B",
        help="the B of --max-len-a (default: %(default)s)",
    )
    search.add_argument(
        "--too-long",
        choices=TOO_LONG,
        default=Options.too_long,
        help="what to do with a line of more tokens than the model takes (default: %(default)s)",
    )
    layout = parser.add_argument_group("output")
    layout.add_argument("--scores", action="store_true", help="before each translation its score and a tab")
    layout.add_argument(
        "--alignment",
        action="store_true",
        help="after each translation a tab and, of each subword, the one of the source that it attends to most, as "
        "SOURCE-TARGET, counted from 0",
    )
    layout.add_argument(
        "--json", action="store_true", help="a line of JSON for each line: subwords, scores, all of the alignment"
    )
    speed = add_speed(parser)
    speed.add_argument(
        "--batch-tokens",
        type=positive(MOST["batch_tokens"]),
        default=Options.batch_tokens,
        metavar="N",
        help="of a batch of source sentences (default: %(default)s)",
    )
    speed.add_argument(
        "--no-shortlist", action="store_true", help="score all target tokens, though the folder has a shortlist"
    )
    where = speed.add_mutually_exclusive_group()
    where.add_argument(
        "--jobs",
        type=positive(1000),
        default=1,
        metavar="N",
        help="processes, never more than cores, each with a model of its own and its part of the cores, or --threads: "
        "faster than threads, with more memory; any number gives the same translations (default: 1)",
    )
    where.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="translate by the Dask cluster whose scheduler is there, such as tcp://host:8786; its machines need the "
        "folder under the same name",
    )
    return parser


def main() -> None:
    args = get_parser().parse_args()
    if args.resume and args.output is None:
        raise UserError("--resume: goes on with an output file: give --output")
    if args.json and args.scores:
        raise UserError("--scores: is part of --json: leave it out")
    options = Options(
        beam=args.beam,
        n_best=args.n_best,
        length_penalty=args.length_penalty,
        max_len_a=args.max_len_a,
        max_len_b=args.max_len_b,
        batch_tokens=args.batch_tokens,
        too_long=args.too_long,
        alignment=args.alignment,
        shortlist=not args.no_shortlist,
    )
    if args.output is not None:
        check_can_be_written(args.output)
        check_outputs([args.output, f"{args.output}.partial"], [args.folder, *([args.input] if args.input else [])])
    elif sys.stdout is None:
        raise UserError("standard output is closed: give --output")
    if args.input is None and sys.stdin is None:
        raise UserError("standard input is closed: give text to it, or --input")
    stream = opened(args.input) if args.input else sys.stdin.buffer
    name = str(args.input or "standard input")

    from resmlp_mt.common.progress import Progress
    from resmlp_mt.common.workers import cores, ordered_map, working
    from resmlp_mt.translate.lines import (
        GrowingFile,
        Layout,
        LineTranslator,
        Stdout,
        Window,
        Work,
        checksum,
        translate_lines,
    )
    from resmlp_mt.translate.translator import place_of

    threads = args.threads
    if threads is None and args.jobs > 1:
        threads = max(1, cores() // args.jobs)
    folder = os.path.abspath(place_of(args.folder))
    work = Work(
        folder,
        checksum(folder),
        name,
        options,
        Layout(args.scores, args.json),
        args.precision,
        args.device,
        threads,
        args.engine,
    )
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(working(args.jobs, args.cluster))
        output: GrowingFile | Stdout = Stdout(sys.stdout.buffer)
        if args.output is not None:
            output = stack.enter_context(GrowingFile(args.output, work.identity, args.resume))
        progress = stack.enter_context(Progress("translate", lines_in(args.input), "sentences"))

        def mapped(windows: Iterable[Window]) -> Iterator[bytes]:
            return ordered_map(partial(LineTranslator, work), windows, workers)

        translate_lines(binary_lines(stream, name), work, output, mapped, progress.add)


def lines_in(path: Path | None) -> int | None:
    """How many lines a plain file has; None where that would have to be read twice."""
    if path is None or path.suffix == ".gz" or not path.is_file():
        return None
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
