"""Compare the speed and memory of fairseq architectures of one size, in training and in generation."""

import argparse
import sys

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser, number_within, positive

EPILOG = """
systems:
  resmlp_transformer                              an architecture, untrained, of the size that all have
  resmlp_transformer:layerscale_init=0.1,dropout=0.2
                                                  with options of fairseq-train
  transformer@onednn, resmlp_transformer@onednn:dropout=0.2
                                                  fp32 matrices multiplied by oneDNN in the place of BLAS
  checkpoint.pt, checkpoint.pt:option=value       a trained model, in generation with --data; --model-overrides
  ctranslate2:compute_type=int8                   the baseline through CTranslate2, where it is installed

Real text, from text to text, by fairseq, CTranslate2 and Translator: resmlp-mt benchmark translate --help

examples:
  resmlp-mt benchmark all --quick
  resmlp-mt benchmark all --markdown BENCHMARKS.md --plots examples/benchmarks
  resmlp-mt benchmark training --shapes 24x32 --system resmlp_transformer --system transformer --threads 2
  resmlp-mt benchmark generation --data work/multi30k/data-bin --system resmlp.pt --system transformer.pt \\
    --baseline transformer.pt --system ctranslate2:compute_type=int8 --sentences 256
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("what", choices=["training", "generation", "workers", "all"])
    parser.add_argument("--quick", action="store_true", help="a minute in the place of half an hour")
    parser.add_argument("--system", action="append", metavar="NAME", help="what to compare, in the place of the usual")
    parser.add_argument("--baseline", metavar="NAME", help="the system that the others are compared with (transformer)")
    shapes = "batches, such as 24x32, lengths in subwords with </s>; one comparison in the place of several"
    parser.add_argument("--shapes", nargs="+", metavar="LENGTHxSENTENCES", help=shapes)
    size = parser.add_argument_group("size of the models")
    size.add_argument("--size", choices=["base", "small"], help="that of the paper's model, or of Multi30k's")
    for name, most in MOST.items():
        size.add_argument(f"--{name}", type=positive(most, 5 if name == "vocabulary" else 1), metavar="N")
    conditions = parser.add_argument_group("conditions")
    conditions.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda has not been tried yet")
    conditions.add_argument("--fp16", action="store_true", help="on CUDA")
    conditions.add_argument("--threads", type=positive(1000), metavar="N", help="of a process (cores; 1 for workers)")
    conditions.add_argument("--beam", type=positive(1000), default=4, metavar="N")
    conditions.add_argument(
        "--padding", type=number_within(0, 0.49), metavar="X", help="part of a batch that is padding (0.1)"
    )
    conditions.add_argument("--rounds", type=positive(1000), metavar="N", help="how often each is timed")
    conditions.add_argument("--warmup", type=positive(1000), metavar="N", help="rounds before that")
    conditions.add_argument("--no-memory", action="store_true", help="time alone")
    conditions.add_argument("--profile", action="store_true", help="also show where the time goes, by operation")
    conditions.add_argument("--processes", type=positive(100), default=2, metavar="N", help="of workers")
    text = parser.add_argument_group("sentences to translate, random ones unless given")
    text.add_argument(
        "--data", type=named, metavar="FOLDER", help="what fairseq-preprocess made, with a joined dictionary"
    )
    text.add_argument("--split", default="test")
    text.add_argument("--sentences", type=positive(10**6), metavar="N", help="how many, at least")
    output = parser.add_argument_group("output, beside the tables")
    output.add_argument("--json", metavar="FILE")
    output.add_argument("--markdown", metavar="FILE")
    output.add_argument("--plots", metavar="FOLDER", help="PNG files; needs matplotlib")
    return parser


MOST = {"width": 1 << 16, "mlp": 1 << 18, "layers": 1000, "heads": 1000, "vocabulary": 1 << 20}
"""Sizes beyond which a model is a slip of the hand."""


def main() -> None:
    if sys.argv[1:2] == ["translate"]:
        from resmlp_mt.cli import benchmark_translate

        sys.argv = [f"{sys.argv[0]} translate", *sys.argv[2:]]
        return benchmark_translate.main()
    args = get_parser().parse_args()
    from resmlp_mt.lab.benchmarks.command import run

    run(args)
