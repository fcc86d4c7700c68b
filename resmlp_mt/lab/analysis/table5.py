"""The paper's table 5 next to measured scores."""

import argparse
import json
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import read_object
from resmlp_mt.common.progress import markdown_table, text_table

PAPER: dict[str, tuple[str, float | None, float | None]] = {
    # run: name, En-De, En-Fr
    "lstm": ("GNMT", 24.6, 39.9),
    "convs2s": ("ConvS2S", 25.2, 40.5),
    "transformer": ("Transformer (base)", 27.3, 38.1),
    "resmlp6": ("ResMLP-6", 26.4, 40.3),
    "resmlp12": ("ResMLP-12", 26.8, 40.6),
    "gated6": ("gated ResMLP-6", None, None),
    "gated12": ("gated ResMLP-12", None, None),
}
"""Touvron et al. 2021, table 5, and two systems beyond it."""

PAIRS = {"de": ("En-De", "compound_split_bleu"), "fr": ("En-Fr", "tokenized_bleu")}
"""By target language: the pair and the table's score; En-De splits compounds (Ott et al. 2018)."""

SEGMENTS = 3003  # in the full newstest2014
SCORES = "test.json"
Scores = dict[str, Any]
Found = dict[tuple[str, str], Scores]
"""By system and target language."""


def read_runs(folders: list[str]) -> Found:
    """Read the scores of folders; each is the folder of a run, a folder of such folders, or SYSTEM=DIR."""
    found: Found = {}
    for folder in folders:
        system, _, named = folder.partition("=")
        if system not in PAPER or not named:
            system, named = Path(folder).resolve().name, folder
        inside = {each: Path(named, each) for each in PAPER if Path(named, each, SCORES).exists()}
        runs = {system: Path(named)} if system in PAPER else inside
        if not runs:
            known = ", ".join(PAPER)
            raise UserError(f"{folder}: no scored run of table 5: give the folder of one ({known}), or SYSTEM=DIR")
        for name, path in runs.items():
            scores = read_scores(path / SCORES)
            other = found.setdefault((name, scores["target_lang"]), scores)
            if other is not scores:
                raise UserError(f"{path / SCORES}: a run as that of {other['file']}: give one of them")
    return found


def read_scores(path: Path) -> Scores:
    """Read target language, number of segments, tokenized BLEU and sacreBLEU from the output of ``score --json``."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: run evaluate.sh for it first")
    result = read_object(path) or {}
    try:
        target = result["target_lang"]
        scores: Scores = {"file": str(path), "target_lang": target, "segments": int(result["segments"])}
        for name, key in ("tokenized_bleu", PAIRS[target][1]), ("sacrebleu", "sacrebleu"):
            score = result["scores"][key]
            scores |= {name: float(score["score"]), f"{name}_signature": str(score["signature"])}
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: no scores of table 5 ({error}): run evaluate.sh again") from error
    return scores


def rows(found: Found) -> list[list[str]]:
    """Return the table as text: a heading and a row for each system; cells without a score are blank."""
    table = [["newstest2014"]]
    for pair, _ in PAIRS.values():
        table[0] += [f"{pair}, paper", "measured", "sacreBLEU"]
    for system, (name, *paper) in PAPER.items():
        row = [name]
        for target, in_paper in zip(PAIRS, paper, strict=True):
            row += ["" if in_paper is None else f"{in_paper:.1f}", "", ""]
            if scores := found.get((system, target)):
                mark = "*" if scores["segments"] != SEGMENTS else ""
                row[-2:] = [f"{scores[key]:.1f}{mark}" for key in ("tokenized_bleu", "sacrebleu")]
                row[0] = f"{name} / LSTM" if system == "lstm" else name
        table.append(row)
    return table


def notes(found: Found) -> list[str]:
    lines = ["paper, measured: tokenized BLEU, En-De with compounds split (Ott et al. 2018)"]
    for kind, name in ("tokenized_bleu", "measured"), ("sacrebleu", "sacreBLEU"):
        lines += [f"{name}: {each}" for each in sorted({scores[f"{kind}_signature"] for scores in found.values()})]
    for _, scores in sorted(found.items()):
        if scores["segments"] != SEGMENTS:
            lines.append(f"* {scores['file']}: {scores['segments']} segments, not the {SEGMENTS} of newstest2014")
    return lines


def as_json(found: Found) -> dict[str, Any]:
    """Return each system's name and, by pair, the paper's score and the measured ones."""
    table: dict[str, Any] = {}
    for system, (name, *paper) in PAPER.items():
        table[system] = {"name": name}
        for (target, (pair, _)), in_paper in zip(PAIRS.items(), paper, strict=True):
            table[system][pair] = {"paper": in_paper, "measured": found.get((system, target))}
    return table


def run(args: argparse.Namespace) -> None:
    found = read_runs(args.runs)
    if args.json:
        print(json.dumps(as_json(found)))
    elif args.markdown:
        print(markdown_table(rows(found)) + "\n\n" + "\n".join(f"- {note}" for note in notes(found)))
    else:
        print(text_table(rows(found)) + "\n\n" + "\n".join(notes(found)))
