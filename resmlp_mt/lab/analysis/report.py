"""What was seen in a model's mixing: figures, tables, pictures and the page that gathers them; needs matplotlib."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from resmlp_mt.lab.analysis import findings, page, pictures, sparsity, used_part
from resmlp_mt.lab.analysis.bands import TextBand
from resmlp_mt.lab.analysis.matrices import MixingMatrix
from resmlp_mt.lab.analysis.profile import profiles
from resmlp_mt.lab.analysis.reading import Reading
from resmlp_mt.lab.analysis.sparsity import Sparsity
from resmlp_mt.lab.analysis.used_part import UsedPart


class Report:
    """Checkpoints of one model, oldest first; pictures and tables of one model are of the last.

    Args:
        readings: what was read of them
        length: T to look at; default: what the last checkpoint that can tell says was used
        bands: what the last one's bands read in a text
    """

    def __init__(self, readings: Sequence[Reading], length: int | None = None, bands: Sequence[TextBand] = ()):
        self.readings, self.bands = readings, bands
        self.used = used_of(readings, length)
        self.last = self.mixings_of(readings[-1])
        self.labels = labels([reading.path for reading in readings])

    def mixings_of(self, reading: Reading) -> list[MixingMatrix]:
        """The used part of each A."""
        return [self.used.of(mixing) for mixing in reading.mixings]

    def sparsities_of(self, reading: Reading) -> list[Sparsity]:
        """Of each A's used part and of the matrices over channels."""
        return [*map(sparsity.of_mixing, self.mixings_of(reading)), *reading.dense]

    def as_json(self) -> dict[str, Any]:
        """All figures."""
        return {
            "used": {**self.used.lengths, "how": self.used.how},
            "checkpoints": [
                {
                    "checkpoint": str(reading.path),
                    "architecture": reading.architecture,
                    "updates": reading.updates,
                    "mixing": [
                        {
                            "side": mixing.side,
                            "layer": mixing.layer,
                            "heads": [
                                {key: np.asarray(value).tolist() for key, value in asdict(profile).items()}
                                for profile in profiles(mixing)
                            ],
                        }
                        for mixing in self.mixings_of(reading)
                    ],
                    "sparsity": [asdict(each) for each in self.sparsities_of(reading)],
                }
                for reading in self.readings
            ],
            "bands": [each.as_json() for each in self.bands],
        }

    def sparsity_csv(self) -> str:
        """The share of small weights, a line for each matrix of each checkpoint."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["checkpoint", "side", "layer", "matrix", "share"])
        for reading in self.readings:
            for each in self.sparsities_of(reading):
                writer.writerow([reading.path, each.side, each.layer, each.matrix, f"{each.share:.6f}"])
        return stream.getvalue()

    def pictures(self) -> dict[str, Callable[[], Figure]]:
        """What draws every picture, by the picture's name."""
        drawing: dict[str, Callable[[], Figure]] = {
            "overview": partial(pictures.overview, self.last),
            "profiles": partial(pictures.profile, self.last),
            "sparsity": partial(pictures.sparsity, self.sparsities_of(self.readings[-1])),
        }
        if self.bands:
            drawing["bands"] = partial(pictures.band, self.bands)
            drawing["bands-sentence"] = partial(pictures.band_of_a_sentence, self.bands)
        if len(self.readings) > 1:
            captions = [
                f"{label}\n{reading.updates:,} updates"
                for label, reading in zip(self.labels, self.readings, strict=True)
            ]
            for series in zip(*map(self.mixings_of, self.readings), strict=True):
                drawing[f"change-{_file_name(series[0])}"] = partial(pictures.change, series, captions)
        for mixing in self.last:
            drawing[_file_name(mixing)] = partial(pictures.layer, mixing)
        return drawing

    def draw(self) -> dict[str, bytes]:
        """Every picture as a PNG file's bytes, by name."""
        return {name: pictures.png(draw()) for name, draw in self.pictures().items()}

    def as_page(self, drawn: dict[str, bytes]) -> str:
        """Everything on one HTML page.

        Args:
            drawn: what ``draw`` gave
        """
        heads = max(len(mixing.weights) for mixing in self.last)
        sections = {
            "Checkpoints": self._checkpoints(),
            "Overview": [
                page.finding(findings.reach(self.last)),
                page.paragraph(
                    "What position i (row) takes from position j (column), layer by layer, all on one scale with zero "
                    "in white; the few largest weights may lie beyond it. Grey is what a causal A does not read."
                    + (" The heads of a layer have numbers, row by row." if heads > 1 else "")
                ),
                page.picture(drawn["overview"], "Every A, layer by layer"),
            ],
            "Profiles": [
                page.finding(findings.explained(self.last)),
                page.paragraph(
                    "The mean weight of each diagonal of A"
                    + (", a line a head. " if heads > 1 else ", and its standard deviation as a band. ")
                    + "If A were a convolution (a Toeplitz matrix), its diagonals' means would explain all of its "
                    "variance; of a matrix of random entries they explain the share by chance."
                ),
                page.picture(drawn["profiles"], "Weight against relative position, layer by layer"),
                page.table(self._explained()),
            ],
            "Sparsity": [
                page.finding(findings.small_weights(self.sparsities_of(self.readings[-1]))),
                page.paragraph(
                    "The share of weights whose magnitude is below 5% of the largest of their matrix: A (its used "
                    "part), the two matrices of the MLP, and those of the cross-attention. The paper's figures 3 and "
                    "B.2 for a sequence."
                ),
                page.picture(drawn["sparsity"], "Share of small weights, layer by layer", small=True),
                page.table(self._sparsities()),
            ],
            **(self._bands(drawn) if self.bands else {}),
            **(self._changes(drawn) if len(self.readings) > 1 else {}),
            "Layers": [
                page.finding(findings.largest(self.last)),
                *(page.picture(drawn[_file_name(each)], f"A of {each.name}", heads == 1) for each in self.last),
            ],
        }
        parts = [line for title, body in sections.items() for line in [page.heading(title, title.lower()), *body]]
        return page.page(f"Token mixing of {self.labels[-1]}", parts, [(title, title.lower()) for title in sections])

    def _checkpoints(self) -> list[str]:
        rows = [["checkpoint", "architecture", "updates"]]
        rows += [[str(reading.path), reading.architecture, f"{reading.updates:,}"] for reading in self.readings]
        whole = {mixing.side: mixing.length for mixing in self.readings[-1].mixings}
        shown = "; ".join(f"{side}, 1 to {used} of {whole[side]}" for side, used in self.used.lengths.items())
        return [page.table(rows), page.paragraph(f"Positions shown: {shown}, {self.used.how}.")]

    def _changes(self, drawn: dict[str, bytes]) -> dict[str, list[str]]:
        return {
            "Change": [
                page.finding(findings.changes(*map(self.mixings_of, self.readings[-2:]))),
                page.paragraph(
                    "Each A in each checkpoint and, below, what has changed since the checkpoint before, on a scale of "
                    "its own; in the title the norm of the change over that of A."
                ),
                *(
                    page.picture(png, f"Change of A, {name.removeprefix('change-')}")
                    for name, png in drawn.items()
                    if name.startswith("change-")
                ),
            ]
        }

    def _bands(self, drawn: dict[str, bytes]) -> dict[str, list[str]]:
        return {
            "Bands": [
                page.finding(findings.bands(self.bands)),
                page.paragraph(
                    "Beside A each position reads its neighbours by weights that it predicts from its own content. "
                    "Head by head: their mean over the text's positions, and their standard deviation (spread), which "
                    "is what differs from position to position."
                ),
                page.picture(drawn["bands"], "Mean and spread of each band, layer by layer"),
                page.paragraph(
                    "One sentence: how much each of its positions reads of its neighbours, by the root of the mean "
                    "square over the heads. The decoder begins with </s>. What lies outside of the sentence is zero, "
                    "whatever its weight."
                ),
                page.picture(drawn["bands-sentence"], "The bands of one sentence, position by position"),
            ]
        }

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


def used_of(readings: Sequence[Reading], length: int | None) -> UsedPart:
    """The part of A to look at: as given, or as the last checkpoint tells that can."""
    last = readings[-1]
    if length is not None:
        return used_part.given(length, last.mixings)
    tell = [reading.by_gradient for reading in readings if reading.by_gradient]
    return used_part.found(tell[-1] if tell else None, last.by_bias, last.mixings)


def labels(paths: Sequence[Path]) -> list[str]:
    """Names that tell files apart, as short as that goes."""
    names = [path.stem for path in paths]
    return names if len(set(names)) == len(names) else [str(path.with_suffix("")) for path in paths]


def _file_name(mixing: MixingMatrix) -> str:
    return mixing.name.replace(" ", "-")
