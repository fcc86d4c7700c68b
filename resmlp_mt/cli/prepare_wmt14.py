"""Prepare WMT14 English-German or English-French for fairseq: the public archives -> OUT/data-bin."""

import argparse

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser
from resmlp_mt.cli.prepare_text import add_preparation
from resmlp_mt.common.workers import working
from resmlp_mt.data.pipeline import check_number
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.data.summary import format_summary, how_to_translate
from resmlp_mt.data.wmt14 import TASKS, Preparation
from resmlp_mt.text.characters import FATES

EPILOG = """
what is prepared (resmlp_mt/data/wmt14.py names every archive, its bytes and where that is known from):
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

examples:
  resmlp-mt prepare-wmt14 en-de --out work/wmt14_en_de --dry-run
  resmlp-mt prepare-wmt14 en-de --out work/wmt14_en_de --jobs 8
  resmlp-mt prepare-wmt14 en-fr --out work/sample --archives downloads --sample 10000
"""


def get_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = command_parser(__doc__, f"{EPILOG}\n{FATES}")
    parser.add_argument("pair", choices=sorted(TASKS), help="source and target language")
    sizes = ", ".join(f"{task.symbols} for {pair}" for pair, task in sorted(TASKS.items()))
    add_preparation(parser, None, f" (default: {sizes})")
    parser.add_argument(
        "--archives", type=named, metavar="DIR",
        help="folder that has the archives, got by other means; they are checked, nothing is downloaded "
        "(--dry-run tells their names). A .zip of known sums (told there too) or, unchecked, the unpacked files of a "
        "training corpus stand for its archive",
    )  # fmt: skip
    parser.add_argument(
        "--mirror", action="append", default=[], metavar="URL",
        help="address of a folder that may have the archives by these names, asked before the public ones; may be "
        "given again. What comes from there must have the same sums",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="print the plan with downloads and disk, do nothing")
    return parser


def main() -> None:
    """Run the command."""
    args = get_parser().parse_args()
    for option in ("jobs", "sample"):
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
