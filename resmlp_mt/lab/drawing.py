"""What all pictures share: a figure, its file, and one color a system, which color-blind eyes tell apart too.

The colors are those of Okabe and Ito, and of Tol. matplotlib is imported where something is drawn.
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
TRANSFORMER = "#4D4D4D"

SYSTEMS = {
    **dict.fromkeys(["resmlp_transformer", "resmlp-6", "resmlp", "resmlp6", "paper"], RESMLP),
    "transformer": TRANSFORMER,
    **dict.fromkeys(["resmlp_transformer:inference_precision=bf16", "heads", "16-heads-relative"], "#56B4E9"),
    **dict.fromkeys(["resmlp_transformer:inference_precision=int8", "resmlp-12", "resmlp12"], "#009E73"),
    "lightconv": "#CC79A7",
    **dict.fromkeys(["fconv", "convs2s"], "#999933"),
    "lstm": "#882255",
}
"""By the name that a picture has for it, in lower case; architectures and names of rows."""

OTHERS = "#AA4499", "#44AA99", "#DDCC77", "#332288", "#661100", "#117733", "#CC6677"
"""In the order of their appearance, for systems that are not listed."""

PLAIN = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"
"""For what is no system."""


def colors_of(names: Iterable[str]) -> dict[str, str]:
    """The color of each system of a picture; ``NAME, seed 1`` has NAME's."""
    others, found, colors = itertools.cycle(OTHERS), {}, dict(SYSTEMS)
    for name in dict.fromkeys(names):
        system = name.lower().partition(", ")[0]
        if system not in colors:
            colors[system] = next(others)
        found[name] = colors[system]
    return found


def wants_pictures() -> bool:
    """Whether there is matplotlib; told if not."""
    found = importlib.util.find_spec("matplotlib") is not None
    if not found:
        print("no pictures without matplotlib: pip install matplotlib", file=sys.stderr)
    return found


def check_matplotlib(what: str) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError(f"{what} needs matplotlib: pip install matplotlib")


def check_files(outputs: Sequence[PathLike], inputs: Iterable[PathLike], pictures: str | None) -> None:
    """See before long work that outputs can be written, over no input; ``pictures`` asks for the last, if not None."""
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
