"""Commands on checkpoints: ``average`` them, ``export`` them as a folder, and its graphs by ``export onnx``."""

import argparse

from resmlp_mt.cli.arguments import add_flag, add_path, add_user_dir, command_parser, import_user_dir

AVERAGED = """
The result is for fairseq-generate, fairseq-interactive and from_pretrained. It holds no optimizer state: to train on
from it, give fairseq-train --finetune-from-model. Only types that fairseq's own checkpoints hold are loaded.

example:
  resmlp-mt average --inputs checkpoints --num-epoch-checkpoints 5 --output checkpoints/avg.pt
"""
CONTENTS = """
written to --out, which appears whole:
  config.json, generation_config.json, model.safetensors     the model
  tokenizer_config.json, *_symbols.txt, subwords.model       its text
  *.py                                                       its layers, and classes for transformers
  README.md                                                  the model card

Before writing, the command compares the scores of random sentences with fairseq's.

examples:
  resmlp-mt export checkpoints/checkpoint2[6-9].pt --data data-bin --out en-de --license mit
  resmlp-mt export onnx en-de     graphs for ONNX Runtime, into a folder that is there
"""
GRAPHS = """
written to FOLDER/onnx, which must not exist yet and appears whole, for --engine onnx of translate and serve:
  encoder.onnx        source -> keys, values, mask
  decoder_step.onnx   previous, past, keys, values, mask -> log_probabilities, longer_past, attention

Before writing, the command compares the scores of searches with PyTorch's.

example:
  resmlp-mt export onnx en-de
"""


def average() -> argparse.ArgumentParser:
    parser = command_parser(AVERAGED, _average)
    files = "one directory of checkpoints (with one of the --num options), or checkpoint files, oldest first"
    add_path(parser, "--inputs", "PATH", files, nargs="+", required=True)
    add_path(parser, "--output", "FILE", "the averaged checkpoint to write", required=True)
    number = parser.add_mutually_exclusive_group()
    for kind, name in ("epoch", "checkpointE.pt"), ("update", "checkpoint_E_U.pt"):
        last = f"average the last N {name} of the directory"
        number.add_argument(f"--num-{kind}-checkpoints", type=int, metavar="N", help=last)
    bound = "the last epoch (or update) to use (default: the newest)"
    parser.add_argument("--checkpoint-upper-bound", type=int, metavar="E_OR_U", help=bound)
    return parser


def _average(args: argparse.Namespace) -> None:
    from resmlp_mt.common.files import check_can_be_written, remove_unfinished
    from resmlp_mt.fairseq_plugin.trained import average_checkpoints, inputs_of, save_checkpoint

    check_can_be_written(args.output)
    counts = args.num_epoch_checkpoints, args.num_update_checkpoints
    inputs = inputs_of(args.inputs, args.output, *counts, args.checkpoint_upper_bound)
    print(f"averaging {', '.join(map(str, inputs))}")
    remove_unfinished(args.output)
    save_checkpoint(average_checkpoints(inputs), args.output)
    print(f"wrote {args.output}")


def _one_line(text: str) -> str:
    """Return a text for a cell of a table, if it is one line without ``|``."""
    if not text.isprintable() or "|" in text:
        raise argparse.ArgumentTypeError("must be one line without '|'")
    return text


def export() -> argparse.ArgumentParser:
    parser = command_parser(CONTENTS, _export)
    add_path(parser, "checkpoints", "CHECKPOINT", "checkpoint of a resmlp_transformer; several are averaged", nargs="+")
    add_path(parser, "--out", "FOLDER", "new folder to write", required=True)
    data = "the training's binarized data, with its dictionaries and the record of how text was prepared"
    add_path(parser, "--data", "DATA_BIN", data, required=True)
    add_path(parser, "--codes", "FILE", "file of the learned subwords (default: the one in DATA_BIN)")
    add_path(parser, "--scores", "FILE", "output of resmlp-mt score --json, for the model card")
    add_flag(parser, "--onnx", "also write FOLDER/onnx: graphs for --engine onnx of translate and serve")
    parser.add_argument("--license", type=_one_line, help="the model's licence for the card: an identifier such as mit")
    parser.add_argument("--trained-on", type=_one_line, metavar="WORDS", help="the training data, for the model card")
    add_user_dir(parser, ", such as a preset; a mixing of your own is refused")
    return parser


def _export(args: argparse.Namespace) -> None:
    from resmlp_mt.common.files import check_new, remove_unfinished
    from resmlp_mt.export.hub_folder import TOLERANCE, Card, read_scores, text_of, write_hub_folder
    from resmlp_mt.fairseq_plugin.trained import load

    check_new(args.out)
    scores = read_scores(args.scores) if args.scores else []
    import_user_dir(args.user_dir)
    trained = load(args.checkpoints, args.data)
    text, learned = text_of(trained, args.data, args.codes)
    names = [path.name for path in args.checkpoints]
    remove_unfinished(args.out)
    card = Card(args.out.name, names, args.license, args.trained_on, scores)
    difference = write_hub_folder(args.out, trained, text, learned, card, args.onnx)
    print(f"largest difference of a score from fairseq's: {difference:.1e} (allowed: {TOLERANCE:.0e})")
    print(f"wrote {args.out}")


def export_onnx() -> argparse.ArgumentParser:
    parser = command_parser(GRAPHS, _export_onnx)
    add_path(parser, "folder", "FOLDER", "made by resmlp-mt export")
    return parser


def _export_onnx(args: argparse.Namespace) -> None:
    from resmlp_mt.export.graphs import add_graphs
    from resmlp_mt.translate.graphs import FOLDER, TOLERANCE

    difference = add_graphs(args.folder)
    print(f"difference of a log-probability from PyTorch's: {difference:.1e} (allowed: {TOLERANCE:.0e})")
    print(f"wrote {args.folder / FOLDER}")
