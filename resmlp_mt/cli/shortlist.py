"""Make the shortlist of a model's folder: the target tokens that go with each source token, for faster translation."""

import argparse

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser, positive

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
    from resmlp_mt.translate.shortlist import make_shortlist

    make_shortlist(args.folder, args.train, args.valid, args.lines, args.per_token, args.always, args.overwrite)
