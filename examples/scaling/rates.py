"""Learning rates by family and width, from the trainings of rates.yaml: prints what tatoeba.yaml has.

At each of the two widths it takes the lowest point of the parabola through log(loss) over log(rate), at most half
a step outside of the three rates. Other widths are on the line through both points, log(rate) over log(width).
Usage: rates.py rates.json
"""

import json
import sys
from pathlib import Path

import numpy as np
import yaml

STUDIES = Path(__file__).parent


def read_sizes(name: str) -> dict:
    return yaml.safe_load((STUDIES / name).read_text())["sizes"]


def best_rate(rates: list[float], losses: list[float]) -> float:
    x, y = np.log(rates), np.log(losses)
    a, b, _ = np.polyfit(x, y, 2)
    half = (x[1] - x[0]) / 2
    lowest = -b / (2 * a) if a > 0 else x[np.argmin(y)]
    return float(np.exp(np.clip(lowest, x[0] - half, x[-1] + half)))


def main(measured: Path) -> None:
    runs = json.loads(measured.read_text())["runs"]
    sizes = read_sizes("rates.yaml")
    for family in dict.fromkeys(run["cell"]["family"] for run in runs):
        points: dict[int, list[tuple[float, float]]] = {}  # width: (rate, lowest loss)
        for run in runs:
            if run["cell"]["family"] == family and not run["diverged"]:
                size = sizes[run["cell"]["size"]]
                points.setdefault(size["width"], []).append((size["rate"], min(run["losses"])))
        if len(points) < 2:
            continue
        best = {width: best_rate(*map(list, zip(*sorted(each), strict=True))) for width, each in points.items()}
        slope, start = np.polyfit(np.log(list(best)), np.log(list(best.values())), 1)
        widths = [size["width"] for size in read_sizes("tatoeba.yaml").values()]
        carried = {width: float(np.exp(start + slope * np.log(width))) for width in widths}
        print(family, *(f"{width}: {rate:.2g}" for width, rate in carried.items()), f"exponent {slope:.2f}", sep="  ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
