"""Joint subwords of both languages: BPE by subword-nmt, or a sentencepiece model."""

import contextlib
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from resmlp_mt.corpora.parallel import Chunk, Pair
from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike, atomic_write

SAMPLE = 500_000  # pairs, spread evenly over the text, from which sentencepiece learns: it holds them in memory
REMEMBERED = 1_000_000  # words whose subwords a process keeps at hand


@dataclass(frozen=True)
class Subwords:
    """What splits words into subwords.

    Attributes:
        kind: ``"bpe"`` (subword-nmt) or ``"sentencepiece"`` (its unigram model)
        symbols: BPE merges to learn, or the size of the sentencepiece vocabulary
    """

    kind: Literal["bpe", "sentencepiece"] = "bpe"
    symbols: int = 4000

    @property
    def file_name(self) -> str:
        """The name of the learned file; the second is what fairseq's ``from_pretrained`` looks for."""
        return {"bpe": "bpe.codes", "sentencepiece": "sentencepiece.bpe.model"}[self.kind]

    @property
    def library(self) -> str:
        """The distribution that learns and applies them."""
        return "subword-nmt" if self.kind == "bpe" else "sentencepiece"

    def load(self, path: PathLike) -> Callable[[str], str]:
        """A function from words to subwords, both with single spaces between, as learned in ``path``."""
        return WordPieces(path) if self.kind == "bpe" else Pieces(path)


class WordPieces:
    """BPE codes as ``subword-nmt apply-bpe`` applies them, each word once."""

    def __init__(self, path: PathLike):
        from subword_nmt.apply_bpe import BPE

        with open(path, encoding="utf-8", newline="\n") as codes:
            self._bpe = BPE(codes)
        self._known = _Words(self._bpe.segment)

    def __call__(self, line: str) -> str:
        if len(self._known) > REMEMBERED:
            self._known.clear()
            self._bpe.cache.clear()
        return " ".join(map(self._known.__getitem__, line.split()))


class _Words(dict[str, str]):
    def __init__(self, split: Callable[[str], str]):
        super().__init__()
        self._split = split

    def __missing__(self, word: str) -> str:
        self[word] = pieces = self._split(word)
        return pieces


class Pieces:
    """A sentencepiece model as fairseq's ``--bpe sentencepiece`` applies it."""

    def __init__(self, path: PathLike):
        from sentencepiece import SentencePieceProcessor

        self._model = SentencePieceProcessor(model_file=str(path))

    def __call__(self, line: str) -> str:
        return " ".join(self._model.encode(line, out_type=str))


@dataclass(frozen=True)
class Counted:
    """What ``WordCounter`` makes of a chunk: the pairs in it, and how often each word stands on each side."""

    read: int
    counts: tuple[Counter[str], ...]


class WordCounter:
    """Counts the words of chunks of tokenized pairs."""

    def __call__(self, chunk: Chunk) -> Counted:
        sides = zip(*chunk.pairs, strict=True)
        return Counted(len(chunk.pairs), tuple(Counter(b" ".join(lines).decode().split()) for lines in sides))


def learn_bpe(counts: dict[str, int], path: PathLike, symbols: int) -> int:
    """Learn BPE from the words of a text, which are few where the text is long, and write the codes to ``path``.

    Args:
        counts: how often each word occurs
        path: the file of codes, as ``subword-nmt learn-joint-bpe-and-vocab`` writes it
        symbols: merges to learn

    Returns:
        the number of merges learned, which a small text may keep below ``symbols``

    Raises:
        UserError: the text is too small, or the file cannot be written
    """
    from subword_nmt import learn_bpe as subword_nmt

    codes = io.StringIO()
    if any(len(word) > 1 for word in counts):  # subword-nmt fails without a pair of letters
        # Its progress bar is for people: in a log it would be one long line.
        with contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO()):
            subword_nmt.learn_bpe([f"{word} {count}" for word, count in counts.items()], codes, symbols, is_dict=True)
    learned = codes.getvalue().count("\n") - 1  # a first line tells the version
    if learned < 1:
        raise UserError("no two letters come together twice in the training text: there is no BPE to learn from it")
    with atomic_write(path) as file:
        file.write(codes.getvalue())
    return learned


def learn_pieces(pairs: Iterable[Pair], path: PathLike, symbols: int) -> int:
    """Learn a sentencepiece model from both sides of pairs, held in memory, and write it to ``path``.

    Returns:
        the number of pieces learned

    Raises:
        UserError: the text is too small, or the file cannot be written
    """
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(line.decode() for pair in pairs for line in pair if line),
            model_writer=model,
            vocab_size=symbols,
            character_coverage=1.0,  # both alphabets are small: no letter needs to be unknown
            minloglevel=2,
        )
    except RuntimeError as error:  # "INTERNAL: FILE(LINE) [CHECK] Vocabulary size too high (9). Please set it to ..."
        raise UserError(f"sentencepiece learned nothing: {str(error).splitlines()[-1].split('] ')[-1]}") from error
    with atomic_write(path, "wb") as file:
        file.write(model.getvalue())
    return SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size()


def evenly(pairs: Iterable[Pair], total: int, most: int = SAMPLE) -> Iterator[Pair]:
    """All of ``total`` pairs, or every second, third, ... of them, so that no more than ``most`` come out."""
    return islice(pairs, 0, None, -(-total // most) or 1)
