"""Prepare parallel text for fairseq: words, joint subwords, binarized data. `--help` tells the options."""

import argparse
from pathlib import Path

from resmlp_mt.cli import named
from resmlp_mt.common.workers import HELP, HELP_CLUSTER, working
from resmlp_mt.data.chunks import PairFilter
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, bytes_of, check_number, prepare
from resmlp_mt.data.sources import PlainText
from resmlp_mt.data.steps import check_disk
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.data.summary import format_summary, how_to_translate
from resmlp_mt.text.characters import FATES
from resmlp_mt.text.words import Words

EXAMPLE = """example:
  resmlp-mt prepare-text --source-lang en --target-lang de --train train.en train.de --valid valid.en valid.de \\
      --test test.en test.de --out work"""


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    pass


def add_preparation(parser: argparse.ArgumentParser, symbols: int | None, told: str = "") -> None:
    """Add the options that all preparations have; ``symbols``: the default, ``told`` so in the help."""
    suppress = argparse.SUPPRESS
    parser.add_argument("--out", type=named, required=True, default=suppress, help="folder for all results")
    parser.add_argument(
        "--overwrite", action="store_true", help="write over files of OUT that no earlier preparation has made"
    )
    parser.add_argument("--subwords", choices=["bpe", "sentencepiece"], default=Subwords.kind, help="kind of subwords")
    parser.add_argument("--symbols", type=int, default=symbols, help=f"BPE merges, or size of the vocabulary{told}")
    parser.add_argument(
        "--bpe-learner",
        choices=["subword-nmt", "tokenizers"],
        default=Subwords.learner,
        help="library that learns BPE: tokenizers (Hugging Face's, to be installed) is several times as fast; its "
        "merges are as good, not the same",
    )
    parser.add_argument(
        "--character-coverage",
        type=float,
        help="share of the text's characters that sentencepiece makes pieces of, 0.98 to 1; the rest is unknown; None: "
        "0.9995, but at least the 1,000 most frequent characters",
    )
    parser.add_argument("--sample", type=int, metavar="N", help="only the first N pairs of each training text")
    parser.add_argument("--jobs", type=int, default=1, help=HELP)
    parser.add_argument("--cluster", metavar="ADDRESS", help=HELP_CLUSTER)


def get_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        description="Plain (or .gz) parallel text -> OUT/data-bin for fairseq-train and fairseq-generate.\n"
        "Stopped at any moment and run again, it goes on; with other options, it redoes what depends on them.",
        epilog=f"{FATES}\n\n{EXAMPLE}",
        formatter_class=_Help,
    )
    for split in ("train", "valid", "test"):
        parser.add_argument(
            f"--{split}", nargs=2, type=Path, required=True, metavar=("SRC", "TGT"), default=argparse.SUPPRESS,
            action="append",
            help=f"{split} text, one sentence a line, UTF-8, both files aligned line by line; may be given again",
        )  # fmt: skip
    parser.add_argument("--source-lang", required=True, default=argparse.SUPPRESS, help="two-letter code, such as en")
    parser.add_argument("--target-lang", required=True, default=argparse.SUPPRESS, help="two-letter code, such as de")
    add_preparation(parser, Subwords.symbols)
    parser.add_argument(
        "--tokenize", choices=["moses", "none"], default=Words.tokenizer, help="what makes words of text"
    )
    parser.add_argument("--dash-splits", action="store_true", help="split compounds at hyphens (tokenizer.perl -a)")
    parser.add_argument("--keep-punctuation", action="store_true", help="do not normalize quotes, dashes and so on")
    parser.add_argument(
        "--max-length", type=int, default=PairFilter.max_length, help="drop training pairs with more subwords on a side"
    )
    parser.add_argument(
        "--max-ratio", type=float, help="drop training pairs with one side that many times longer, in subwords"
    )
    return parser


def main() -> None:
    """Run the command."""
    args = get_parser().parse_args()
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
