"""Export a trained model for ONNX Runtime: an encoder and a step of the decoder, with the same scores."""

import argparse
import importlib.util
from pathlib import Path
from typing import Any

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import add_user_dir, command_parser, import_user_dir
from resmlp_mt.common.errors import UserError

EPILOG = """
written to --out, which must not exist yet and appears whole:
  encoder.onnx        source -> keys, values, mask
  decoder_step.onnx   previous, past, keys, values, mask -> log_probabilities, longer_past, attention
  model.json          names, shapes and checksums of these, the model's languages, limits and special symbols
  dict.*.txt          the dictionaries

Before, the scores of random sentences are compared with PyTorch's. examples/onnx/ translates with the folder, without
PyTorch and fairseq.

example:
  resmlp-mt export onnx checkpoints/average.pt --data data-bin --out onnx
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("checkpoint", type=named, metavar="CHECKPOINT", help="of a resmlp_transformer")
    parser.add_argument("--out", required=True, type=named, metavar="FOLDER", help="the folder to make")
    parser.add_argument(
        "--data", required=True, type=named, metavar="DATA_BIN", help="the binarized data, with the dictionaries"
    )
    add_user_dir(parser)
    return parser


def checked_graphs(trained: Any, path: Path) -> Any:
    """The graphs of a trained model, whose scores are PyTorch's.

    Args:
        trained: a ``resmlp_mt.export.loading.Trained``
        path: of the checkpoint, for messages

    Raises:
        UserError: they are not, a package is missing, or the model cannot be exported
    """
    for package in "onnx", "onnxruntime":
        if not importlib.util.find_spec(package):
            raise UserError(f"the export needs {package}: pip install onnx onnxruntime")
    from resmlp_mt.export.checking import TOLERANCE, largest_difference
    from resmlp_mt.export.graphs import graphs_of

    graphs = graphs_of(trained.model)
    difference = largest_difference(trained.model, graphs)
    print(f"largest difference of a log-probability from PyTorch's: {difference:.1e} (allowed: {TOLERANCE:.0e})")
    if not difference <= TOLERANCE:
        raise UserError(f"{path}: its scores in ONNX Runtime are not PyTorch's: nothing is written")
    return graphs


def main() -> None:
    args = get_parser().parse_args()
    from resmlp_mt.export.folder import check_new, write_folder
    from resmlp_mt.export.loading import load

    check_new(args.out)
    import_user_dir(args.user_dir)
    trained = load([args.checkpoint], args.data)
    graphs = checked_graphs(trained, args.checkpoint)
    write_folder(args.out, trained, graphs)
    print(f"wrote {args.out}: encoder {len(graphs.encoder):,} bytes, decoder step {len(graphs.decoder_step):,} bytes")
