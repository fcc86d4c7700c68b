"""The exponent of data of ResMLP minus the Transformer's, by all runs of tatoeba.json and by those that ended by loss.

python examples/scaling/ended_by_loss.py
"""

import json
from pathlib import Path

from resmlp_mt.lab.scaling.fit import differences, fit_family
from resmlp_mt.lab.scaling.grid import STOPPED, Cell, Parameters, Run


def read(path: Path) -> list[Run]:
    """The runs of a study."""
    found = json.loads(path.read_text(encoding="utf-8"))["runs"]
    for run in found:
        run |= {"cell": Cell(**run["cell"]), "parameters": Parameters(**run["parameters"])}
        del run["compute"]
    return [Run(**run) for run in found]


def main() -> None:
    """Print both differences with their intervals (95 %)."""
    runs = read(Path(__file__).with_name("tatoeba.json"))
    for name, chosen in ("all runs", runs), ("ended by their loss", [run for run in runs if run.end == STOPPED]):
        families = {
            family: [run for run in chosen if run.cell.family == family] for family in ("transformer", "resmlp")
        }
        found = differences({family: fit_family(its, seed) for seed, (family, its) in enumerate(families.items(), 1)})[
            "resmlp minus transformer"
        ]
        beta = found["beta, N and D together"]
        print(f"{name}: {sum(map(len, families.values()))} runs, {beta.value:.3f} [{beta.low:.3f}, {beta.high:.3f}]")


if __name__ == "__main__":
    main()
