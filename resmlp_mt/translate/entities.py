"""Entities: addresses and placeholders, which come out of a translation unchanged. The model does not see them.

Each is put where it best separates two kinds of the translation's tokens: those that attend to the source before the
entity, and those that attend to the source after it.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from resmlp_mt.common.errors import UserError
from resmlp_mt.text.subwords import WORD_START
from resmlp_mt.translate.words import LETTER, MARKS, piece_starts, within_word

ENTITY = re.compile(
    r"""(?:https?://|ftp://|www\.)  # addresses
      (?:[^\s<>"'(){}“”„«»、。，；：！？]|\([^\s()]*\)|\{[^\s{}]*\})*
      (?:[^\s<>"'(){}“”„«»、。，；：！？.,;:!?…\]]|\([^\s()]*\)|\{[^\s{}]*\})
    | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+
    | \{\{[^{}\n]{1,100}\}\} | \$?\{[\w.:!-]*\}  # {{ name }}, ${name}, {name}, {0:.2f}, {}
    | \$[A-Z_][A-Z0-9_]+\b
    | (?<![0-9%])%(?:\(\w+\)|[1-9]\$)?[-+#0]?[0-9]*(?:\.[0-9]+)?[sdifgeuxXc]\b  # %s, %(name)s, %1$s, %.2f
    """,
    re.VERBOSE,
)
FIRST, LAST = 0xE000, 0xF8FF  # private-use characters, which text cleaning drops
MASK = f"[{chr(FIRST)}-{chr(LAST)}]"
RUN = re.compile(f"{MASK}(?: *{MASK})*")
DECAY = 0.7  # factor of a source token's weight for each token between it and the entity


def masked(text: str) -> tuple[str, list[str]]:
    """Return a text with a private-use character in place of each word of its entities, and these words."""
    if not ENTITY.search(text):
        return text, []
    kept: list[str] = []

    def mask(word: re.Match[str]) -> str:
        kept.append(word[0])
        return chr(FIRST + len(kept) - 1)

    text = ENTITY.sub(lambda entity: re.sub(r"\S+", mask, entity[0]), re.sub(MASK, "", text))
    if len(kept) > LAST - FIRST:
        raise UserError(f"{len(kept):,} addresses and placeholders in a text: split it")
    return text, kept


def restored(text: str, kept: Sequence[str]) -> str:
    """Return the text with the masked words put back."""
    return text.translate(dict(enumerate(kept, FIRST)))


def placed(
    target: Sequence[str], source: Sequence[str], text: str, alignment: ArrayLike | None, subwords: str, prefix: int = 0
) -> list[str]:
    """Return the subwords of a translation, with the first mask of each run of the source's masks among them.

    Args:
        source, text: the source's subwords and masked text
        alignment: as in ``Translation``; None: an entity is put at the same relative position as in the source
        prefix: number of tokens with which the translation has to begin
    """
    gaps = [0, *(gap for gap in range(1, len(target)) if _apart(target[gap - 1], target[gap], subwords)), len(target)]
    last_word = max((gap for gap, piece in enumerate(target, 1) if LETTER.search(piece)), default=0)
    starts = piece_starts(source, text)
    weights = None if alignment is None else np.reshape(alignment, (len(target), len(source) + 1))[:, :-1]
    runs: dict[int, list[str]] = {}
    for run in RUN.finditer(text):
        before = sum(start < run.start() for start in starts)
        within = before < len(source) and not LETTER.search(source[-1])  # the run is before the final punctuation
        possible = [gap for gap in gaps if prefix <= gap and (gap <= last_word or not within)] or gaps[-1:]
        if within and not any(map(LETTER.search, source[before:])):
            gap = possible[-1]
        elif weights is None:
            gap = min(possible, key=lambda gap: abs(gap * len(source) - before * len(target)))
        else:
            near = [DECAY ** (before - 1 - n) if n < before else -(DECAY ** (n - before)) for n in range(len(source))]
            # by gap: how much more the tokens before it attend to the source before the entity than to that after it
            parted = [0.0, *np.cumsum(weights @ np.array(near, weights.dtype))]
            gap = max(reversed(possible), key=parted.__getitem__)
        runs.setdefault(gap, []).append(run[0][0])
    start = WORD_START if subwords == "sentencepiece" else ""
    with_masks: list[str] = []
    for gap, piece in enumerate([*target, ""]):
        masks = [start + mask for mask in runs.get(gap, ())]
        with_masks += [*masks, start + piece if masks and LETTER.match(piece) else piece]  # no word joins an address
    return with_masks[:-1]


def _apart(one: str, other: str, subwords: str) -> bool:
    """Whether a word can be put between two subwords."""
    if subwords == "bpe":
        return not one.endswith("@@")
    return other.startswith((WORD_START, "-")) or not (within_word(other[0]) or re.match(f"[{MARKS}]", other))


def spaced(text: str, source: str) -> str:
    """Return a translation with whole runs of masks, and the source's spaces beside them if the neighbour is the same.

    Before a run, any letter or digit counts as the same (a footnote's mark follows any word without a space), but not
    if the source is written without spaces.
    """
    for run in RUN.finditer(source):
        one, other = source[: run.start()], source[run.end() :]
        before, behind = re.escape(one.rstrip()[-1:]), re.escape(other.lstrip()[:1])
        left, right = " " * one[-1:].isspace(), " " * other[:1].isspace()
        text = text.replace(run[0][0], run[0], 1)
        if within_word(before):
            before = LETTER.pattern
        if before:
            text = re.sub(f"(?<={before}) ?{run[0]}", left + run[0], text)
        if behind:
            text = re.sub(f"{run[0]} ?(?={behind})", run[0] + right, text)
    return text
