"""``resmlp-mt``: a subcommand a job. ``plot-training`` is the function ``plot_training`` of ``plot.py``."""

import argparse
import importlib
import logging
import sys
from importlib import metadata

from resmlp_mt.common.errors import told_in_one_line

COMMANDS = {
    # subcommand: what it is for
    "prepare-text": "parallel text of your own -> subwords -> data for fairseq",
    "prepare-wmt14": "WMT14's public archives, En-De or En-Fr -> subwords -> data for fairseq",
    "average": "average checkpoints",
    "score": "sacreBLEU, chrF2 and tokenized BLEU of what fairseq-generate printed",
    "table5": "the paper's table 5 beside what was measured",
    "cost": "what training the systems of table 5 costs, by formula",
    "plot": "look at the mixing matrices of a trained model",
    "plot-training": "loss, perplexity, learning rate and speed of trainings from their logs",
    "ablate": "train, translate and score a table of variants",
    "scale": "how the loss falls with parameters, data and compute: a grid of trainings, and laws fitted to it",
    "distill": "make training data of what a teacher translated",
    "export": "a trained model as a folder for transformers; export onnx: for ONNX Runtime",
    "translate": "text -> translations, with the folder of a trained model",
    "shortlist": "the target tokens that go with each source token, for faster translation",
    "serve": "a page and an interface over HTTP, with the folder of a trained model",
    "benchmark": "speed and memory of training and generation, beside other architectures",
    "benchmark-corpora": "speed and memory of preparing a corpus, beside the plain tools",
}

SECOND_WORDS = "export onnx", "benchmark translate"
MODULES = {"ablate": "trainings", "scale": "trainings", "table5": "tables", "cost": "tables"}  # else: the first word

EXAMPLE = """from text to a page:
  resmlp-mt prepare-text ... --out work                            text -> work/data-bin
  fairseq-train work/data-bin --user-dir resmlp_mt --arch resmlp_transformer ... --save-dir checkpoints
  resmlp-mt export checkpoints/checkpoint_best.pt --data work/data-bin --out FOLDER
  resmlp-mt serve FOLDER

resmlp-mt COMMAND --help tells a command's options"""


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a command, or of one with a second word, as ``export-onnx``."""
    first = name.partition("-")[0]
    module = importlib.import_module(f"resmlp_mt.cli.{MODULES.get(first, first)}")
    parser: argparse.ArgumentParser = getattr(module, name.replace("-", "_"))()
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
            if rest and f"{name} {rest[0]}" in SECOND_WORDS:
                name = f"{name} {rest.pop(0)}"
            sys.argv = [f"resmlp-mt {name}", *rest]  # what argparse calls the command
        # Warnings only. fairseq would set up more as it is imported, but does not if logging is set up already.
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        run(name.replace(" ", "-"))


def _contents() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(["usage: resmlp-mt COMMAND ...", "", *lines, "", EXAMPLE])
