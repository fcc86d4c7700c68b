"""Compare engines that translate real text, from text to text: speed, quality, latency, memory, size."""

import argparse

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser, positive

EPILOG = """
engines:
  transformer.pt                          a checkpoint of any fairseq model, by fairseq's own search
  resmlp.pt:inference_precision=bf16      with options in the place of its own; batch_size=64 unless given
  ctranslate2/transformer.pt:compute_type=int8
                                          the same Transformer in CTranslate2; max_batch_size=64 unless given, vmap=FILE
  FOLDER, FOLDER:precision=bf16           made by resmlp-mt export, in Translator; also engine=compiled

Each runs in a process of its own, and they take turns. The first one is what the others are compared with. A text is
SOURCE or SOURCE:REFERENCE, a sentence a line.

example:
  resmlp-mt benchmark translate --data data-bin --languages en de --text test.en:test.de --threads 1 \\
    --engine transformer.pt --engine ctranslate2/transformer.pt:compute_type=int8 --engine en-de --json speed.json
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("--engine", action="append", required=True, metavar="NAME", help="what to compare")
    parser.add_argument("--data", type=named, required=True, metavar="DATA_BIN", help="the training's binarized data")
    parser.add_argument("--languages", nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--text", action="append", required=True, metavar="SOURCE[:REFERENCE]", help="plain files")
    parser.add_argument("--threads", type=positive(1000), default=1, metavar="N", help="of each engine (default: 1)")
    parser.add_argument("--beam", type=positive(1000), default=4, metavar="N", help="default: 4")
    parser.add_argument("--rounds", type=positive(1000), default=5, metavar="N", help="how often each is timed (5)")
    parser.add_argument("--profile", action="store_true", help="also show where the time goes, by PyTorch operation")
    output = parser.add_argument_group("output, beside the table")
    output.add_argument("--json", type=named, metavar="FILE")
    output.add_argument("--markdown", type=named, metavar="FILE")
    output.add_argument("--plot", type=named, metavar="FILE", help="BLEU against speed, a PNG; needs matplotlib")
    return parser


def main() -> None:
    args = get_parser().parse_args()
    from resmlp_mt.lab.benchmarks.real_text import run

    run(args)
