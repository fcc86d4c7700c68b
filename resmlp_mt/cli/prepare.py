"""Prepare parallel text for fairseq: words, joint subwords, binarized data."""

import argparse
from pathlib import Path
from typing import Any

from resmlp_mt.cli.arguments import command_parser, named
from resmlp_mt.common.workers import working
from resmlp_mt.data.chunks import PairFilter
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, bytes_of, check_number, prepare
from resmlp_mt.data.sources import PlainText
from resmlp_mt.data.steps import check_disk
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.data.summary import format_summary, how_to_translate
from resmlp_mt.data.wmt14 import TASKS, Preparation
from resmlp_mt.text.characters import FATES
from resmlp_mt.text.words import Words

JOBS = "processes, never more than cores; any number gives the same bytes"
CLUSTER = """work by the Dask cluster whose scheduler is at ADDRESS, such as tcp://host:8786, with the same bytes; its
machines need the same versions as this one"""
TEXT = f"""
{FATES}

example:
  resmlp-mt prepare-text --source-lang en --target-lang de --train train.en train.de --valid valid.en valid.de \\
      --test test.en test.de --out work"""
WMT14 = f"""
what is prepared (resmlp_mt/data/catalog.py names every archive, its bytes and where that is known from):
  en-de   train: Europarl v7, Common Crawl, News Commentary v9; valid: newstest2013; test: newstest2014, in full
  en-fr   train: those, the UN documents and Giga-French; valid: newstest2012 and 2013; test: newstest2014, in full

how: punctuation normalized, non-printing characters dropped, words by Moses' rules with hyphens split (tokenizer.perl
  -a), joint subwords; training pairs are dropped that are empty, longer than 250 subwords, or 1.5 times longer on one
  side than on the other; one dictionary for both languages.

what OUT gets:
  raw/                    the archives, unless --archives names them; needed again only if this is run again
  data-bin/               for fairseq-train and fairseq-generate
  newstest2014.LANG ...   the official text as sacrebleu has it: score against newstest2014.TARGET
  summary.json            pairs read, kept and dropped by reason, words, subwords, unknown rates
  and what a run that was broken off, or has other options, goes on from: it redoes only what must be redone

{FATES}

examples:
  resmlp-mt prepare-wmt14 en-de --out work/wmt14_en_de --dry-run
  resmlp-mt prepare-wmt14 en-de --out work/wmt14_en_de --jobs 8
  resmlp-mt prepare-wmt14 en-fr --out work/sample --archives downloads --sample 10000
"""
LEARNER = """library that learns BPE: tokenizers (Hugging Face's, to be installed) is several times as fast; its merges
are as good, not the same"""
COVERAGE = """share of the text's characters that sentencepiece makes pieces of, 0.98 to 1; the rest is unknown
(default: 0.9995, but at least the 1,000 most frequent characters)"""
ARCHIVES = """folder that has the archives, got by other means; they are checked, nothing is downloaded (--dry-run tells
their names). A .zip of known sums (told there too) or, unchecked, the unpacked files of a training corpus stand for its
archive"""
MIRROR = """address of a folder that may have the archives by these names, asked before the public ones; may be given
again. What comes from there must have the same sums"""


def prepare_text() -> argparse.ArgumentParser:
    about = """Plain (or .gz) parallel text -> OUT/data-bin for fairseq-train and fairseq-generate.
Stopped at any moment and run again, it goes on; with other options, it redoes what depends on them."""
    parser = command_parser(about, TEXT, _text)
    for split in "train", "valid", "test":
        files = f"{split} text, one sentence a line, UTF-8, both files aligned line by line; may be given again"
        pair: dict[str, Any] = {"nargs": 2, "type": Path, "metavar": ("SRC", "TGT")}
        parser.add_argument(f"--{split}", **pair, required=True, action="append", help=files)
    parser.add_argument("--source-lang", required=True, metavar="LANG", help="two-letter code, such as en")
    parser.add_argument("--target-lang", required=True, metavar="LANG", help="two-letter code, such as de")
    _add_preparation(parser, Subwords.symbols)
    words = "what makes words of text: Moses' rules, or the spaces alone"
    parser.add_argument("--tokenize", choices=["moses", "none"], default=Words.tokenizer, help=words)
    parser.add_argument("--dash-splits", action="store_true", help="split compounds at hyphens (tokenizer.perl -a)")
    parser.add_argument("--keep-punctuation", action="store_true", help="do not normalize quotes, dashes and so on")
    longest = "drop training pairs with more subwords on a side"
    parser.add_argument("--max-length", type=int, default=PairFilter.max_length, metavar="N", help=longest)
    ratio = "drop training pairs with one side that many times longer, in subwords (default: none)"
    parser.add_argument("--max-ratio", type=float, metavar="X", help=ratio)
    return parser


def prepare_wmt14() -> argparse.ArgumentParser:
    about = "Prepare WMT14 English-German or English-French for fairseq: the public archives -> OUT/data-bin."
    parser = command_parser(about, WMT14, _wmt14)
    parser.add_argument("pair", choices=sorted(TASKS), help="source and target language")
    sizes = ", ".join(f"{task.symbols} for {pair}" for pair, task in sorted(TASKS.items()))
    _add_preparation(parser, None, f" (default: {sizes})")
    parser.add_argument("--archives", type=named, metavar="DIR", help=ARCHIVES)
    parser.add_argument("--mirror", action="append", default=[], metavar="URL", help=MIRROR)
    parser.add_argument("--dry-run", action="store_true", help="print the plan with downloads and disk, do nothing")
    return parser


def _add_preparation(parser: argparse.ArgumentParser, symbols: int | None, told: str = "") -> None:
    """Add the options that both have; ``symbols``: the default, ``told`` so in the help."""
    parser.add_argument("--out", type=named, required=True, help="folder for all results")
    overwrite = "write over files of OUT that no earlier preparation has made"
    parser.add_argument("--overwrite", action="store_true", help=overwrite)
    parser.add_argument("--subwords", choices=["bpe", "sentencepiece"], default=Subwords.kind, help="kind of subwords")
    number = f"BPE merges, or size of the vocabulary{told}"
    parser.add_argument("--symbols", type=int, default=symbols, metavar="N", help=number)
    learners = ["subword-nmt", "tokenizers"]
    parser.add_argument("--bpe-learner", choices=learners, default=Subwords.learner, help=LEARNER)
    parser.add_argument("--character-coverage", type=float, metavar="X", help=COVERAGE)
    sample = "only the first N pairs of each training text (default: all)"
    parser.add_argument("--sample", type=int, metavar="N", help=sample)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help=JOBS)
    parser.add_argument("--cluster", metavar="ADDRESS", help=CLUSTER)


def _text(args: argparse.Namespace) -> None:
    train, valid, test = ([PlainText(*pair) for pair in pairs] for pairs in (args.train, args.valid, args.test))
    corpus = Corpus((args.source_lang, args.target_lang), train, valid, test, args.sample)
    recipe = CorpusRecipe(
        Words(args.tokenize, dash_splits=args.dash_splits, normalize=not args.keep_punctuation),
        Subwords(args.subwords, args.symbols, args.bpe_learner, args.character_coverage),
        PairFilter(args.max_length, args.max_ratio),
    )
    check_number("jobs", args.jobs)
    check_disk(args.out, bytes_of(corpus))
    with working(args.jobs, args.cluster) as workers:
        print(format_summary(prepare(corpus, recipe, args.out, workers, overwrite=args.overwrite)))
    print(how_to_translate(args.out / "data-bin", Path("checkpoints")))  # fairseq-train's own --save-dir


def _wmt14(args: argparse.Namespace) -> None:
    for option in "jobs", "sample":
        check_number(option, getattr(args, option))
    task = TASKS[args.pair]
    symbols = task.symbols if args.symbols is None else args.symbols
    subwords = Subwords(args.subwords, symbols, args.bpe_learner, args.character_coverage)
    preparation = Preparation(task, args.out, subwords, args.archives, args.mirror, args.sample)
    if args.dry_run:
        print(preparation)
        return
    with working(args.jobs, args.cluster) as workers:
        print(format_summary(preparation.run(workers, args.overwrite)))
    print(f"next: bash examples/wmt14_{args.pair.replace('-', '_')}/train.sh resmlp6 {args.out}")
    print(how_to_translate(args.out / "data-bin", args.out / "resmlp6"))
