"""Prepare WMT14 English-German or English-French for fairseq: the public archives -> OUT/data-bin."""

import argparse
from collections.abc import Sequence

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser
from resmlp_mt.common.errors import UserError
from resmlp_mt.data import catalog, pipeline, published_subwords
from resmlp_mt.data.archives import ArchivedText
from resmlp_mt.data.cluster import HELP as HELP_CLUSTER
from resmlp_mt.data.cluster import working
from resmlp_mt.data.disk import DiskWork
from resmlp_mt.data.download import PublicFile
from resmlp_mt.data.filtering import PairFilter
from resmlp_mt.data.official_sets import OfficialText
from resmlp_mt.data.parallel import HELP as HELP_JOBS
from resmlp_mt.data.parallel import Jobs
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, check_number
from resmlp_mt.data.preparation_plan import PreparationPlan
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.data.summary import format_summary, how_to_translate
from resmlp_mt.text.characters import FATES
from resmlp_mt.text.words import Words

EPILOG = """
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

examples:
  resmlp-mt prepare-wmt14 en-de --out work/wmt14_en_de --dry-run
  resmlp-mt prepare-wmt14 en-de --out work/wmt14_en_de --jobs 8
  resmlp-mt prepare-wmt14 en-fr --out work/sample --archives downloads --sample 10000
  resmlp-mt prepare-wmt14 en-de --out work/google --archives downloads --prepared wmt16-google
"""


def get_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = command_parser(__doc__, f"{EPILOG}\n{FATES}")
    parser.add_argument("pair", choices=sorted(catalog.TASKS), help="source and target language")
    parser.add_argument("--out", type=named, required=True, metavar="DIR", help="folder for all results")
    parser.add_argument(
        "--overwrite", action="store_true", help="write over files of OUT that no earlier preparation has made"
    )
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
    parser.add_argument(
        "--subwords", choices=["bpe", "sentencepiece"], help=f"kind of subwords (default: {Subwords.kind})"
    )
    sizes = ", ".join(f"{task.symbols} for {pair}" for pair, task in sorted(catalog.TASKS.items()))
    parser.add_argument("--symbols", type=int, help=f"BPE merges, or size of the vocabulary (default: {sizes})")
    parser.add_argument(
        "--bpe-learner", choices=["subword-nmt", "tokenizers"],
        help="library that learns BPE: tokenizers (Hugging Face's, to be installed) is several times as fast; its "
        f"merges are as good, not the same (default: {Subwords.learner}, for comparability)",
    )  # fmt: skip
    parser.add_argument(
        "--character-coverage", type=float,
        help="share of the text's characters that sentencepiece makes pieces of, 0.98 to 1; the rest is unknown "
        "(default: 0.9995, but at least the 1,000 most frequent characters)",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, help=f"{HELP_JOBS} (default: 1)")
    parser.add_argument("--cluster", metavar="ADDRESS", help=HELP_CLUSTER)
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
        check_number(option, getattr(args, option))
    with working(args.jobs, None if args.dry_run else args.cluster, args.out) as jobs:
        print(_from_prepared(args, jobs) if args.prepared else _from_raw(args, jobs))


def _from_raw(args: argparse.Namespace, jobs: Jobs) -> str:
    task = catalog.TASKS[args.pair]
    recipe = CorpusRecipe(
        Words("moses", dash_splits=True),
        Subwords(
            args.subwords or Subwords.kind,
            task.symbols if args.symbols is None else args.symbols,
            args.bpe_learner or Subwords.learner,
            args.character_coverage,
        ),
        PairFilter(max_length=250, max_ratio=1.5),
    )
    sets = [*task.valid, task.test]
    files: dict[PublicFile, Sequence[str]] = {
        **{catalog.ARCHIVES[bitext.archive]: bitext.members_for(task.langs) for bitext in task.train},
        **{official.archive: () for official in sets},  # the official text, as scores are computed on
    }
    anew = pipeline.made_otherwise(args.out, task.langs, recipe, args.sample, [()] * len(task.train))
    made_already = pipeline.made_already(args.out, anew, len(task.train))
    share = _share(args.sample, len(task.train), task.pairs)
    work = DiskWork(args.out, round(share * task.text_bytes), anew, made_already)
    plan = PreparationPlan(files, args.archives, work, args.mirror)
    made = [path for official in sets for path in official.paths(args.out, task.langs)]
    numbers = {"train": len(task.train), "valid": len(task.valid), "test": 1}
    place = pipeline.place(args.out, task.langs, numbers, recipe.subwords, plan.inputs, made, args.overwrite)
    place.check()  # before hours of downloads
    if args.dry_run:
        return str(plan)
    paths = plan.obtained()
    train = [ArchivedText(bitext.name, paths[bitext.archive], bitext.members_for(task.langs)) for bitext in task.train]
    also = [official.step(args.out, paths[official.archive.name], task.langs) for official in sets]
    texts = [OfficialText(*official.paths(args.out, task.langs)) for official in sets]
    corpus = Corpus(task.langs, train, texts[:-1], texts[-1:], args.sample)
    return format_summary(pipeline.prepare(corpus, recipe, args.out, jobs, also, args.overwrite)) + _next(args)


def _from_prepared(args: argparse.Namespace, jobs: Jobs) -> str:
    known = catalog.PREPARED[args.prepared]
    if args.pair != "-".join(known.langs):
        raise UserError(f"--prepared {args.prepared}: has {'-'.join(known.langs)} alone, not {args.pair}")
    for option in ("subwords", "symbols", "bpe_learner", "character_coverage"):
        if getattr(args, option) is not None:
            name = option.replace("_", "-")
            raise UserError(f"--prepared {args.prepared}: has its makers' subwords: leave out --{name}")
    sides = {split: catalog.for_both(members, known.langs) for split, members in known.splits.items()}
    members = [*(member for both in sides.values() for member in both), known.codes]
    files = {catalog.ARCHIVES[known.archive]: members, known.test.archive: ()}
    task = catalog.TASKS[args.pair]  # the same text
    text_bytes = round(_share(args.sample, 1, task.pairs) * task.text_bytes)
    work = published_subwords.disk_work(args.out, text_bytes, args.sample, known.symbols)
    plan = PreparationPlan(files, args.archives, work, args.mirror)
    made = known.test.paths(args.out, known.langs)
    place = published_subwords.place(args.out, known.langs, plan.inputs, made, args.overwrite)
    place.check()  # before a long download
    if args.dry_run:
        return str(plan)
    paths = plan.obtained()
    also = [known.test.step(args.out, paths[known.test.archive.name], known.langs)]
    archive = paths[known.archive]
    sets = {split: [ArchivedText(split, archive, both)] for split, both in sides.items()}
    corpus = Corpus(known.langs, **sets, sample=args.sample)
    codes = archive, known.codes
    summary = published_subwords.prepare_subwords(
        corpus, codes, known.words, known.symbols, args.out, jobs, also, args.overwrite
    )
    return published_subwords.format_prepared(summary) + _next(args)


def _share(sample: int | None, sources: int, pairs: int) -> float:
    """How much of a training text of so many pairs is taken, about."""
    return min(1.0, sample * sources / pairs) if sample else 1.0


def _next(args: argparse.Namespace) -> str:
    train = f"\nnext: bash examples/wmt14_{args.pair.replace('-', '_')}/train.sh resmlp6 {args.out}"
    return f"{train}\n{how_to_translate(args.out / 'data-bin', args.out / 'resmlp6')}"
