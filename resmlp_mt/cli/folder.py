"""Commands that use the folder of a trained model: ``translate``, ``shortlist``, ``serve``."""

import argparse
import importlib.util
import os
import sys
from dataclasses import asdict, replace
from functools import partial

from resmlp_mt.cli.arguments import add_flag, add_number, add_options, add_path, add_repeated, command_parser, given
from resmlp_mt.common.errors import UserError
from resmlp_mt.serve.settings import TOKEN, Limits, access, bracketed, listening
from resmlp_mt.translate.options import EngineOptions, Options

TRANSLATE = """
With --output, finished lines are written to FILE.partial (watch it with tail -f). It is renamed to FILE at the end.
--resume continues an interrupted run.
URLs, e-mail addresses and placeholders such as {name}, {{ name }}, $NAME, %s and %(name)s are copied unchanged.

examples:
  resmlp-mt translate FOLDER < in.txt > out.txt
  resmlp-mt translate FOLDER --input in.txt --output out.txt --n-best 4 --scores
  resmlp-mt translate FOLDER --document in.html out.html
  resmlp-mt translate FOLDER --precision int8 --jobs 8 < in.txt > out.txt
"""
SCORES = """begin each line with the score and a tab (with --alignment, also without --scores, each line ends with a tab
and, for each subword, the source subword that it attends to most, as SOURCE-TARGET, counted from 0)"""
JSON = """print a line of JSON for each text: subwords, scores, the log-probability of each subword and word; with
--alignment also the alignment of subwords and the links of words"""
ALIGNMENTS = """also write this new file, a line for each text: for each word of the translation the source word that
it attends to most, as SOURCE-TARGET (0-0 1-2), counted from 0; words are split at spaces. Not with --n-best, --json"""
CHECK = """report on standard error which numbers of a line are missing or new in its translation; 1,000 equals
1.000, number words are ignored"""
DOCUMENT = """translate a whole file: .txt, .html, .md (CommonMark with tables) or .srt, by its name. Tags, code and
line ends stay in their places. Instead of --input and --output; one process; not with --resume, --prefix, --n-best,
--scores, --json, --alignment and --alignments"""
JOBS = """processes, never more than cores. Each has its own model and its share of the cores (or --threads). Often
faster than threads, but takes more memory; the translations are the same for any number"""
SHORTLIST = """
The result is FOLDER/shortlist.txt: likely target tokens of each source token, by IBM Model 1 of the training text.
With this file, resmlp-mt translate, serve and Translator score only a few hundred target tokens for each sentence.
That is faster and changes some translations. The format is that of CTranslate2's vmap.

example:
  resmlp-mt shortlist en-de --train train.en train.de --valid val.en val.de
"""
SERVE = """
The command prints the page's address. Programs send POST /translate; /openapi.json describes it. After Ctrl-C the
server answers the requests that it has begun, then ends.

examples:
  resmlp-mt serve FOLDER
  curl -H 'Content-Type: application/json' -d '{"texts": ["A man."]}' http://127.0.0.1:8000/translate
"""
ALLOW_HOST = "another name or address of this server that browsers and programs may use, besides --host and localhost"


def translate() -> argparse.ArgumentParser:
    parser = command_parser(TRANSLATE, _translate)
    add_path(parser, "folder", "FOLDER", "made by resmlp-mt export")
    add_path(parser, "--input", "FILE", "text in UTF-8, or .gz (default: standard input; a pipe is read ahead)")
    add_path(parser, "--output", "FILE", "a new file (default: standard output)")
    add_flag(parser, "--resume", "continue an interrupted run with the same --output")
    add_path(parser, "--document", ("IN", "OUT"), DOCUMENT, nargs=2)
    add_options(parser.add_argument_group("search"), Options)
    layout = parser.add_mutually_exclusive_group()
    add_flag(layout, "--scores", SCORES)
    add_flag(layout, "--json", JSON)
    add_path(parser, "--alignments", "FILE", ALIGNMENTS)
    add_flag(parser, "--check", CHECK)
    speed = parser.add_argument_group("speed")
    add_options(speed, EngineOptions)
    add_number(speed, "--jobs", 1000, JOBS, 1)
    return parser


def _translate(args: argparse.Namespace) -> None:
    if args.glossary:
        from resmlp_mt.translate.rules import read_glossary

        args.glossary = read_glossary(args.glossary)
    options, engine = given(args, Options), given(args, EngineOptions)
    if (engine.engine, engine.precision) == ("pytorch", "int8"):
        hint = "--engine compiled is about twice as fast: it needs a C++ compiler and two minutes, once"
        print(hint, file=sys.stderr)
    if args.document:
        return _translate_document(args, options, engine)

    from resmlp_mt.common.progress import Progress
    from resmlp_mt.common.workers import cores, ordered_map, working
    from resmlp_mt.translate.lines import TranslationJob, lines_in, translate_file
    from resmlp_mt.translate.model_folder import checksum, find_folder

    if args.jobs > 1 and engine.threads is None:
        engine = replace(engine, threads=max(1, cores() // args.jobs))
    folder, name = os.path.abspath(find_folder(args.folder)), str(args.input or "standard input")
    also = {"scores": args.scores, "json": args.json, "alignments": args.alignments is not None, "check": args.check}
    work = TranslationJob(folder, checksum(folder), name, options, engine, **also)
    progress = Progress("translate", lines_in(args.input), "sentences")
    with working(args.jobs) as workers, progress:
        mapped = partial(ordered_map, workers=workers)
        translate_file(work, args.input, args.output, args.resume, mapped, progress.add, args.alignments)


def _translate_document(args: argparse.Namespace, options: Options, engine: EngineOptions) -> None:
    others = "input", "output", "resume", "prefix", "scores", "json", "alignment", "alignments"
    several = ["n-best"] * (options.n_best > 1) + ["jobs"] * (args.jobs > 1)
    given_too = [name for name in others if getattr(args, name)] + several
    if given_too:
        raise UserError(f"--document cannot be combined with --{given_too[0]}")

    from resmlp_mt.common.progress import Progress
    from resmlp_mt.translate.documents import translate_document
    from resmlp_mt.translate.translator import Translator

    source, target = args.document
    load = partial(Translator, args.folder, **asdict(engine))
    with Progress("translate", None, "sentences") as progress:
        problems = translate_document(load, source, target, options, progress.add)
    if args.check:
        sys.stderr.writelines(f"{problem}\n" for problem in problems)


def shortlist() -> argparse.ArgumentParser:
    parser = command_parser(SHORTLIST, _shortlist)
    add_path(parser, "folder", "FOLDER", "made by resmlp-mt export")
    pair = "SOURCE", "TARGET"
    add_path(parser, "--train", pair, "running text to count in", nargs=2, required=True)
    add_path(parser, "--valid", pair, "other text: report how many of its target tokens the shortlist covers", nargs=2)
    lines = "use the first N lines; a line of 25 tokens a side takes 20 kB of memory"
    add_number(parser, "--lines", 999_999_999, lines, 200_000)
    add_number(parser, "--per-token", 10_000, "target tokens to keep for each source token", 20)
    add_number(parser, "--always", 100_000, "frequent target tokens that are allowed in every sentence", 100)
    add_flag(parser, "--overwrite", "replace the folder's shortlist")
    return parser


def _shortlist(args: argparse.Namespace) -> None:
    from resmlp_mt.translate.shortlist import make_shortlist

    make_shortlist(args.folder, args.train, args.valid, args.lines, args.per_token, args.always, args.overwrite)


def serve() -> argparse.ArgumentParser:
    parser = command_parser(SERVE, _serve)
    add_path(parser, "folder", "FOLDER", "made by resmlp-mt export")
    who = parser.add_argument_group("who may send requests")
    who.add_argument("--host", default="127.0.0.1", help="address to listen at; by default for this machine only")
    add_number(who, "--port", 65535, "port to listen at; 0: any free one", 8000, least=0)
    needed = f"secret that requests must send; needed if other machines can connect. Better set {TOKEN}, as "
    who.add_argument("--token", help=f"{needed}other users can see a command's arguments")
    add_repeated(who, "--allow-host", "NAME", ALLOW_HOST)
    site = "another site whose pages may use the server, such as https://example.org"
    add_repeated(who, "--allow-origin", "ORIGIN", site)
    add_path(parser, "--glossary", "FILE", "terms for requests without any; each line: source term, tab, translation")
    add_options(parser.add_argument_group("limits"), Limits)
    add_options(parser.add_argument_group("speed"), EngineOptions)
    return parser


def _serve(args: argparse.Namespace) -> None:
    limits, engine = given(args, Limits), given(args, EngineOptions)
    token = os.environ.get(TOKEN) if args.token is None else args.token
    allowed = access(args.host, token, args.allow_host, args.allow_origin)
    if not all(map(importlib.util.find_spec, ("markdown_it", "pydantic", "sentencex", "starlette", "uvicorn"))):
        raise UserError("serve needs more packages: pip install markdown-it-py pydantic sentencex starlette uvicorn")
    from resmlp_mt.serve.server import server_of
    from resmlp_mt.translate.rules import Rules, read_glossary
    from resmlp_mt.translate.translator import Translator

    glossary = read_glossary(args.glossary) if args.glossary else ()
    with listening(args.host, args.port) as listener:
        translator = Translator(args.folder, **asdict(engine))
        Rules(translator.tokenizer, None, glossary, ())  # refuses terms that the model cannot produce
        server = server_of(translator, limits, allowed, glossary)
        print(f"http://{bracketed(args.host)}:{listener.getsockname()[1]}  (Ctrl-C ends it)", flush=True)
        server.run(sockets=[listener])
