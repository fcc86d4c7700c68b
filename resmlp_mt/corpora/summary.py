"""What a preparation came to, for people."""

from collections.abc import Mapping
from typing import Any

from resmlp_mt.corpora.progress import reasons
from resmlp_mt.tables import text_table


def format_summary(summary: Mapping[str, Any]) -> str:
    """A summary of ``pipeline.prepare`` as two tables and the options for translating raw text."""
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
            "raw text, in this folder: fairseq-interactive data-bin " + " ".join(summary["fairseq_options"]),
        ]
    )
