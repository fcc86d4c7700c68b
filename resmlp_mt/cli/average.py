"""Average the parameters of the last checkpoints of a training, or of checkpoints given by name."""

import argparse
from pathlib import Path

from resmlp_mt.cli.arguments import add_path, command_parser

EPILOG = """
The result is for fairseq-generate, fairseq-interactive and from_pretrained. It holds no optimizer state: to train on
from it, give fairseq-train --finetune-from-model. Only types that fairseq's own checkpoints hold are loaded.

examples:
  resmlp-mt average --inputs checkpoints --num-epoch-checkpoints 5 --output checkpoints/avg.pt
  resmlp-mt average --inputs a.pt b.pt --output ab.pt
"""


def average() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG, _run)
    files = "one directory of checkpoints (with one of the --num options), or checkpoint files, oldest first"
    parser.add_argument("--inputs", nargs="+", type=Path, required=True, metavar="PATH", help=files)
    add_path(parser, "--output", "FILE", "the averaged checkpoint to write", required=True)
    number = parser.add_mutually_exclusive_group()
    for kind, name in ("epoch", "checkpointE.pt"), ("update", "checkpoint_E_U.pt"):
        last = f"average the last N {name} of the directory"
        number.add_argument(f"--num-{kind}-checkpoints", type=int, metavar="N", help=last)
    bound = "the last epoch (or update) to use (default: the last there is)"
    parser.add_argument("--checkpoint-upper-bound", type=int, metavar="E_OR_U", help=bound)
    return parser


def _run(args: argparse.Namespace) -> None:
    from resmlp_mt.fairseq_plugin.trained import average_checkpoints, inputs_of, save_checkpoint

    counts = args.num_epoch_checkpoints, args.num_update_checkpoints
    inputs = inputs_of(args.inputs, args.output, *counts, args.checkpoint_upper_bound)
    print(f"averaging {', '.join(map(str, inputs))}")
    save_checkpoint(average_checkpoints(inputs), args.output)
    print(f"wrote {args.output}")
