"""Print the paper's table 5 beside what was measured: tokenized BLEU on newstest2014, and sacreBLEU."""

import argparse

from resmlp_mt.cli.arguments import add_form, command_parser, run_of

EPILOG = """
The folder of a run has the name of its system (lstm, convs2s, transformer, resmlp6, resmlp12; gated6 and gated12, which
the paper does not have) and holds test.json, which evaluate.sh left. A folder of such folders stands for all of them
that hold it; SYSTEM=DIR names the system of a folder with another name. GNMT is in the paper; what is measured in its
row is an LSTM with attention, which is no GNMT.

examples:
  resmlp-mt table5 work/wmt14_en_de work/wmt14_en_fr
  resmlp-mt table5 work/wmt14_en_de/resmlp6 work/wmt14_en_de/transformer --markdown
  resmlp-mt table5 resmlp6=elsewhere/run7 --json
"""


def table5() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG, run_of("analysis.table5"))
    runs = "a scored run, a folder of them, or SYSTEM=DIR; without any: the paper's figures alone"
    parser.add_argument("runs", nargs="*", metavar="DIR", help=runs)
    add_form(parser)
    return parser
