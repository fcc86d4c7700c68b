"""Translate text, a sentence a line, with a trained model's folder: line for line and in order."""

import argparse
import os
from dataclasses import replace
from functools import partial

from resmlp_mt.cli.arguments import (
    add_exported_folder,
    add_flag,
    add_number,
    add_options,
    add_path,
    command_parser,
    given,
)
from resmlp_mt.translate.options import EngineOptions, Options

EPILOG = """
Without --output the translations go to standard output. With it they grow in FILE.partial, which is always of whole
lines (look with tail -f), and which becomes FILE at the end. A run that was broken off goes on with --resume.

examples:
  resmlp-mt translate FOLDER < in.txt > out.txt
  resmlp-mt translate FOLDER --input in.txt --output out.txt --n-best 4 --scores
  resmlp-mt translate FOLDER --precision int8 --jobs 8 < in.txt > out.txt
"""
SCORES = """before each translation its score and a tab (behind it, with --alignment, a tab and of each subword the one
of the source that it attends to most, as SOURCE-TARGET, counted from 0)"""
JSON = "a line of JSON for each line: subwords, scores, all of the alignment"
JOBS = """processes, never more than cores, each with a model of its own and its part of the cores, or --threads: faster
than threads, with more memory; any number gives the same translations"""
CLUSTER = """translate by the Dask cluster whose scheduler is there, such as tcp://host:8786; its machines need the
folder under the same name"""


def translate() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG, _run)
    add_exported_folder(parser)
    add_path(parser, "--input", "FILE", "text in UTF-8, or .gz (default: standard input)")
    add_path(parser, "--output", "FILE", "a new file (default: standard output)")
    add_flag(parser, "--resume", "go on with what an interrupted run left of --output")
    add_options(parser.add_argument_group("search"), Options)
    layout = parser.add_mutually_exclusive_group()
    add_flag(layout, "--scores", SCORES)
    add_flag(layout, "--json", JSON)
    speed = parser.add_argument_group("speed")
    add_options(speed, EngineOptions)
    where = speed.add_mutually_exclusive_group()
    add_number(where, "--jobs", 1000, JOBS, 1)
    where.add_argument("--cluster", metavar="ADDRESS", help=CLUSTER)
    return parser


def _run(args: argparse.Namespace) -> None:
    options, engine = given(args, Options), given(args, EngineOptions)

    from resmlp_mt.common.progress import Progress
    from resmlp_mt.common.workers import cores, ordered_map, working
    from resmlp_mt.translate.lines import Work, lines_in, translate_file
    from resmlp_mt.translate.model_folder import checksum, place_of

    if args.jobs > 1 and engine.threads is None:
        engine = replace(engine, threads=max(1, cores() // args.jobs))
    folder, name = os.path.abspath(place_of(args.folder)), str(args.input or "standard input")
    work = Work(folder, checksum(folder), name, options, engine, args.scores, args.json)
    progress = Progress("translate", lines_in(args.input), "sentences")
    with working(args.jobs, args.cluster) as workers, progress as told:
        mapped = partial(ordered_map, workers=workers)
        translate_file(work, args.input, args.output, args.resume, mapped, told.add)
