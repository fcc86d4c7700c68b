"""What ``plot`` does with its options."""

import argparse
from pathlib import Path

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_outputs
from resmlp_mt.data.binarized import read_dictionary
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from resmlp_mt.fairseq_plugin.trained import load, model_of, save_checkpoint
from resmlp_mt.lab.analysis.bands import TextBand, bands_of, read_bands
from resmlp_mt.lab.analysis.matrices import SIDES
from resmlp_mt.lab.analysis.report import Report, read_series, used_of
from resmlp_mt.lab.analysis.used_part import pruned
from resmlp_mt.lab.distillation import DataBin


def run(args: argparse.Namespace) -> None:
    """Read, draw and write."""
    out, last = args.out, args.checkpoints[-1]
    readings = read_series(args.checkpoints)
    most = max(mixing.length for mixing in readings[-1].mixings)
    if args.length is not None and not 2 <= args.length <= most:
        raise UserError(f"--length {args.length}: the model has {most} positions: give 2 to {most}")
    used = used_of(readings, args.length)
    files = Report(readings, used, bands_in_text(args) if args.data is not None else ()).files()
    pruned_files = {share: out / f"pruned-{share:g}.pt" for share in args.prune}
    check_outputs([*(out / name for name in files), *pruned_files.values()], args.checkpoints)
    for side in SIDES:
        length = used.lengths.get(side)
        what = "its mixing is no matrix over positions, and is not drawn"
        print(f"{side}: positions 1 to {length}" if length else f"{side}: {what}")
    print(f"({used.how})")
    for name, content in files.items():
        with atomic_write(out / name, "wb") as stream:
            stream.write(content)
    print(f"wrote {out / 'index.html'}")
    for share, file in pruned_files.items():
        checkpoint = load_checkpoint(last)
        save_checkpoint(pruned(checkpoint, model_of(last, checkpoint), share, used), file)
        print(f"wrote {file}")


def bands_in_text(args: argparse.Namespace) -> list[TextBand]:
    """What the last checkpoint's bands read in ``--data``."""
    path = args.checkpoints[-1]
    trained = load([path], args.data)
    if not bands_of(trained.model):
        raise UserError(f"{path}: has no band that depends on the text (--mixing-band): leave out --data")
    data = DataBin(Path(args.data), *trained.languages)
    pairs = list(zip(*(data.side(args.subset, language) for language in trained.languages), strict=True))
    source, target = map(read_dictionary, trained.dictionaries)
    return read_bands(trained.model, pairs, (source, target), args.sentence)
