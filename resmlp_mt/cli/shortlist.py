"""Make the shortlist of a model's folder: the target tokens that go with each source token, for faster translation."""

import argparse

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser, positive
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_outputs, read_parallel

EPILOG = """
Written to FOLDER/shortlist.txt: which target tokens go with which source tokens, by IBM Model 1 of the training text.
With that file there, resmlp-mt translate, serve and Translator score for each sentence its own few hundred target
tokens only, which is faster, and changes some translations. The format is that of CTranslate2's vmap.

example:
  resmlp-mt shortlist en-de --train train.en train.de --valid val.en val.de
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("folder", type=named, metavar="FOLDER", help="made by resmlp-mt export")
    for option, what in (
        ("--train", "running text to count in"),
        ("--valid", "other text: tell how much of its target tokens the shortlist has"),
    ):
        parser.add_argument(
            option, nargs=2, type=named, metavar=("SOURCE", "TARGET"), required=option == "--train", help=what
        )
    for option, most, default, what in (
        ("--lines", 999_999_999, 200_000, "use the first N lines; one of 25 tokens a side takes 20 kB of memory"),
        ("--per-token", 10_000, 20, "target tokens to keep for each source token"),
        ("--always", 100_000, 100, "frequent target tokens that every sentence may have"),
    ):
        parser.add_argument(
            option, type=positive(most), default=default, metavar="N", help=f"{what} (default: {default})"
        )
    parser.add_argument("--overwrite", action="store_true", help="replace the folder's shortlist")
    return parser


def main() -> None:
    args = get_parser().parse_args()
    from collections import Counter
    from itertools import islice
    from pathlib import Path

    from resmlp_mt.translate.lexicon import lexicon
    from resmlp_mt.translate.model_folder import load
    from resmlp_mt.translate.shortlist import SHORTLIST, covered, encoded, read_shortlist, shortlist_lines

    path = Path(args.folder) / SHORTLIST
    model, tokenizer, _ = load(args.folder)
    if path.exists() and not args.overwrite:
        raise UserError(f"{path}: exists: give --overwrite to replace it")
    check_outputs([path], [*args.train, *(args.valid or [])])
    if model.cfg.adaptive_cutoffs:
        raise UserError(f"{args.folder}: its model has an adaptive softmax: no shortlist would make it faster")
    limits = model.encoder.limit, model.decoder.limit
    valid = list(encoded(tokenizer, read_parallel(args.valid), limits)) if args.valid else []
    pairs = list(encoded(tokenizer, islice(read_parallel(args.train), args.lines), limits))
    if not pairs:
        raise UserError(
            f"{args.train[0]}, {args.train[1]}: no line has words on both sides, and no more than the model takes"
        )
    of_source = lexicon(pairs, args.per_token)
    frequent = Counter(number for _, target in pairs for number in target).most_common(args.always)
    with atomic_write(path) as file:
        for line in shortlist_lines(tokenizer, [number for number, _ in frequent], of_source):
            file.write(f"{line}\n")
    print(f"wrote {path}: {len(of_source):,} source tokens, from {len(pairs):,} pairs of sentences")
    if valid:
        shortlist = read_shortlist(path, tokenizer.source, tokenizer.target)
        found, tokens, size = covered(shortlist, valid)
        print(f"{found / tokens:.2%} of the {tokens:,} target tokens of {args.valid[1]} are in their sentence's list")
        print(f"a sentence has {size:.0f} target tokens of {len(tokenizer.target):,} on average")
