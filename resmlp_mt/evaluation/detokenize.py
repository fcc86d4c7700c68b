"""From a model's subwords to words, to Moses tokens and to running text."""

import re
from collections.abc import Sequence

from fairseq.data.data_utils import post_process
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from resmlp_mt.errors import UserError

SUBWORDS = ("subword_nmt", "sentencepiece", "none")
_WORD_START = "\u2581"  # sentencepiece's mark


def undo_subwords(lines: Sequence[str], scheme: str, what: str) -> list[str]:
    """Join subwords to words as fairseq's ``--remove-bpe`` does.

    Args:
        scheme: one of ``SUBWORDS``; undoing ``subword_nmt`` a second time changes nothing
        what: the name of the lines in errors

    Raises:
        UserError: the lines hold subwords of another scheme, or are joined already (sentencepiece)
    """
    marked = any(line.startswith(_WORD_START) for line in lines)
    # With the marks gone, joining would also delete the spaces between the words.
    if scheme == "sentencepiece" and not marked and any(" " in line for line in lines):
        raise UserError(f"{what}: no sentencepiece marks ({_WORD_START}): the words are joined, give --subwords none")
    if scheme != "sentencepiece" and marked:
        raise UserError(f"{what}: sentencepiece's subwords ({_WORD_START}): give --subwords sentencepiece")
    words = [post_process(line, scheme) for line in lines]
    for number, line in enumerate(words, start=1):
        if "@@ " in line or line.endswith("@@"):
            raise UserError(
                f"{what}: translation {number} of {len(words)} holds subwords (@@): give --subwords subword_nmt"
            )
    return words


def refuse_running_text(lines: Sequence[str], what: str) -> None:
    """Refuse lines that are said to be tokenized but are not: their tokenized BLEU would be wrong without a word.

    Raises:
        UserError: most lines end in a word and its full stop
    """
    if 2 * sum(re.search(r"\w[.?!]$", line) is not None for line in lines) > len(lines):
        raise UserError(f"{what}: running text, not tokenized ('{lines[0]}'): give --tokenizer none")


class Moses:
    """Moses tokenization of one language, by sacremoses.

    All tokens are in one form, that of ``tokenizer.perl -no-escape`` without ``-a``, so that tokens of corpora prepared
    either way compare.
    """

    def __init__(self, language: str):
        self._tokenizer = MosesTokenizer(language)
        self._detokenizer = MosesDetokenizer(language)
        self._normalizer = MosesPunctNormalizer(language)

    def tokens(self, text: str) -> str:
        """Tokenize running text."""
        return self._tokenizer.tokenize(text, escape=False, return_str=True)

    def plain_tokens(self, tokens: str) -> str:
        """Undo escapes (``&apos;``) and the hyphens of aggressive splitting (`` @-@ ``) in tokenized text."""
        return self._detokenizer.unescape_xml(tokens).replace(" @-@ ", "-")

    def text(self, tokens: str) -> str:
        """Make running text of tokens."""
        return self._detokenizer.detokenize(tokens.split(), return_str=True)

    def normalized(self, text: str) -> str:
        """Normalize the punctuation of running text (quotation marks, dashes, spaces)."""
        return self._normalizer.normalize(text)
