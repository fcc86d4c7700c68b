"""Print the paper's table 5 beside what was measured: tokenized BLEU on newstest2014, and sacreBLEU."""

import argparse
import json
from pathlib import Path
from typing import Any

from resmlp_mt.cli.arguments import command_parser
from resmlp_mt.common.errors import UserError
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

EPILOG = """
The folder of a run has the name of its system (lstm, convs2s, transformer, resmlp6, resmlp12; gated6 and gated12, which
the paper does not have) and holds test.json, which evaluate.sh left. A folder of such folders stands for all of them
that hold it; SYSTEM=DIR names the system of a folder with another name. GNMT is in the paper; what is measured in its
row is an LSTM with attention, which is no GNMT.

examples:
  resmlp-mt table5 work/wmt14_en_de work/wmt14_en_fr
  resmlp-mt table5 work/wmt14_en_de/resmlp6 work/wmt14_en_de/transformer --markdown
  resmlp-mt table5 resmlp6=elsewhere/run7 --json
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("runs", nargs="*", metavar="DIR", help="a scored run, a folder of them, or SYSTEM=DIR")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    form.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def find_runs(folders: list[str]) -> list[tuple[str, Path]]:
    """Tell which system each folder is a run of, and where its scores are.

    Raises:
        UserError: a folder that is no run of a system of the table, nor holds any
    """
    runs: list[tuple[str, Path]] = []
    for folder in folders:
        system, named, rest = folder.partition("=")
        path = Path(rest) if named and system in PAPER else Path(folder)
        if not (named and system in PAPER):
            system = path.resolve().name
        if system in PAPER:
            runs.append((system, path / SCORES))
            continue
        inside = [(each, path / each / SCORES) for each in PAPER if (path / each / SCORES).exists()]
        if not inside:
            raise UserError(
                f"{folder}: no scored run of table 5: give the folder of one ({', '.join(PAPER)}), or SYSTEM=DIR"
            )
        runs += inside
    return runs


def read_runs(folders: list[str]) -> dict[tuple[str, str], Scores]:
    """Read the scores of runs by (system, target language).

    Raises:
        UserError: no run, a file that does not hold the scores of a pair of the table, or two runs for one place
    """
    found: dict[tuple[str, str], Scores] = {}
    for system, path in find_runs(folders):
        scores = read_scores(path)
        place = system, scores["target_lang"]
        if place in found:
            name, pair = PAPER[system][0], PAIRS[scores["target_lang"]][0]
            raise UserError(f"{path}: {name}, {pair} again, first seen at {found[place]['file']}: give one of them")
        found[place] = scores
    return found


def read_scores(path: Path) -> Scores:
    """Target language, number of segments, tokenized BLEU and sacreBLEU of what ``score_bleu.py --json`` wrote."""
    try:
        if path.exists() and not (path.is_file() and path.stat().st_size < LARGEST):
            raise UserError(f"{path}: no file of scores: run evaluate.sh again")
        result = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file: run evaluate.sh for it first") from error
    except UserError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read ({error}): run evaluate.sh again") from error
    try:
        target, segments, found = result["target_lang"], result["segments"], result["scores"]
        if target not in PAIRS:
            raise UserError(f"{path}: target language {target!r}, but table 5 has {' and '.join(PAIRS)} only")
        if found.get(PAIRS[target][1]) is None:
            raise UserError(f"{path}: no BLEU with compounds split: score again with --split-compounds")
        if type(segments) is not int or segments < 1:
            raise TypeError
        scores: Scores = {"file": str(path), "target_lang": target, "segments": segments}
        for name, key in ("tokenized_bleu", PAIRS[target][1]), ("sacrebleu", "sacrebleu"):
            score, signature = found[key]["score"], found[key]["signature"]
            if not (type(score) in (int, float) and isinstance(signature, str) and signature.isprintable()):
                raise TypeError
            if not 0 <= score <= 100:  # NaN is neither
                raise UserError(f"{path}: {key} is no score from 0 to 100: run evaluate.sh again")
            scores |= {name: float(score), f"{name}_signature": signature}
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not what score_bleu.py --json prints: run evaluate.sh again") from error
    return scores


def rows(found: dict[tuple[str, str], Scores]) -> list[list[str]]:
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


def notes(found: dict[tuple[str, str], Scores]) -> list[str]:
    """What the figures are, one line each."""
    lines = ["paper, measured: tokenized BLEU, En-De with compounds split (Ott et al. 2018)"]
    for kind in "tokenized_bleu", "sacrebleu":
        for signature in sorted({scores[f"{kind}_signature"] for scores in found.values()}):
            lines.append(f"{'sacreBLEU' if kind == 'sacrebleu' else 'measured'}: {signature}")
    for (system, target), scores in sorted(found.items()):
        if scores["segments"] != SEGMENTS:
            lines.append(
                f"* {scores['file']}: {scores['segments']} segments, not the {SEGMENTS} of newstest2014: "
                f"{PAPER[system][0]}, {PAIRS[target][0]} is no figure of this table"
            )
    if any(system == "lstm" for system, _ in found):
        lines.append("LSTM: fairseq's LSTM with attention (Luong et al. 2015), in GNMT's place; it is no GNMT")
    return lines


def main() -> None:
    args = get_parser().parse_args()
    found = read_runs(args.runs)
    if args.json:
        result: dict[str, Any] = {}
        for system, (name, *paper) in PAPER.items():
            result[system] = {"name": name}
            for (target, (pair, _)), in_paper in zip(PAIRS.items(), paper, strict=True):
                result[system][pair] = {"paper": in_paper, "measured": found.get((system, target))}
        print(json.dumps(result))
        return
    table = rows(found)
    if args.markdown:
        print(markdown_table(table))
        print("\n" + "\n".join(f"- {note}" for note in notes(found)))
        return
    print(text_table(table))
    print("\n" + "\n".join(notes(found)))
