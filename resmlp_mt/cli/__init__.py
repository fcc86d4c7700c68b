"""The command ``resmlp-mt`` and its subcommands. ``plot-training`` is the function ``plot_training`` of its module."""

import argparse
import importlib
import logging
import re
import sys

from resmlp_mt import __version__
from resmlp_mt.common.errors import one_line_errors

COMMANDS = {
    # subcommand: its module, and what it is for
    "prepare-text": ("prepare", "prepare your own parallel text: subwords, binary data for fairseq"),
    "prepare-wmt14": ("prepare", "download and prepare WMT14 En-De or En-Fr: subwords, binary data for fairseq"),
    "average": ("checkpoints", "average the parameters of a training's last checkpoints, or of given ones"),
    "score": ("scores", "compute sacreBLEU, chrF2 and tokenized BLEU of fairseq-generate's output"),
    "table5": ("scores", "the paper's table 5 (tokenized BLEU on newstest2014) next to your own scores"),
    "cost": ("scores", "estimate what training the systems of table 5 costs: FLOPs and GPU-hours"),
    "plot": ("plot", "draw the mixing matrices of a trained model, count small weights, prune them"),
    "plot-training": ("plot", "draw loss, perplexity, learning rate and speed of trainings from their logs"),
    "ablate": ("trainings", "train, translate and score a table of variants, several at a time"),
    "scale": ("trainings", "train models of several sizes on several amounts of data, and fit scaling laws"),
    "distill": ("trainings", "make training data from a teacher's translations (knowledge distillation)"),
    "export": ("checkpoints", "write a trained model as a folder for transformers and for resmlp-mt translate"),
    "export onnx": ("checkpoints", "add graphs for ONNX Runtime to such a folder: the encoder and one decoder step"),
    "translate": ("folder", "translate text line by line with an exported folder"),
    "shortlist": ("folder", "write likely target tokens of each source token, for faster translation"),
    "serve": ("folder", "start a web page and an HTTP interface for an exported folder"),
    "benchmark": ("benchmark", "measure speed and memory of training and generation, next to other architectures"),
    "benchmark translate": ("benchmark", "compare engines on real text: speed, quality, latency, memory, size"),
}

EXAMPLE = """from text to a page:
  resmlp-mt prepare-text ... --out work                            text -> work/data-bin
  fairseq-train work/data-bin --user-dir resmlp_mt --arch resmlp_transformer ... --save-dir checkpoints
  resmlp-mt export checkpoints/checkpoint_best.pt --data work/data-bin --out FOLDER
  resmlp-mt serve FOLDER

resmlp-mt COMMAND --help shows a command's options"""


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    module, what = COMMANDS[name]
    make = getattr(importlib.import_module(f"resmlp_mt.cli.{module}"), re.sub("[- ]", "_", name))
    parser: argparse.ArgumentParser = make()
    parser.description = f"{what[0].upper()}{what[1:]}."
    return parser


def run(name: str) -> None:
    """Run a command with the arguments in ``sys.argv``."""
    args = parser_of(name).parse_args()
    args.run(args)


def main(name: str | None = None) -> None:
    """Run the command ``name`` (``scripts/score_bleu.py`` gives one), or the one that the first argument names."""
    with one_line_errors():
        if name is None:
            name, *rest = sys.argv[1:] or ["--help"]
            if name in ("-h", "--help"):
                width = max(map(len, COMMANDS))
                lines = [f"  {command:<{width}}  {what}" for command, (_, what) in COMMANDS.items()]
                return print("\n".join(["usage: resmlp-mt COMMAND ...", "", *lines, "", EXAMPLE]))
            if name == "--version":
                return print(f"resmlp-mt {__version__}")
            if name not in COMMANDS:
                print(f"resmlp-mt: no command {name!r}; resmlp-mt --help lists them", file=sys.stderr)
                sys.exit(2)
            if rest and f"{name} {rest[0]}" in COMMANDS:
                name = f"{name} {rest.pop(0)}"
            sys.argv = [f"resmlp-mt {name}", *rest]  # argparse prints this name
        # Show warnings only. On import, fairseq sets up more logging, unless logging is set up already.
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        run(name)
