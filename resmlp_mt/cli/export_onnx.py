"""Add graphs for ONNX Runtime to a folder that resmlp-mt export made: an encoder and a step of the decoder."""

import argparse

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser

EPILOG = """
written to FOLDER/onnx, which must not exist yet and appears whole, for --engine onnx of translate and serve:
  encoder.onnx        source -> keys, values, mask
  decoder_step.onnx   previous, past, keys, values, mask -> log_probabilities, longer_past, attention

Before, the scores of searches are compared with PyTorch's.
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("folder", type=named, metavar="FOLDER", help="made by resmlp-mt export")
    return parser


def main() -> None:
    args = get_parser().parse_args()
    from resmlp_mt.export.graphs import add_graphs
    from resmlp_mt.translate.graphs import FOLDER, TOLERANCE

    difference = add_graphs(args.folder)
    print(f"difference of a log-probability from PyTorch's: {difference:.1e} (allowed: {TOLERANCE:.0e})")
    print(f"wrote {args.folder / FOLDER}")
