"""What all pictures share: figures, files, and a color for each system, distinct for color-blind readers, too.

The colors are those of Okabe and Ito, and of Tol. matplotlib is imported only where something is drawn.
"""

import importlib.util
import io
import itertools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, check_can_be_written, check_outputs, write_whole

RESMLP = "#0072B2"

SYSTEMS = {
    **dict.fromkeys(["resmlp_transformer", "resmlp-6", "resmlp", "resmlp6", "paper"], RESMLP),
    "transformer": "#4D4D4D",
    **dict.fromkeys(["heads", "16-heads-relative"], "#56B4E9"),
    **dict.fromkeys(["resmlp-12", "resmlp12"], "#009E73"),
    "gated": "#D55E00",
    "dynamicconv": "#E69F00",
    "lightconv": "#CC79A7",
    **dict.fromkeys(["fconv", "convs2s"], "#999933"),
    "lstm": "#882255",
}
"""Colors of systems by their names in pictures (lower case): architectures and names of rows."""

OTHERS = "#AA4499", "#44AA99", "#DDCC77", "#332288", "#661100", "#117733", "#CC6677"
"""Colors of systems that are not in ``SYSTEMS``, in order of appearance."""

PLAIN = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"
"""Colors of lines that are not systems."""


def colors_of(names: Iterable[str]) -> dict[str, str]:
    """Return the color of each system of a picture; ``NAME, seed 1`` has the color of NAME."""
    others, found, colors = itertools.cycle(OTHERS), {}, dict(SYSTEMS)
    for name in dict.fromkeys(names):
        system = name.lower().partition(", ")[0]
        if system not in colors:
            colors[system] = next(others)
        found[name] = colors[system]
    return found


def plain_log(axis: Any) -> None:
    """Make the y axis logarithmic, with plain numbers at the ticks, which are few for every range."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    of_large = LogLocator(subs=[1, 2, 5] if high < 1e4 * low else [1])
    axis.yaxis.set_major_locator(of_large if high > 10 * low else MaxNLocator(7))
    axis.yaxis.set_major_formatter("{x:,g}")
    axis.set_yticks([], minor=True)


def wants_pictures() -> bool:
    """Return whether matplotlib is installed; print a hint to stderr if not."""
    found = importlib.util.find_spec("matplotlib") is not None
    if not found:
        print("no pictures without matplotlib: pip install matplotlib", file=sys.stderr)
    return found


def check_matplotlib(what: str) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError(f"{what} needs matplotlib: pip install matplotlib")


def check_files(outputs: Sequence[PathLike], inputs: Iterable[PathLike], pictures: str | None) -> None:
    """Check before long work that outputs can be written and are no inputs; with ``pictures``, the last is a PNG."""
    check_outputs(outputs, inputs)
    for path in outputs:
        check_can_be_written(path)
    if pictures:
        check_matplotlib(pictures)
        if Path(outputs[-1]).suffix.lower() != ".png":
            raise UserError(f"{outputs[-1]}: pictures are PNG: give a name that ends in .png")


def new_figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def png(figure: Any, dpi: int = 110) -> bytes:
    """A figure as PNG; equal figures give equal bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def save(figure: Any, path: PathLike) -> None:
    write_whole(path, png(figure))
