"""Prepare WMT14 English-German or English-French for fairseq: the public archives -> OUT/data-bin."""

import argparse
from pathlib import Path

from resmlp_mt.corpora import catalog
from resmlp_mt.corpora.archives import ArchivedText
from resmlp_mt.corpora.characters import FATES
from resmlp_mt.corpora.filtering import PairFilter
from resmlp_mt.corpora.official_sets import OfficialText
from resmlp_mt.corpora.pipeline import Corpus, Recipe, prepare
from resmlp_mt.corpora.plan import Plan
from resmlp_mt.corpora.prepared import format_prepared, prepare_subwords
from resmlp_mt.corpora.subwords import Subwords
from resmlp_mt.corpora.summary import format_summary, how_to_translate
from resmlp_mt.corpora.tokens import Words
from resmlp_mt.errors import UserError

EPILOG = """
what is prepared (resmlp_mt/corpora/catalog.py names every archive, its bytes and where that is known from):
  en-de   train: Europarl v7, Common Crawl, News Commentary v9; valid: newstest2013; test: newstest2014, in full
  en-fr   train: those, the UN documents and Giga-French; valid: newstest2012 and 2013; test: newstest2014, in full

how: punctuation normalised, non-printing characters dropped, words by Moses' rules with hyphens split (tokenizer.perl
  -a), joint subwords; training pairs are dropped that are empty, longer than 250 subwords, or 1.5 times longer on one
  side than on the other; one dictionary for both languages.

what OUT gets:
  raw/                    the archives, unless --archives names them; needed again only if this is run again
  data-bin/               for fairseq-train and fairseq-generate
  newstest2014.LANG ...   the official text as sacrebleu has it: score against newstest2014.TARGET
  summary.json            pairs read, kept and dropped by reason, words, subwords, unknown rates
  and what a run that was broken off, or has other options, goes on from: it redoes only what must be redone

examples:
  python scripts/prepare_wmt14.py en-de --out work/wmt14_en_de --dry-run
  python scripts/prepare_wmt14.py en-de --out work/wmt14_en_de --jobs 8
  python scripts/prepare_wmt14.py en-fr --out work/sample --archives downloads --sample 10000
  python scripts/prepare_wmt14.py en-de --out work/google --archives downloads --prepared wmt16-google
"""


def get_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"{EPILOG}\n{FATES}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", choices=sorted(catalog.TASKS), help="source and target language")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for all results")
    parser.add_argument(
        "--archives", type=Path, metavar="DIR",
        help="folder that has the archives, got by other means; they are checked, nothing is downloaded "
        "(--dry-run tells their names)",
    )  # fmt: skip
    parser.add_argument(
        "--subwords", choices=["bpe", "sentencepiece"], help=f"kind of subwords (default: {Subwords.kind})"
    )
    sizes = ", ".join(f"{task.symbols} for {pair}" for pair, task in sorted(catalog.TASKS.items()))
    parser.add_argument("--symbols", type=int, help=f"BPE merges, or size of the vocabulary (default: {sizes})")
    parser.add_argument("--jobs", type=int, default=1, help="processes; any number gives the same bytes (default: 1)")
    parser.add_argument("--sample", type=int, metavar="N", help="only the first N pairs of each training corpus")
    parser.add_argument("--dry-run", action="store_true", help="print the plan with downloads and disk, do nothing")
    parser.add_argument(
        "--prepared", choices=sorted(catalog.PREPARED),
        help="take instead a corpus that others cleaned and split into subwords (wmt16-google: en-de, 32k BPE, that "
        "Ott et al. 2018 trained on); nothing is dropped from it",
    )  # fmt: skip
    return parser


def main() -> None:
    """Run the command."""
    args = get_parser().parse_args()
    for option in ("jobs", "sample"):
        if (number := getattr(args, option)) is not None and number < 1:
            raise UserError(f"--{option} {number}: must be 1 or more")
    summary = _from_prepared(args) if args.prepared else _from_raw(args)
    if summary:
        print(summary)
        print(f"next: bash examples/wmt14_{args.pair.replace('-', '_')}/train.sh resmlp6 {args.out}")
        print(how_to_translate(args.out / "data-bin", args.out / "resmlp6"))


def _from_raw(args: argparse.Namespace) -> str | None:
    task = catalog.TASKS[args.pair]
    recipe = Recipe(
        Words("moses", dash_splits=True),
        Subwords(args.subwords or Subwords.kind, task.symbols if args.symbols is None else args.symbols),
        PairFilter(max_length=250, max_ratio=1.5),
    )
    archives = {bitext.archive: catalog.ARCHIVES[bitext.archive] for bitext in task.train}
    sets = [*task.valid, task.test]
    share = min(1.0, args.sample * len(task.train) / task.pairs) if args.sample else 1.0
    files = [*archives.values(), *(official.archive for official in sets)]
    paths = _obtained(Plan(files, args.archives, args.out, round(share * task.text_bytes)), args.dry_run)
    if not paths:
        return None
    train = [_archived(bitext.name, paths[bitext.archive], bitext.members, task.langs) for bitext in task.train]
    texts = [
        OfficialText(*official.written_into(args.out, paths[official.archive.name], task.langs)) for official in sets
    ]
    corpus = Corpus(task.langs, train, texts[:-1], texts[-1:], args.sample)
    return format_summary(prepare(corpus, recipe, args.out, args.jobs))


def _from_prepared(args: argparse.Namespace) -> str | None:
    known = catalog.PREPARED[args.prepared]
    if args.pair != "-".join(known.langs):
        raise UserError(f"--prepared {args.prepared}: has {'-'.join(known.langs)} alone, not {args.pair}")
    if args.subwords or args.symbols is not None:
        raise UserError(f"--prepared {args.prepared}: has its makers' subwords: leave out --subwords and --symbols")
    files = [catalog.ARCHIVES[known.archive], known.test.archive]
    paths = _obtained(Plan(files, args.archives, args.out, known.text_bytes), args.dry_run)
    if not paths:
        return None
    known.test.written_into(args.out, paths[known.test.archive.name], known.langs)
    archive = paths[known.archive]
    sets = {split: [_archived(split, archive, members, known.langs)] for split, members in known.splits.items()}
    corpus = Corpus(known.langs, **sets, sample=args.sample)
    codes = archive, known.codes
    return format_prepared(prepare_subwords(corpus, codes, known.words, known.symbols, args.out, args.jobs))


def _obtained(plan: Plan, dry_run: bool) -> dict[str, Path] | None:
    if dry_run:
        print(plan)
        return None
    return plan.obtained()


def _archived(name: str, archive: Path, members: str, langs: tuple[str, str]) -> ArchivedText:
    source, target = langs
    return ArchivedText(name, archive, (members.format(lang=source), members.format(lang=target)))
