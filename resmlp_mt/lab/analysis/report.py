"""``plot``: read checkpoints of a model, write figures, tables, pictures and the page of them; needs matplotlib."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import check_outputs, check_replaced, write_whole
from resmlp_mt.fairseq_plugin.checkpoints import architecture_of, load_checkpoint
from resmlp_mt.fairseq_plugin.trained import load, model_of, save_checkpoint
from resmlp_mt.lab import drawing, page
from resmlp_mt.lab.analysis import matrices, pictures
from resmlp_mt.lab.distillation import DataBin

NOTES = {
    "Overview": "What position i (row) takes from position j (column), on one scale with zero in white; the few "
    "largest weights may lie beyond it. Grey is what a causal A does not read. Heads have numbers, row by row.",
    "Profiles": "The mean weight of each diagonal of A. If A were a convolution (a Toeplitz matrix), the means would "
    "explain all of its variance; of a matrix of random entries they explain the share by chance.",
    "Sparsity": "The share of weights whose magnitude is below 5% of the largest of their matrix: the used part of A, "
    "and the matrices of MLP and cross-attention (the paper's figures 3 and B.2).",
    "Bands": "What each position reads of its neighbours by weights that it predicts: head by head their mean over the "
    "text's positions and their standard deviation (spread); then one sentence, by the root of the mean square over "
    "the heads. The decoder begins with </s>. What lies outside of the sentence is zero.",
    "Change": "Each A in each checkpoint and, below, what has changed since the checkpoint before, with its norm over "
    "that of A.",
}
"""The explanation under each heading of the page."""


@dataclass(frozen=True)
class Reading:
    """A checkpoint's data: its whole mixing matrices, the sparsity of matrices over channels, the used part of A."""

    path: Path
    architecture: str
    updates: int
    mixings: list[matrices.MixingMatrix]
    over_channels: list[matrices.Sparsity]
    used: matrices.UsedPart


def read(path: Path) -> Reading:
    checkpoint = load_checkpoint(path)
    model = model_of(path, checkpoint)
    mixings = matrices.mixing_matrices(model)
    if not mixings:
        raise UserError(f"{path}: the token mixing of no layer is a matrix over positions: no A to draw")
    updates = checkpoint["optimizer_history"][-1].get("num_updates", 0)
    used = matrices.used_part(checkpoint, mixings)
    return Reading(path, architecture_of(checkpoint), updates, mixings, matrices.sparsity_over_channels(model), used)


def read_series(paths: Sequence[Path]) -> list[Reading]:
    readings = [read(path) for path in paths]
    layouts = [[(mixing.key, mixing.weights.shape) for mixing in reading.mixings] for reading in readings]
    for reading, layout in zip(readings, layouts, strict=True):
        if layout != layouts[0]:
            raise UserError(f"{reading.path}: not the matrices of {paths[0]}: give checkpoints of one model")
    return readings


def used_of(readings: Sequence[Reading], length: int | None) -> matrices.UsedPart:
    """Return the part given by the user, else by the last checkpoint with optimizer state, else by the last."""
    last = readings[-1]
    if length is not None:
        lengths = {mixing.side: min(length, mixing.length) for mixing in last.mixings}
        return matrices.UsedPart(lengths, "as given by --length")
    by_gradient = [reading.used for reading in readings if reading.used.how == matrices.BY_GRADIENT]
    return by_gradient[-1] if by_gradient else last.used


class Report:
    """The report on checkpoints of one model, oldest first; most pictures and tables show only the last."""

    def __init__(self, readings: Sequence[Reading], used: matrices.UsedPart, bands: Sequence[matrices.TextBand] = ()):
        self.readings, self.used, self.bands = readings, used, bands
        self.series = [[used.of(mixing) for mixing in reading.mixings] for reading in readings]
        self.sparsity = [
            [*map(matrices.sparsity_of_mixing, mixings), *reading.over_channels]
            for reading, mixings in zip(readings, self.series, strict=True)
        ]

    def files(self) -> dict[str, bytes]:
        drawn = {
            part: {name: drawing.png(figure) for name, figure in figures.items()}
            for part, figures in self.pictures().items()
        }
        return {
            "mixing.json": (json.dumps(self.as_json(), indent=1, default=lambda array: array.tolist()) + "\n").encode(),
            **{f"{name}.png": png for part in drawn.values() for name, png in part.items()},
            "index.html": self.as_page(drawn).encode(),
        }

    def as_json(self) -> dict[str, Any]:
        checkpoints = [
            {
                "checkpoint": str(reading.path),
                "architecture": reading.architecture,
                "updates": reading.updates,
                "mixing": [
                    {"side": each.side, "layer": each.layer, "heads": [*map(vars, matrices.profiles(each))]}
                    for each in mixings
                ],
                "sparsity": [asdict(each) for each in sparsity],
            }
            for reading, mixings, sparsity in zip(self.readings, self.series, self.sparsity, strict=True)
        ]
        return {
            "used": {**self.used.lengths, "how": self.used.how},
            "checkpoints": checkpoints,
            "bands": [vars(each) for each in self.bands],
        }

    def pictures(self) -> dict[str, dict[str, Figure]]:
        last = self.series[-1]
        found = {
            "Overview": {"overview": pictures.overview(last)},
            "Profiles": {"profiles": pictures.profile(last)},
            "Sparsity": {"sparsity": pictures.sparsity(self.sparsity[-1])},
        }
        if self.bands:
            sentence = pictures.band_of_a_sentence(self.bands)
            found["Bands"] = {"bands": pictures.band(self.bands), "bands-sentence": sentence}
        if len(self.readings) > 1:
            captions = [f"{reading.path.stem}\n{reading.updates:,} updates" for reading in self.readings]
            found["Change"] = {
                f"change-{mixings[0].file_name}": pictures.change(mixings, captions)
                for mixings in zip(*self.series, strict=True)
            }
        found["Layers"] = {mixing.file_name: pictures.layer(mixing) for mixing in last}
        return found

    def as_page(self, drawn: dict[str, dict[str, bytes]]) -> str:
        rows = [["checkpoint", "architecture", "updates"]]
        rows += [[str(reading.path), reading.architecture, f"{reading.updates:,}"] for reading in self.readings]
        whole = {mixing.side: mixing.length for mixing in self.readings[-1].mixings}
        shown = "; ".join(f"{side}, 1 to {used} of {whole[side]}" for side, used in self.used.lengths.items())
        positions = page.paragraph(f"Positions shown: {shown}, {self.used.how}.")
        sections = {"Checkpoints": [page.table(rows), positions]}
        tables = {"Profiles": self._explained(), "Sparsity": self._sparsities()}
        for title, part in drawn.items():
            sections[title] = [page.paragraph(NOTES[title])] if title in NOTES else []
            sections[title] += [page.picture(png, f"{title}: {name}") for name, png in part.items()]
            sections[title] += [page.table(tables[title])] if title in tables else []
        return page.page(f"Token mixing of {self.readings[-1].path.stem}", sections)

    def _explained(self) -> list[list[str]]:
        rows = [["A", "explained by its diagonals", "by chance", "largest weight"]]
        for mixing in self.series[-1]:
            found = matrices.profiles(mixing)
            shares = [each.explained for each in found]
            spread = f" ({min(shares):.1%} to {max(shares):.1%})" if len(found) > 1 else ""
            largest = mixing.weights.abs().max().item()
            rows.append([mixing.name, f"{np.mean(shares):.1%}{spread}", f"{found[0].by_chance:.1%}", f"{largest:.2f}"])
        return rows

    def _sparsities(self) -> list[list[str]]:
        shares = {(each.side, each.layer, each.matrix): f"{each.share:.1%}" for each in self.sparsity[-1]}
        columns = list(dict.fromkeys(matrix for *_, matrix in shares))
        places = {(side, layer) for side, layer, _ in shares}
        layers = sorted(places, key=lambda place: (matrices.SIDES.index(place[0]), place[1]))
        return [["layer", *columns]] + [
            [f"{side} {layer}", *(shares.get((side, layer, matrix), "") for matrix in columns)]
            for side, layer in layers
        ]


def run(args: argparse.Namespace) -> None:
    out, last = args.out, args.checkpoints[-1]
    readings = read_series(args.checkpoints)
    most = max(mixing.length for mixing in readings[-1].mixings)
    if args.length is not None and not 2 <= args.length <= most:
        raise UserError(f"--length {args.length}: the model has {most} positions: give 2 to {most}")
    checkpoint = load_checkpoint(last) if args.prune else {}
    if args.prune and not all(f"{each.key}.weight" in checkpoint["model"] for each in readings[-1].mixings):
        raise UserError(f"{last}: an A of moving averages has no weights to prune: leave out --prune")
    used = used_of(readings, args.length)
    files = Report(readings, used, bands_in_text(args) if args.data is not None else ()).files()
    pruned_files = {share: out / f"pruned-{share:g}.pt" for share in args.prune}
    outputs = [*(out / name for name in files), *pruned_files.values()]
    check_outputs(outputs, args.checkpoints)
    check_replaced(out / "mixing.json", outputs)
    for side in matrices.SIDES:
        length = used.lengths.get(side)
        what = "its mixing is no matrix over positions, and is not drawn"
        print(f"{side}: positions 1 to {length}" if length else f"{side}: {what}")
    print(f"({used.how})")
    for name, content in files.items():
        write_whole(out / name, content)
    print(f"wrote {out / 'index.html'}")
    if pruned_files:
        model = model_of(last, checkpoint)
        for share, file in pruned_files.items():
            save_checkpoint(matrices.pruned(checkpoint, model, share, used), file)
            print(f"wrote {file}")


def bands_in_text(args: argparse.Namespace) -> list[matrices.TextBand]:
    path = args.checkpoints[-1]
    trained = load([path], args.data)
    if not matrices.bands_of(trained.model):
        raise UserError(f"{path}: has no band that depends on the text (--mixing-band): leave out --data")
    sides = DataBin(args.data, trained.languages).sides(args.subset)
    return matrices.read_bands(trained.model, sides, args.sentence)
