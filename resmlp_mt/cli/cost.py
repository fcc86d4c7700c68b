"""Estimate what training a system of table 5, or beyond it, costs: FLOPs, and GPU-hours at some utilization."""

import argparse

from resmlp_mt.cli.arguments import add_form, command_parser, number_within, run_of

UTILIZATION = 0.14
"""Of the peak, by the same count: in fairseq issue 233, Ott et al.'s Transformer big trains on 1.67 million target
tokens a second (En-Fr) in half precision on 128 V100s. Smaller and recurrent models use less of a GPU."""

EPILOG = """
formula:
  training FLOPs = 3 x forward FLOPs a target token x target tokens
  target tokens  = updates x tokens of a batch (padding included), or epochs x pairs x length
  GPU-hours      = training FLOPs / (peak x utilization) / 3600
Forward FLOPs are those of resmlp_mt/lab/analysis/flops.py with sources and targets of the same length. Sizes, batch,
updates and epochs are those of the command that train.sh prints with DRY_RUN=1.

examples:
  resmlp-mt cost
  resmlp-mt cost en-de --gpu A100 --utilization 0.3
"""


def cost() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG, run_of("analysis.flops"))
    parser.add_argument("pairs", nargs="*", metavar="PAIR", help="en-de or en-fr (default: both)")
    parser.add_argument("--gpu", choices=["V100", "A100"], default="V100", help="whose peak is taken")
    share = number_within(0.001, 1)
    parser.add_argument("--utilization", type=share, default=UTILIZATION, metavar="U", help="share of the peak")
    add_form(parser)
    return parser
