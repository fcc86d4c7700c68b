"""Do a model's own log-probabilities find its worst translations? AUROC for the worst tenth by sentence chrF.

    python examples/translating/confidence.py FOLDER --text multi30k test_2016_flickr.en test_2016_flickr.de \
        --json confidence.json

AUROC is the probability that one of the worst tenth has a lower score than one of the others: 0.5 is chance.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sacrebleu import sentence_chrf

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError, one_line_errors
from resmlp_mt.common.files import read_parallel, write_json
from resmlp_mt.lab.machine import describe, facts, made_by

SCORES = {
    "mean of the tokens": lambda one: np.mean(one.token_scores),
    "lowest word": lambda one: min(score for _, score in one.words),
    "mean of the words": lambda one: np.mean([score for _, score in one.words]),
    "sum": lambda one: sum(one.token_scores),
    "shortness": lambda one: -len(one.tokens),  # without the model: the baseline to beat
}


def auroc(scores: NDArray[np.float64], bad: NDArray[np.bool_]) -> float:
    """Return the AUROC over all pairs of a bad and another translation; equal scores count half."""
    one, other = scores[bad][:, None], scores[~bad][None]
    return float(np.mean((one < other) + 0.5 * (one == other)))


def measured(translator: Translator, source: str, reference: str) -> dict[str, str]:
    """Return the table's column for a text."""
    pairs = list(read_parallel([source, reference]))
    found = translator.translate([text for text, _ in pairs], too_long="split")
    kept = [(one, right) for one, (_, right) in zip(found, pairs, strict=True) if one.words]
    if len(kept) < 10:
        raise UserError(f"{source}: {len(kept)} sentences with words: give ten or more")
    chrf = np.array([sentence_chrf(one.text, [right]).score for one, right in kept])
    bad = chrf.argsort(kind="stable").argsort() < len(kept) // 10
    rows = {"sentences": f"{len(kept):,}", "mean sentence chrF": f"{chrf.mean():.1f}"}
    rows["highest chrF of the worst tenth"] = f"{chrf[bad].max():.1f}"
    for name, score in SCORES.items():
        rows[f"AUROC: {name}"] = f"{auroc(np.array([score(one) for one, _ in kept]), bad):.3f}"
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="made by resmlp-mt export")
    parser.add_argument("--text", nargs=3, action="append", required=True, metavar=("NAME", "SOURCE", "REFERENCE"))
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="for the figures")
    args = parser.parse_args()
    translator = Translator(args.folder)
    columns = {name: measured(translator, source, reference) for name, source, reference in args.text}
    record = {
        **made_by("python examples/translating/confidence.py"),
        "machine": facts(describe(packages=["sacrebleu"])),
        "columns": list(columns),
        "rows": {name: [column[name] for column in columns.values()] for name in next(iter(columns.values()))},
    }
    print(json.dumps(record["rows"], indent=1))
    write_json(args.json, {"confidence": record})


if __name__ == "__main__":
    with one_line_errors():
        main()
