"""Turn a model's subwords into words, Moses tokens and running text."""

import re
from collections.abc import Sequence

from sacremoses import MosesDetokenizer

from resmlp_mt.common.errors import UserError
from resmlp_mt.text.moses import detokenizer
from resmlp_mt.text.subwords import WORD_START, joined
from resmlp_mt.text.words import LineTokenizer, Words

FEW = 20
"""One line in this many may hold marks of subwords, or remains of wrong joining: ordinary text can hold them, too."""
KINDS = {"subword_nmt": "bpe", "sentencepiece": "sentencepiece"}
SUBWORDS = (*KINDS, "none")
_CUT = re.compile(r"(?<=\S)@@(?= |$)")  # subword-nmt's mark inside a word


def undo_subwords(lines: Sequence[str], scheme: str, what: str) -> list[str]:
    """Join subwords as fairseq's ``--remove-bpe`` does; ``scheme``: of SUBWORDS, ``what``: name of lines in errors."""
    marked = 2 * sum(WORD_START in line for line in lines) > sum(map(bool, lines))  # sentencepiece marks every line
    if scheme != "sentencepiece" and marked:
        raise UserError(f"{what}: sentencepiece's subwords ({WORD_START}): give --subwords sentencepiece")
    if scheme == "sentencepiece" and not marked and any(" " in line for line in lines):
        # With the marks gone, joining would also delete the spaces between the words.
        if any(map(_CUT.search, lines)):
            raise UserError(f"{what}: subword-nmt's subwords (@@): give --subwords subword_nmt")
        raise UserError(f"{what}: no sentencepiece marks ({WORD_START}): the words are joined, give --subwords none")
    words = list(lines) if scheme == "none" else [joined(line, KINDS[scheme]) for line in lines]
    cut = [number for number, line in enumerate(words, start=1) if _CUT.search(line)]
    if FEW * len(cut) > len(words):  # ordinary text can hold the mark, too
        raise UserError(f"{what}: translation {cut[0]} of {len(words)} has subwords (@@): give --subwords subword_nmt")
    glued = [line for line in words if "@@" in line]
    if FEW * len(glued) > len(words):
        raise UserError(_joined_wrongly(what, glued[0]))
    return words


def check_spaces(lines: Sequence[str], references: Sequence[str], what: str) -> None:
    """Refuse words that run together: subwords were joined by the rules of another scheme."""
    compared = [
        line
        for line, reference in zip(lines, references, strict=True)
        if reference.count(" ") > 2 and 2 * len(line) > len(reference)
    ]
    together = [line for line in compared if " " not in line]
    if 2 * len(together) > len(compared):
        raise UserError(_joined_wrongly(what, together[0]))


def _joined_wrongly(what: str, example: str) -> str:
    return (
        f"{what}: subwords joined as another kind's ('{example:.60}'): generate again without --post-process "
        "(--remove-bpe), or with the kind that the data has"
    )


def check_tokenization(lines: Sequence[str], tokenized: bool, what: str) -> None:
    """Refuse tokens given as running text, and the reverse: every score would be wrong without an error."""
    other = re.compile(r"\w[.?!]$" if tokenized else r"\w \.$")
    if 2 * sum(other.search(line) is not None for line in lines) > len(lines):
        kinds, advice = ("tokens", "running text"), "detokenize, for hypotheses by --tokenizer moses"
        if tokenized:
            kinds, advice = kinds[::-1], "tokenize, or for hypotheses give --tokenizer none"
        raise UserError(f"{what}: {kinds[0]}, not {kinds[1]} ('{next(filter(other.search, lines)):.60}'): {advice}")


class Moses:
    """Moses tokenization of one language by sacremoses, as for the corpora: ``tokens`` splits running text into tokens,
    ``text`` makes running text of tokens.

    All tokens have the form of ``tokenizer.perl -no-escape`` without ``-a``, so that tokens can be compared however the
    corpus was prepared.
    """

    def __init__(self, language: str, normalize: bool = False):
        self.tokens, self.text = LineTokenizer(language, Words(normalize=normalize)), detokenizer(language)
        self._unescape_xml = MosesDetokenizer(language).unescape_xml

    def plain_tokens(self, tokens: str) -> str:
        """Undo escapes (``&apos;``) and the hyphens of aggressive splitting (`` @-@ ``) in tokenized text."""
        return self._unescape_xml(tokens).replace(" @-@ ", "-")
