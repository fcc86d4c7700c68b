"""``resmlp-mt``: a subcommand a job. ``plot-training`` is the function ``plot_training`` of its module."""

import argparse
import importlib
import logging
import re
import sys
from importlib import metadata

from resmlp_mt.common.errors import told_in_one_line

COMMANDS = {
    # subcommand: its module, and what it is for
    "prepare-text": ("prepare", "parallel text of your own -> subwords -> data for fairseq"),
    "prepare-wmt14": ("prepare", "WMT14's public archives, En-De or En-Fr -> subwords -> data for fairseq"),
    "average": ("checkpoints", "average the parameters of checkpoints, the last ones of a training or those named"),
    "score": ("scores", "sacreBLEU, chrF2 and tokenized BLEU of what fairseq-generate printed"),
    "table5": ("scores", "the paper's table 5, tokenized BLEU on newstest2014, beside what was measured"),
    "cost": ("scores", "what training the systems of table 5 costs, by formula: FLOPs and GPU-hours"),
    "plot": ("plot", "the mixing matrices of a trained model: pictures, profiles, sparsity, what pruning leaves"),
    "plot-training": ("plot", "loss, perplexity, learning rate and speed of trainings from their logs"),
    "ablate": ("trainings", "train, translate and score a table of variants, several at a time"),
    "scale": ("trainings", "how the loss falls with parameters and data: trainings, and laws fitted to them"),
    "distill": ("trainings", "make training data of what a teacher translated: its targets for the training sources"),
    "export": ("checkpoints", "a trained model as a folder, text in, text out: for transformers and without fairseq"),
    "export onnx": ("checkpoints", "graphs for ONNX Runtime, an encoder and a step of the decoder, in such a folder"),
    "translate": ("folder", "text -> translations, line for line, with the folder of a trained model"),
    "shortlist": ("folder", "the target tokens that go with each source token, for faster translation"),
    "serve": ("folder", "a page and an interface over HTTP, with the folder of a trained model"),
    "benchmark": ("benchmark", "speed and memory of training and generation, beside other architectures of one size"),
    "benchmark translate": ("benchmark", "engines that translate real text: speed, quality, latency, memory, size"),
}

EXAMPLE = """from text to a page:
  resmlp-mt prepare-text ... --out work                            text -> work/data-bin
  fairseq-train work/data-bin --user-dir resmlp_mt --arch resmlp_transformer ... --save-dir checkpoints
  resmlp-mt export checkpoints/checkpoint_best.pt --data work/data-bin --out FOLDER
  resmlp-mt serve FOLDER

resmlp-mt COMMAND --help tells a command's options"""


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a command."""
    module, what = COMMANDS[name]
    make = getattr(importlib.import_module(f"resmlp_mt.cli.{module}"), re.sub("[- ]", "_", name))
    parser: argparse.ArgumentParser = make()
    parser.description = f"{what[0].upper()}{what[1:]}."
    return parser


def run(name: str) -> None:
    """Run a command with the arguments that ``sys.argv`` has."""
    args = parser_of(name).parse_args()
    args.run(args)


def main(name: str | None = None) -> None:
    """Run the command that the first argument names, or that a script is (``scripts/score_bleu.py``)."""
    with told_in_one_line():
        if name is None:
            name, *rest = sys.argv[1:] or ["--help"]
            if name in ("-h", "--help"):
                return print(_contents())
            if name == "--version":
                return print(f"resmlp-mt {metadata.version('resmlp-mt')}")
            if name not in COMMANDS:
                print(f"resmlp-mt: no command {name!r}; resmlp-mt --help lists them", file=sys.stderr)
                sys.exit(2)
            if rest and f"{name} {rest[0]}" in COMMANDS:
                name = f"{name} {rest.pop(0)}"
            sys.argv = [f"resmlp-mt {name}", *rest]  # what argparse calls the command
        # Warnings only. fairseq would set up more as it is imported, but does not if logging is set up already.
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        run(name)


def _contents() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(["usage: resmlp-mt COMMAND ...", "", *lines, "", EXAMPLE])
