"""Prepare parallel text for fairseq: words, joint subwords, binarized data."""

import argparse
import shlex
from pathlib import Path

from resmlp_mt.cli.arguments import add_flag, add_number, add_options, add_path, command_parser, given
from resmlp_mt.common.workers import working
from resmlp_mt.data.chunks import PairFilter
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, format_summary, from_here, how_to_translate, prepare
from resmlp_mt.data.sources import PlainText
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.data.wmt14 import TASKS, Preparation
from resmlp_mt.text.words import CHARACTER_RULES, Words

JOBS = "processes, never more than cores; the results are the same for any number"
TEXT = f"""
Plain (or .gz) text becomes OUT/data-bin for fairseq-train and fairseq-generate. If the command is stopped and run
again, it goes on; with other options, it redoes what depends on them.

{CHARACTER_RULES}

example:
  resmlp-mt prepare-text --source-lang en --target-lang de --train train.en train.de --valid valid.en valid.de \\
      --test test.en test.de --out work"""
WMT14 = f"""
what is prepared (resmlp_mt/data/wmt14.py names every archive, its bytes and where that is known from):
  en-de   train: Europarl v7, Common Crawl, News Commentary v9; valid: newstest2013; test: newstest2014, in full;
          {TASKS["en-de"].symbols:,} symbols unless told
  en-fr   train: those, the UN documents and Giga-French; valid: newstest2012 and 2013; test: newstest2014, in full;
          {TASKS["en-fr"].symbols:,} symbols unless told

how: punctuation normalized, words by Moses' rules with hyphens split (tokenizer.perl -a), joint subwords; training
  pairs are dropped that are empty, longer than 250 subwords, or 1.5 times as long on one side as on the other.
  OUT gets the archives in raw, data-bin for fairseq, the official test text to score against, and summary.json.

{CHARACTER_RULES}

examples:
  resmlp-mt prepare-wmt14 en-de --out work/wmt14_en_de --jobs 8
  resmlp-mt prepare-wmt14 en-fr --out work/sample --archives downloads --sample 10000
"""
ARCHIVES = """folder that has the archives (--dry-run tells their names); they are checked, nothing is downloaded"""


def prepare_text() -> argparse.ArgumentParser:
    parser = command_parser(TEXT, _text)
    for split in "train", "valid", "test":
        files = f"{split} text, one sentence a line, UTF-8, both files aligned line by line; may be given again"
        add_path(parser, f"--{split}", ("SRC", "TGT"), files, nargs=2, required=True, action="append")
    for side, example in ("source", "en"), ("target", "de"):
        parser.add_argument(f"--{side}-lang", required=True, metavar="LANG", help=f"two-letter code, such as {example}")
    _add_preparation(parser)
    add_options(parser, Words)
    add_options(parser, PairFilter)
    return parser


def prepare_wmt14() -> argparse.ArgumentParser:
    parser = command_parser(WMT14, _wmt14)
    parser.add_argument("pair", choices=sorted(TASKS), help="source and target language")
    _add_preparation(parser)
    parser.set_defaults(symbols=None)
    add_path(parser, "--archives", "DIR", ARCHIVES)
    add_flag(parser, "--dry-run", "print the plan with downloads and disk, do nothing")
    return parser


def _add_preparation(parser: argparse.ArgumentParser) -> None:
    """Add the options that both commands have."""
    add_path(parser, "--out", "OUT", "folder for all results", required=True)
    add_flag(parser, "--overwrite", "replace files in OUT that no earlier preparation wrote")
    add_options(parser, Subwords)
    add_number(parser, "--sample", 10**12, "only the first N pairs of each training text (default: all)")
    add_number(parser, "--jobs", 10**6, JOBS, 1)


def _text(args: argparse.Namespace) -> None:
    train, valid, test = ([PlainText(*pair) for pair in pairs] for pairs in (args.train, args.valid, args.test))
    corpus = Corpus((args.source_lang, args.target_lang), train, valid, test, args.sample)
    recipe = CorpusRecipe(given(args, Words), given(args, Subwords), given(args, PairFilter))
    with working(args.jobs) as workers:
        print(format_summary(prepare(corpus, recipe, args.out, workers, overwrite=args.overwrite)))
    print(how_to_translate(args.out / "data-bin", Path("checkpoints")))  # fairseq-train's own --save-dir


def _wmt14(args: argparse.Namespace) -> None:
    task = TASKS[args.pair]
    if args.symbols is None:
        args.symbols = task.symbols
    preparation = Preparation(task, args.out, given(args, Subwords), args.archives, args.sample)
    if args.dry_run:
        print(preparation)
        return
    with working(args.jobs) as workers:
        print(format_summary(preparation.run(workers, args.overwrite)))
    train = Path(__file__).parents[2] / f"examples/wmt14_{args.pair.replace('-', '_')}/train.sh"
    if train.exists():  # in a checkout
        print(f"next: {shlex.join(['bash', str(from_here(train)), 'resmlp6', str(args.out)])}")
    print(how_to_translate(args.out / "data-bin", args.out / "resmlp6"))
