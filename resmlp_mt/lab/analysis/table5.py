"""The paper's table 5 beside what was measured."""

import argparse
import json
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import read_object
from resmlp_mt.common.tables import markdown_table, text_table

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
"""Target language: pair, and the score that the table reports, for En-De with compounds split (Ott et al. 2018)."""

SEGMENTS = 3003  # of newstest2014 in full
SCORES = "test.json"
LARGEST = 1 << 20  # bytes of it; it has a few hundred
Scores = dict[str, Any]
Found = dict[tuple[str, str], Scores]
"""By system and target language."""


def find_runs(folders: list[str]) -> list[tuple[str, Path]]:
    """Which system each folder is a run of, and where its scores are."""
    runs: list[tuple[str, Path]] = []
    for folder in folders:
        system, _, named = folder.partition("=")
        if system not in PAPER or not named:
            system, named = Path(folder).resolve().name, folder
        path = Path(named)
        inside = [(each, path / each / SCORES) for each in PAPER if (path / each / SCORES).exists()]
        if system not in PAPER and not inside:
            raise UserError(
                f"{folder}: no scored run of table 5: give the folder of one ({', '.join(PAPER)}), or SYSTEM=DIR"
            )
        runs += [(system, path / SCORES)] if system in PAPER else inside
    return runs


def read_runs(folders: list[str]) -> Found:
    found: Found = {}
    for system, path in find_runs(folders):
        scores = read_scores(path)
        place = system, scores["target_lang"]
        if place in found:
            raise UserError(f"{path}: a run as that of {found[place]['file']}: give one of them")
        found[place] = scores
    return found


def read_scores(path: Path) -> Scores:
    """Target language, number of segments, tokenized BLEU and sacreBLEU of what ``score --json`` wrote."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: run evaluate.sh for it first")
    result = read_object(path, LARGEST) or {}
    try:
        target = result["target_lang"]
        scores: Scores = {"file": str(path), "target_lang": target, "segments": int(result["segments"])}
        for name, key in ("tokenized_bleu", PAIRS[target][1]), ("sacrebleu", "sacrebleu"):
            score = result["scores"][key]
            scores |= {name: float(score["score"]), f"{name}_signature": str(score["signature"])}
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: no scores of table 5 ({error}): run evaluate.sh again") from error
    return scores


def rows(found: Found) -> list[list[str]]:
    """The table as text: a heading, then one row a system; blank where nothing was measured."""
    heading = ["newstest2014"]
    for pair, _ in PAIRS.values():
        heading += [f"{pair}, paper", "measured", "sacreBLEU"]
    table = [heading]
    for system, (name, *paper) in PAPER.items():
        measured_as = " / LSTM" if system == "lstm" and any(system == other for other, _ in found) else ""
        row = [name + measured_as]
        for target, in_paper in zip(PAIRS, paper, strict=True):
            scores = found.get((system, target))
            mark = "*" if scores and scores["segments"] != SEGMENTS else ""
            measured = [f"{scores[key]:.1f}{mark}" for key in ("tokenized_bleu", "sacrebleu")] if scores else ["", ""]
            row += ["" if in_paper is None else f"{in_paper:.1f}", *measured]
        table.append(row)
    return table


def notes(found: Found) -> list[str]:
    """What the figures are, one line each."""
    lines = ["paper, measured: tokenized BLEU, En-De with compounds split (Ott et al. 2018)"]
    for kind, name in ("tokenized_bleu", "measured"), ("sacrebleu", "sacreBLEU"):
        lines += [f"{name}: {each}" for each in sorted({scores[f"{kind}_signature"] for scores in found.values()})]
    for (system, target), scores in sorted(found.items()):
        if scores["segments"] != SEGMENTS:
            lines.append(
                f"* {scores['file']}: {scores['segments']} segments, not the {SEGMENTS} of newstest2014: "
                f"{PAPER[system][0]}, {PAIRS[target][0]} is no figure of this table"
            )
    if any(system == "lstm" for system, _ in found):
        lines.append("LSTM: fairseq's LSTM with attention (Luong et al. 2015), in GNMT's place; it is no GNMT")
    return lines


def as_json(found: Found) -> dict[str, Any]:
    pairs = [(target, pair) for target, (pair, _) in PAIRS.items()]
    return {
        system: {
            "name": name,
            **{
                pair: {"paper": in_paper, "measured": found.get((system, target))}
                for (target, pair), in_paper in zip(pairs, paper, strict=True)
            },
        }
        for system, (name, *paper) in PAPER.items()
    }


def run(args: argparse.Namespace) -> None:
    """What ``table5`` does with its options."""
    found = read_runs(args.runs)
    if args.json:
        print(json.dumps(as_json(found)))
    elif args.markdown:
        print(markdown_table(rows(found)) + "\n\n" + "\n".join(f"- {note}" for note in notes(found)))
    else:
        print(text_table(rows(found)) + "\n\n" + "\n".join(notes(found)))
