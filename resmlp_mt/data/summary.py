"""The results of a preparation: counted, and as text."""

import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resmlp_mt.common.progress import reasons
from resmlp_mt.common.tables import text_table
from resmlp_mt.data.sources import PairSource


def counts_of_pairs(
    sources: Sequence[PairSource], tokenized: list[dict[str, Any]], split: dict[str, Any]
) -> dict[str, Any]:
    rows = [
        {
            "name": source.name,
            "read": before["pairs"],
            "kept": after["kept"],
            "dropped": dict(sorted({**before["dropped"], **after["dropped"]}.items())),
        }
        for source, before, after in zip(sources, tokenized, split["sources"], strict=True)
    ]
    dropped = sum((Counter(row["dropped"]) for row in rows), Counter[str]())
    return {
        "read": sum(row["read"] for row in rows),
        "kept": split["kept"],
        "dropped": dict(sorted(dropped.items())),
        "sources": rows,
    }


def counts_of_text(sides: dict[str, dict[str, int]], unknown: dict[str, int]) -> dict[str, Any]:
    return {
        lang: {
            **side,
            "subwords_per_word": round(side["subwords"] / side["words"], 4),
            "unknown": round(unknown[lang] / side["subwords"], 6),
        }
        for lang, side in sides.items()
    }


def format_summary(summary: Mapping[str, Any]) -> str:
    """A summary of ``pipeline.prepare`` as two tables and a line on the subwords."""
    pairs = [("pairs", "read", "kept", "dropped")]
    for split, counts in summary["pairs"].items():
        rows = [(split, counts)]
        if len(counts["sources"]) > 1:
            rows += [(f"  {source['name']}", source) for source in counts["sources"]]
        pairs += [(name, f"{row['read']:,}", f"{row['kept']:,}", reasons(row["dropped"])) for name, row in rows]
    text = [("text", "words", "subwords", "subwords/word", "unknown", "longest")]
    for split, sides in summary["text"].items():
        for lang, side in sides.items():
            numbers = f"{side['words']:,}", f"{side['subwords']:,}", f"{side['subwords_per_word']:.3f}"
            text.append((f"{split}.{lang}", *numbers, f"{side['unknown']:.3%}", f"{side['longest']:,}"))
    return "\n".join(
        [
            text_table(pairs),
            "",
            text_table(text),
            "",
            f"subwords: {summary['learned']:,} learned; dictionary: {summary['dictionary']:,} symbols",
        ]
    )


def how_to_translate(data_bin: Path, save_dir: Path) -> str:
    """A command for raw text that works, pasted where the user stands, once a model is trained into ``save_dir``."""
    package = Path(__file__).parents[1]
    here = Path(os.path.relpath(package))
    user_dir = package if here.parts[0] == os.pardir else here
    checkpoint = save_dir / "checkpoint_best.pt"
    command = ["fairseq-interactive", data_bin, "--user-dir", user_dir, "--path", checkpoint]
    return f"raw text, with a model trained into {save_dir}:\n{shlex.join(map(str, command))}"
