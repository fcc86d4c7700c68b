"""Joint subwords of both languages: BPE by subword-nmt's rules, or a sentencepiece model."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike

REMEMBERED = 128 << 20  # bytes, about, of words and their subwords that a process keeps in memory
ENTRY = 110  # bytes that one of them takes in a dict


@dataclass(frozen=True)
class Subwords:
    """What splits words into subwords.

    Attributes:
        kind: ``"bpe"`` (subword-nmt) or ``"sentencepiece"`` (its unigram model)
        symbols: BPE merges to learn, or the size of the sentencepiece vocabulary
        learner: the library that learns BPE. Hugging Face's tokenizers finds merges as good in a fraction of the time,
            but not the same; subword-nmt applies those of both
        character_coverage: share of the text's characters that get a sentencepiece piece, from 0.98 to 1; the others
            are unknown. None: 0.9995, as its authors advise for large alphabets, but never less than the 1,000 most
            frequent characters, which is all of a small alphabet
    """

    kind: Literal["bpe", "sentencepiece"] = "bpe"
    symbols: int = 4000
    learner: Literal["subword-nmt", "tokenizers"] = "subword-nmt"
    character_coverage: float | None = None

    def __post_init__(self) -> None:
        if self.learner == "tokenizers":
            if self.kind != "bpe":
                raise UserError("--bpe-learner tokenizers: learns BPE, not sentencepiece's pieces: leave it out")
            if find_spec("tokenizers") is None:
                raise UserError("--bpe-learner tokenizers: is not installed: pip install 'tokenizers>=0.23.1'")
        if self.character_coverage is not None:
            if self.kind != "sentencepiece":
                raise UserError("--character-coverage: BPE covers every character: give --subwords sentencepiece too")
            if not 0.98 <= self.character_coverage <= 1:
                raise UserError(f"--character-coverage {self.character_coverage}: must be from 0.98 to 1")

    @property
    def file_name(self) -> str:
        """The name of the learned file; the second is what fairseq's ``from_pretrained`` looks for."""
        return {"bpe": "bpe.codes", "sentencepiece": "sentencepiece.bpe.model"}[self.kind]

    @property
    def library(self) -> str:
        """The distribution that applies them."""
        return "subword-nmt" if self.kind == "bpe" else "sentencepiece"

    @property
    def learning_library(self) -> str:
        """The distribution that learns them."""
        return self.learner if self.kind == "bpe" else "sentencepiece"

    def load(self, path: PathLike) -> "BPESubwords | SentencePieces":
        """A function from words to subwords, both with single spaces between, as learned in ``path``."""
        return BPESubwords(path) if self.kind == "bpe" else SentencePieces(path)


class BPESubwords:
    """BPE codes as ``subword-nmt apply-bpe`` applies them, each word once.

    Attributes:
        symbols: the only subwords for a dictionary; None: all that occur in training text, every character among them
        longest: most characters of words that a subword stands for; None: any number
    """

    symbols: frozenset[str] | None = None
    longest: int | None

    def __init__(self, path: PathLike):
        from subword_nmt.apply_bpe import BPE

        with open(path, encoding="utf-8", newline="\n") as codes:
            self._bpe = BPE(codes)
        self.longest = max((len(first + second) for first, second in self._bpe.bpe_codes), default=1)
        self._known = _Words(self._split)

    def __call__(self, line: str) -> str:
        return " ".join(map(self._known.__getitem__, line.split()))

    def _split(self, word: str) -> str:
        pieces = self._bpe.segment(word)
        self._bpe.cache.clear()  # or it would hold every word again, without a limit
        return pieces


class _Words(dict[str, str]):
    """Words and their subwords, forgotten where they take too much memory."""

    def __init__(self, split: Callable[[str], str]):
        super().__init__()
        self._split = split
        self._size = 0

    def __missing__(self, word: str) -> str:
        pieces = self._split(word)
        size = sys.getsizeof(word) + sys.getsizeof(pieces) + ENTRY
        self._size += size
        if self._size > REMEMBERED:
            self.clear()
            self._size = size
        self[word] = pieces
        return pieces


class SentencePieces:
    """A sentencepiece model as fairseq's ``--bpe sentencepiece`` applies it.

    What the model does not know comes out as it stands in the text, run by run, which is why a dictionary has to be
    told what the pieces are. Attributes as those of ``BPESubwords``.
    """

    symbols: frozenset[str] | None
    longest: int | None = None

    def __init__(self, path: PathLike):
        from sentencepiece import SentencePieceProcessor

        self._model = SentencePieceProcessor(model_file=str(path))
        numbers = range(self._model.get_piece_size())
        self.symbols = frozenset(self._model.id_to_piece(n) for n in numbers if not self._model.is_unknown(n))

    def __call__(self, line: str) -> str:
        return " ".join(self._model.encode(line, out_type=str))
