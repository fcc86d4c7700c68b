"""What was seen in a model's mixing: figures, tables, pictures and the page that gathers them; needs matplotlib."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from resmlp_mt.lab.analysis import page, pictures
from resmlp_mt.lab.analysis.bands import TextBand
from resmlp_mt.lab.analysis.matrices import MixingMatrix, Sparsity, of_mixing, profiles
from resmlp_mt.lab.analysis.reading import Reading
from resmlp_mt.lab.analysis.used_part import used_of

NOTES = {
    "Overview": "What position i (row) takes from position j (column), layer by layer, all on one scale with zero in "
    "white; the few largest weights may lie beyond it. Grey is what a causal A does not read. The heads of a layer, if "
    "there are several, have numbers, row by row.",
    "Profiles": "The mean weight of each diagonal of A: a line a head, or with one head its standard deviation as a "
    "band. If A were a convolution (a Toeplitz matrix), its diagonals' means would explain all of its variance; of a "
    "matrix of random entries they explain the share by chance.",
    "Sparsity": "The share of weights whose magnitude is below 5% of the largest of their matrix: A (its used part), "
    "the two matrices of the MLP, and those of the cross-attention. The paper's figures 3 and B.2 for a sequence.",
    "Bands": "Beside A each position reads its neighbours by weights that it predicts from its own content. First, "
    "head by head, their mean over the text's positions, and their standard deviation (spread): what differs from "
    "position to position. Then one sentence: how much each of its positions reads of its neighbours, by the root of "
    "the mean square over the heads. The decoder begins with </s>. What lies outside of the sentence is zero.",
    "Change": "Each A in each checkpoint and, below, what has changed since the checkpoint before, on a scale of its "
    "own; in the title the norm of the change over that of A.",
}
"""Under each heading of the page."""


class Report:
    """Checkpoints of one model, oldest first; pictures and tables of one model are of the last.

    Args:
        readings: what was read of them
        length: T to look at; default: what the last checkpoint that can tell says was used
        bands: what the last one's bands read in a text
    """

    def __init__(self, readings: Sequence[Reading], length: int | None = None, bands: Sequence[TextBand] = ()):
        self.readings, self.bands = readings, bands
        told = [reading.by_gradient for reading in readings if reading.by_gradient]
        self.used = used_of(readings[-1].mixings, length, told[-1] if told else {}, readings[-1].by_bias)
        self.last = self.mixings_of(readings[-1])
        self.labels = labels([reading.path for reading in readings])

    def mixings_of(self, reading: Reading) -> list[MixingMatrix]:
        """The used part of each A."""
        return [self.used.of(mixing) for mixing in reading.mixings]

    def sparsities_of(self, reading: Reading) -> list[Sparsity]:
        """Of each A's used part and of the matrices over channels."""
        return [*map(of_mixing, self.mixings_of(reading)), *reading.dense]

    def as_json(self) -> dict[str, Any]:
        """All figures."""

        def heads(mixing: MixingMatrix) -> list[dict[str, Any]]:
            return [{key: np.asarray(value).tolist() for key, value in vars(each).items()} for each in profiles(mixing)]

        return {
            "used": {**self.used.lengths, "how": self.used.how},
            "checkpoints": [
                {
                    "checkpoint": str(reading.path),
                    "architecture": reading.architecture,
                    "updates": reading.updates,
                    "mixing": [
                        {"side": mixing.side, "layer": mixing.layer, "heads": heads(mixing)}
                        for mixing in self.mixings_of(reading)
                    ],
                    "sparsity": [asdict(each) for each in self.sparsities_of(reading)],
                }
                for reading in self.readings
            ],
            "bands": [each.as_json() for each in self.bands],
        }

    def pictures(self) -> dict[str, dict[str, Callable[[], Figure]]]:
        """What draws every picture, by the heading of the page and the picture's name."""
        drawing: dict[str, dict[str, Callable[[], Figure]]] = {
            "Overview": {"overview": partial(pictures.overview, self.last)},
            "Profiles": {"profiles": partial(pictures.profile, self.last)},
            "Sparsity": {"sparsity": partial(pictures.sparsity, self.sparsities_of(self.readings[-1]))},
        }
        if self.bands:
            drawing["Bands"] = {
                "bands": partial(pictures.band, self.bands),
                "bands-sentence": partial(pictures.band_of_a_sentence, self.bands),
            }
        if len(self.readings) > 1:
            captions = [
                f"{label}\n{reading.updates:,} updates"
                for label, reading in zip(self.labels, self.readings, strict=True)
            ]
            drawing["Change"] = {
                f"change-{file_name(series[0])}": partial(pictures.change, series, captions)
                for series in zip(*map(self.mixings_of, self.readings), strict=True)
            }
        drawing["Layers"] = {file_name(mixing): partial(pictures.layer, mixing) for mixing in self.last}
        return drawing

    def names(self) -> list[str]:
        """Of all pictures."""
        return [name for part in self.pictures().values() for name in part]

    def draw(self) -> dict[str, bytes]:
        """Every picture as a PNG file's bytes, by name."""
        return {name: pictures.png(draw()) for part in self.pictures().values() for name, draw in part.items()}

    def as_page(self, drawn: dict[str, bytes]) -> str:
        """Everything on one HTML page, of the pictures that ``draw`` gave."""
        tables = {"Profiles": self._explained(), "Sparsity": self._sparsities()}
        single = max(len(mixing.weights) for mixing in self.last) == 1
        sections = {"Checkpoints": self._checkpoints()}
        for title, names in self.pictures().items():
            sections[title] = [page.paragraph(NOTES[title])] if title in NOTES else []
            small = title == "Sparsity" or (title == "Layers" and single)
            sections[title] += [page.picture(drawn[name], f"{title}: {name}", small) for name in names]
            if title in tables:
                sections[title].append(page.table(tables[title]))
        parts = [line for title, body in sections.items() for line in [page.heading(title, title.lower()), *body]]
        return page.page(f"Token mixing of {self.labels[-1]}", parts, [(title, title.lower()) for title in sections])

    def _checkpoints(self) -> list[str]:
        rows = [["checkpoint", "architecture", "updates"]]
        rows += [[str(reading.path), reading.architecture, f"{reading.updates:,}"] for reading in self.readings]
        whole = {mixing.side: mixing.length for mixing in self.readings[-1].mixings}
        shown = "; ".join(f"{side}, 1 to {used} of {whole[side]}" for side, used in self.used.lengths.items())
        return [page.table(rows), page.paragraph(f"Positions shown: {shown}, {self.used.how}.")]

    def _explained(self) -> list[list[str]]:
        rows = [["A", "explained by its diagonals", "by chance", "largest weight"]]
        for mixing in self.last:
            found = profiles(mixing)
            shares = [each.explained for each in found]
            spread = f" ({min(shares):.1%} to {max(shares):.1%})" if len(found) > 1 else ""
            largest = mixing.weights.abs().max().item()
            rows.append([mixing.name, f"{np.mean(shares):.1%}{spread}", f"{found[0].by_chance:.1%}", f"{largest:.2f}"])
        return rows

    def _sparsities(self) -> list[list[str]]:
        shares = {(each.side, each.layer, each.matrix): each.share for each in self.sparsities_of(self.readings[-1])}
        columns = list(dict.fromkeys(matrix for *_, matrix in shares))
        rows = [["layer", *columns]]
        for mixing in self.last:
            cells = [shares.get((mixing.side, mixing.layer, matrix)) for matrix in columns]
            rows.append([mixing.name, *("" if share is None else f"{share:.1%}" for share in cells)])
        return rows


def labels(paths: Sequence[Path]) -> list[str]:
    """Names that tell files apart, as short as that goes."""
    names = [path.stem for path in paths]
    return names if len(set(names)) == len(names) else [str(path.with_suffix("")) for path in paths]


def file_name(mixing: MixingMatrix) -> str:
    return mixing.name.replace(" ", "-")
