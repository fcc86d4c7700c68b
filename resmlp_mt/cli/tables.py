"""``table5``, the paper's table beside what was measured, and ``cost``, what its trainings take."""

import argparse

from resmlp_mt.cli.arguments import add_flag, command_parser, number_within, run_of

RUNS = """
The folder of a run has the name of its system (lstm, convs2s, transformer, resmlp6, resmlp12; gated6 and gated12, which
the paper does not have) and holds test.json, which evaluate.sh left. A folder of such folders stands for all of them;
SYSTEM=DIR names the system of a folder with another name. GNMT is in the paper; what is measured in its row is an LSTM
with attention, which is no GNMT.

examples:
  resmlp-mt table5 work/wmt14_en_de work/wmt14_en_fr
  resmlp-mt table5 resmlp6=elsewhere/run7 work/wmt14_en_de/transformer --markdown
"""
UTILIZATION = 0.14
"""Of the peak, by the same count: in fairseq issue 233, Ott et al.'s Transformer big trains on 1.67 million target
tokens a second (En-Fr) in half precision on 128 V100s. Smaller and recurrent models use less of a GPU."""
FORMULA = """
formula:
  training FLOPs = 3 x forward FLOPs a target token x target tokens
  target tokens  = updates x tokens of a batch (padding included), or epochs x pairs x length
  GPU-hours      = training FLOPs / (peak x utilization) / 3600
Forward FLOPs are those of resmlp_mt/lab/analysis/flops.py with sources and targets of the same length. Sizes, batch,
updates and epochs are those of the command that train.sh prints with DRY_RUN=1.

example:
  resmlp-mt cost en-de --gpu A100 --utilization 0.3
"""


def table5() -> argparse.ArgumentParser:
    parser = command_parser(None, RUNS, run_of("analysis.table5"))
    runs = "a scored run, a folder of them, or SYSTEM=DIR; without any: the paper's figures alone"
    parser.add_argument("runs", nargs="*", metavar="DIR", help=runs)
    _add_form(parser)
    return parser


def cost() -> argparse.ArgumentParser:
    parser = command_parser(None, FORMULA, run_of("analysis.flops"))
    parser.add_argument("pairs", nargs="*", metavar="PAIR", help="en-de or en-fr (default: both)")
    parser.add_argument("--gpu", choices=["V100", "A100"], default="V100", help="whose peak is taken")
    share = number_within(0.001, 1)
    parser.add_argument("--utilization", type=share, default=UTILIZATION, metavar="U", help="share of the peak")
    _add_form(parser)
    return parser


def _add_form(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    add_flag(form, "--markdown", "print the table in Markdown")
    add_flag(form, "--json", "print one JSON object")
