"""Joint subwords of both languages: BPE by subword-nmt's rules, or a sentencepiece model."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike
from resmlp_mt.text.subwords import SUBWORDS, BPESubwords, SentencePieces


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

    def load(self, path: PathLike) -> BPESubwords | SentencePieces:
        """A function from words to subwords, both with single spaces between, as learned in ``path``."""
        return SUBWORDS[self.kind](path)
