"""Joint subwords of both languages: BPE by subword-nmt, or a sentencepiece model."""

import contextlib
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike, atomic_write, read_lines


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

    def fairseq_options(self, path: PathLike) -> list[str]:
        """The options with which fairseq-interactive splits words as the learned file ``path`` does."""
        if self.kind == "bpe":
            return ["--bpe", "subword_nmt", "--bpe-codes", str(path)]
        return ["--bpe", "sentencepiece", "--sentencepiece-model", str(path)]

    def marks_word(self, piece: str) -> bool:
        """Whether a subword is the one by which its word is counted: BPE's last, sentencepiece's first."""
        return not piece.endswith("@@") if self.kind == "bpe" else piece.startswith("\u2581")

    def learn(self, texts: Iterable[PathLike], path: PathLike) -> int:
        """Learn from tokenized training texts and write the codes or the model to ``path``.

        Returns:
            the number of merges or pieces learned, which a small text may keep below ``symbols``

        Raises:
            UserError: the text is too small, or the file cannot be written
        """
        return _learn_bpe(texts, path, self.symbols) if self.kind == "bpe" else _learn_pieces(texts, path, self.symbols)

    def load(self, path: PathLike) -> Callable[[str], str]:
        """A function from words to subwords, both with single spaces between, as learned in ``path``."""
        if self.kind == "bpe":
            from subword_nmt.apply_bpe import BPE

            with open(path, encoding="utf-8", newline="\n") as codes:
                return BPE(codes).segment
        return Pieces(path)


class Pieces:
    """A sentencepiece model as fairseq's ``--bpe sentencepiece`` applies it."""

    def __init__(self, path: PathLike):
        from sentencepiece import SentencePieceProcessor

        self._model = SentencePieceProcessor(model_file=str(path))

    def __call__(self, line: str) -> str:
        return " ".join(self._model.encode(line, out_type=str))


class PairSplitter:
    """Splits both sides of a pair into subwords."""

    def __init__(self, subwords: Subwords, path: PathLike):
        self._split = subwords.load(path)

    def __call__(self, pair: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self._split, pair))


def _learn_bpe(texts: Iterable[PathLike], path: PathLike, symbols: int) -> int:
    from subword_nmt.learn_bpe import learn_bpe

    # Counts are enough, and stay small where the text does not fit into memory.
    counts = Counter(word for text in texts for line in read_lines(text) for word in line.split())
    codes = io.StringIO()
    if any(len(word) > 1 for word in counts):  # learn_bpe fails without a pair of letters
        # Its progress bar is for people: in a log it would be one long line.
        with contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO()):
            learn_bpe([f"{word} {count}" for word, count in counts.items()], codes, symbols, is_dict=True)
    learned = codes.getvalue().count("\n") - 1  # a first line tells the version
    if learned < 1:
        raise UserError("no two letters come together twice in the training text: there is no BPE to learn from it")
    with atomic_write(path) as file:
        file.write(codes.getvalue())
    return learned


def _learn_pieces(texts: Iterable[PathLike], path: PathLike, symbols: int) -> int:
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(line for text in texts for line in read_lines(text) if line),
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
