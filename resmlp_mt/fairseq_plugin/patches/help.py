"""The model's options in ``--help``."""

import argparse
import functools
import sys
from typing import Any

from fairseq import options


def show_model_options() -> None:
    """Let ``fairseq-train --help --arch resmlp_transformer`` show this model's options.

    fairseq adds a model's options to its parser only after a first parse, in which ``--help`` already prints and exits:
    no model's options are ever shown. For this model, and for help alone, they are added before.
    """
    from resmlp_mt.fairseq_plugin.presets import PRESETS
    from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel

    parse_args_and_arch = options.parse_args_and_arch

    @functools.wraps(parse_args_and_arch)
    def with_model_options(parser: argparse.ArgumentParser, input_args: list[str] | None = None, **rest: Any) -> Any:
        words = sys.argv[1:] if input_args is None else input_args
        named = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        named.add_argument("--arch", "-a")
        if {"-h", "--help"} & set(words) and named.parse_known_args(words)[0].arch in PRESETS:
            group = parser.add_argument_group("Model-specific configuration", argument_default=argparse.SUPPRESS)
            ResMLPTransformerModel.add_args(group)
        return parse_args_and_arch(parser, input_args=input_args, **rest)

    options.parse_args_and_arch = with_model_options
