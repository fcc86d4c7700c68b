"""Make the shortlist of a model's folder: the target tokens that go with each source token, for faster translation."""

import argparse
from typing import Any

from resmlp_mt.cli.arguments import add_exported_folder, add_flag, add_number, command_parser, named

EPILOG = """
Written to FOLDER/shortlist.txt: which target tokens go with which source tokens, by IBM Model 1 of the training text.
With that file there, resmlp-mt translate, serve and Translator score for each sentence its own few hundred target
tokens only, which is faster, and changes some translations. The format is that of CTranslate2's vmap.

example:
  resmlp-mt shortlist en-de --train train.en train.de --valid val.en val.de
"""


def shortlist() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG, _run)
    add_exported_folder(parser)
    pair: dict[str, Any] = {"nargs": 2, "type": named, "metavar": ("SOURCE", "TARGET")}
    parser.add_argument("--train", **pair, required=True, help="running text to count in")
    valid = "other text: tell how much of its target tokens the shortlist has"
    parser.add_argument("--valid", **pair, help=valid)
    lines = "use the first N lines; one of 25 tokens a side takes 20 kB of memory"
    add_number(parser, "--lines", 999_999_999, lines, 200_000)
    add_number(parser, "--per-token", 10_000, "target tokens to keep for each source token", 20)
    add_number(parser, "--always", 100_000, "frequent target tokens that every sentence may have", 100)
    add_flag(parser, "--overwrite", "replace the folder's shortlist")
    return parser


def _run(args: argparse.Namespace) -> None:
    from resmlp_mt.translate.shortlist import make_shortlist

    make_shortlist(args.folder, args.train, args.valid, args.lines, args.per_token, args.always, args.overwrite)
