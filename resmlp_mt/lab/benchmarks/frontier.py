"""BLEU against speed: a point an engine, and the line of those that no other is better than in both."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from resmlp_mt.common.colors import colors_of
from resmlp_mt.common.files import atomic_write
from resmlp_mt.lab.benchmarks.real_text import Row


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points (speed, quality) that no other point equals or beats in both, the fastest first."""
    best: list[tuple[float, float]] = []
    for point in sorted(set(points), reverse=True):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    return best


def draw(rows: Sequence[Row], path: Path) -> None:
    """A panel a text that has references; there must be one.

    Raises:
        UserError: the file cannot be written
    """
    scored = [row for row in rows if row.scores]
    texts = list(dict.fromkeys(row.corpus for row in scored))
    figure = Figure(figsize=(6.5 * len(texts), 5.5), layout="constrained")
    colors = colors_of(row.engine for row in scored)
    for axis, text in zip(figure.subplots(1, len(texts), squeeze=False)[0], texts, strict=True):
        points = {
            row.engine: (row.rate.median, row.scores["sacrebleu"]["score"])
            for row in scored
            if row.corpus == text and row.scores
        }
        for name, point in points.items():
            axis.plot(*point, "o", color=colors[name], label=name)
        best = zip(*frontier(list(points.values())), strict=True)
        axis.step(*best, where="post", color="0.6", zorder=0, label="best so far")
        axis.set(xlabel="sentences/s", ylabel="sacreBLEU", title=text)
        axis.set_xlim(left=0)
        axis.grid(alpha=0.3)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format="png", dpi=120)
