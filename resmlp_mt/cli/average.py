"""Average the parameters of the last checkpoints of a training, or of checkpoints given by name."""

import argparse
import re
from pathlib import Path

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser
from resmlp_mt.common.files import check_outputs

TRAININGS = re.compile(r"checkpoint([0-9]+|_[0-9]+_[0-9]+|_last|_best|\.best_.*)\.pt")
"""Names that fairseq-train gives."""

EPILOG = """
The result is for fairseq-generate, fairseq-interactive and from_pretrained. It holds no optimizer state: to train on
from it, give fairseq-train --finetune-from-model. Only types that fairseq's own checkpoints hold are loaded.

examples:
  resmlp-mt average --inputs checkpoints --num-epoch-checkpoints 5 --output checkpoints/avg.pt
  resmlp-mt average --inputs a.pt b.pt --output ab.pt
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument(
        "--inputs",
        nargs="+",
        required=True,
        metavar="PATH",
        help="one directory of checkpoints (with one of the --num options), or the checkpoint files themselves, "
        "oldest first",
    )
    parser.add_argument("--output", type=named, required=True, metavar="FILE", help="the averaged checkpoint to write")
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--num-epoch-checkpoints", type=int, metavar="N", help="average the last N checkpointE.pt of the directory"
    )
    number.add_argument(
        "--num-update-checkpoints", type=int, metavar="N", help="average the last N checkpoint_E_U.pt of the directory"
    )
    parser.add_argument(
        "--checkpoint-upper-bound",
        type=int,
        metavar="E_OR_U",
        help="the last epoch (or update) to use (default: the last there is)",
    )
    return parser


def find_inputs(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[Path]:
    from resmlp_mt.fairseq_plugin.checkpoints.averaging import last_checkpoints

    inputs = [Path(path) for path in args.inputs]
    kind = "epoch" if args.num_epoch_checkpoints is not None else "update"
    count = args.num_epoch_checkpoints if kind == "epoch" else args.num_update_checkpoints
    if count is not None:
        if count < 1:
            parser.error(f"--num-{kind}-checkpoints must be 1 or more")
        if len(inputs) != 1:
            parser.error(f"--num-{kind}-checkpoints takes one directory as --inputs")
        return last_checkpoints(inputs[0], count, kind, args.checkpoint_upper_bound)
    if args.checkpoint_upper_bound is not None:
        parser.error("--checkpoint-upper-bound goes with --num-epoch-checkpoints or --num-update-checkpoints")
    if inputs[0].is_dir():
        parser.error(
            f"{inputs[0]} is a directory: say how many, with --num-epoch-checkpoints or --num-update-checkpoints"
        )
    return inputs


def main() -> None:
    parser = get_parser()
    args = parser.parse_args()
    from resmlp_mt.fairseq_plugin.checkpoints.averaging import average_checkpoints, save_checkpoint

    inputs = find_inputs(parser, args)
    trainings = [path for path in Path(args.inputs[0]).glob("checkpoint*") if TRAININGS.fullmatch(path.name)]
    check_outputs([args.output], [*inputs, *trainings])  # of a directory those too that are not averaged
    print(f"averaging {', '.join(map(str, inputs))}")
    save_checkpoint(average_checkpoints(inputs), args.output)
    print(f"wrote {args.output}")
