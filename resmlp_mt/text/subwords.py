"""From words to subwords and back: BPE by subword-nmt's rules, or a sentencepiece model."""

import os
from functools import lru_cache

WORD_START = "\u2581"  # sentencepiece's mark


class BPESubwords:
    """BPE codes, applied as ``subword-nmt apply-bpe`` does; the subwords of each word are cached."""

    # The only subwords that a dictionary may hold; None: all that occur in training text, and all characters
    symbols: frozenset[str] | None = None
    longest: int | None  # the largest number of a word's characters that one subword stands for; None: no limit

    def __init__(self, path: str | os.PathLike[str]):
        try:
            from subword_nmt.apply_bpe import BPE
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "subword-nmt is not installed: pip install subword-nmt", name="subword_nmt"
            ) from error

        with open(path, encoding="utf-8", newline="\n") as codes:
            self._bpe = BPE(codes)
        self.longest = max((len(first + second) for first, second in self._bpe.bpe_codes), default=1)
        self._known = lru_cache(1 << 18)(self._split)

    def __call__(self, line: str) -> str:
        # longer words are rare, and would take much memory
        return " ".join(self._known(word) if len(word) < 100 else self._split(word) for word in line.split())

    def _split(self, word: str) -> str:
        pieces = self._bpe.segment(word)
        self._bpe.cache.clear()  # else it would hold every word a second time, without a limit
        return pieces


class SentencePieces:
    """A sentencepiece model as fairseq's ``--bpe sentencepiece`` applies it.

    A run of unknown characters comes out unchanged, as one piece. So the pieces that a dictionary may hold are listed
    in ``symbols``. The attributes are those of ``BPESubwords``.
    """

    symbols: frozenset[str] | None
    longest: int | None = None

    def __init__(self, path: str | os.PathLike[str]):
        try:
            from sentencepiece import SentencePieceProcessor
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "sentencepiece is not installed: pip install sentencepiece", name="sentencepiece"
            ) from error

        self._model = SentencePieceProcessor(model_file=str(path))
        numbers = range(self._model.get_piece_size())
        self.symbols = frozenset(self._model.id_to_piece(n) for n in numbers if not self._model.is_unknown(n))

    def __call__(self, line: str) -> str:
        return " ".join(self._model.encode(line, out_type=str))


SUBWORDS: dict[str, type[BPESubwords] | type[SentencePieces]] = {"bpe": BPESubwords, "sentencepiece": SentencePieces}


def joined(subwords: str, kind: str) -> str:
    """Join subwords into words, both separated by single spaces; words that are already joined stay as they are."""
    if kind == "bpe":
        return f"{subwords} ".replace("@@ ", "").rstrip()
    if WORD_START not in subwords:
        return subwords
    return subwords.replace(" ", "").replace(WORD_START, " ").strip()
