"""Joint subwords of both languages: BPE by subword-nmt's rules, or a sentencepiece model; how they are learned."""

import contextlib
import io
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import IO

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, atomic_write, read_lines, write_whole
from resmlp_mt.common.options import Checked, option
from resmlp_mt.common.progress import Progress
from resmlp_mt.common.workers import end_with_parent
from resmlp_mt.data.sources import Pair
from resmlp_mt.text.subwords import SUBWORDS, BPESubwords, SentencePieces


@dataclass(frozen=True)
class Subwords(Checked):
    """The kind of subwords, and how they are learned. subword-nmt applies the BPE of both learners."""

    kind: str = option("bpe", "kind of subwords", name="subwords", choices=tuple(SUBWORDS))
    symbols: int = option(4000, "BPE merges, or size of the vocabulary", least=1, most=10**7)
    learner: str = option(
        "subword-nmt",
        "library that learns BPE: tokenizers (Hugging Face's, to be installed) is several times as fast; its merges "
        "are as good, not the same",
        name="bpe-learner",
        choices=("subword-nmt", "tokenizers"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learner == "tokenizers" and self.kind != "bpe":
            raise UserError("--bpe-learner tokenizers: learns BPE, not sentencepiece's pieces: leave it out")
        if self.learner == "tokenizers" and find_spec("tokenizers") is None:
            raise UserError("--bpe-learner tokenizers: is not installed: pip install 'tokenizers>=0.23.1'")

    @property
    def file_name(self) -> str:
        """The name of the learned file; that of sentencepiece is what fairseq's ``from_pretrained`` looks for."""
        return {"bpe": "bpe.codes", "sentencepiece": "sentencepiece.bpe.model"}[self.kind]

    @property
    def library(self) -> str:
        """The distribution that applies the subwords."""
        return "subword-nmt" if self.kind == "bpe" else "sentencepiece"

    def load(self, path: PathLike) -> BPESubwords | SentencePieces:
        """Return a function from words to subwords, both separated by single spaces, as learned in ``path``."""
        return SUBWORDS[self.kind](path)


MOST_LETTERS = 1_000  # longest word that BPE is learned from: longer ones are lines without spaces, or no text
SAMPLE = 500_000  # pairs, spread evenly over the text, from which sentencepiece learns: it holds them in memory
COVERAGE = 0.9995  # share of the characters of a large alphabet that get a piece, as sentencepiece's authors advise
ALPHABET = 1_000  # this many frequent characters always get a piece: by COVERAGE alone, German would lose Ö and %
OWN = " \u2581\u2585"  # used by sentencepiece itself: the space, its mark for a space, its mark for unknown characters


def write_counts(counts: Mapping[str, int], path: PathLike) -> None:
    """Write one word and its count per line, the most frequent word first."""
    with atomic_write(path) as file:
        ordered = sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))
        file.writelines(f"{word} {count}\n" for word, count in ordered)


def learn_bpe(words: Path, path: PathLike, subwords: Subwords, jobs: int = 1) -> int:
    """Learn BPE from the words of a text and their counts, and write the codes to ``path`` as subword-nmt does.

    Return the number of merges learned, which is lower than asked for if the text is too small.
    """
    with atomic_write(path, "w+b") as codes:
        if any(line.index(" ") > 1 for line in read_lines(words)):  # subword-nmt fails without a pair of letters
            if subwords.learner == "tokenizers":
                _by_tokenizers(words, codes, subwords.symbols, jobs)
            else:
                _by_subword_nmt(words, codes, subwords.symbols)
        codes.seek(0)
        learned = sum(1 for _ in codes) - 1  # without the first line, which has the version
        if learned < 1:
            raise UserError(
                f"no two letters come together twice in the training text's words of at most {MOST_LETTERS:,} letters: "
                "there is no BPE to learn: look at the text, or give --subwords sentencepiece"
            )
    return learned


def _by_subword_nmt(words: Path, codes: IO[bytes], symbols: int) -> None:
    from subword_nmt import learn_bpe as subword_nmt

    # Its progress bar is for terminals: in a log it would be one long line.
    with Progress("learn subwords", symbols, unit="merges") as progress, contextlib.redirect_stderr(io.StringIO()):
        subword_nmt.learn_bpe(read_lines(words), _Merges(codes, progress), symbols, is_dict=True)


class _Merges:
    """The file that subword-nmt writes to, with progress: one line with the version, then one for each merge."""

    def __init__(self, codes: IO[bytes], progress: Progress):
        self._codes = codes
        self._progress = progress

    def write(self, line: str) -> None:
        if self._codes.tell():
            self._progress.add(1)
        self._codes.write(line.encode())


def _by_tokenizers(words: Path, codes: IO[bytes], symbols: int, jobs: int) -> None:
    # In a separate process: its threads do not mix with forked workers.
    program = Path(__file__).with_name("tokenizers_bpe.py")
    done = subprocess.run(
        [sys.executable, str(program), str(words), str(symbols)],
        stdout=codes,
        stderr=subprocess.PIPE,
        env={**os.environ, "RAYON_NUM_THREADS": str(jobs)},
        preexec_fn=end_with_parent,
    )
    if done.returncode:
        complaint = done.stderr.decode(errors="replace").strip() or f"{done.returncode} (out of memory?)"
        raise UserError(f"tokenizers failed while it learned BPE: {complaint.splitlines()[-1]}")


def learn_pieces(pairs: Iterable[Pair], path: PathLike, subwords: Subwords) -> int:
    """Learn a sentencepiece model from both sides of pairs, held in memory; write it and return its number of pieces.

    The model does not normalize (``identity``): joined pieces give the original text.
    """
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    lines = [line.decode() for pair in pairs for line in pair if line]
    letters: Counter[str] = Counter()
    for line in lines:
        letters.update(line)
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=subwords.symbols,
            normalization_rule_name="identity",
            character_coverage=COVERAGE,
            required_chars="".join(letter for letter, _ in letters.most_common(ALPHABET) if letter not in OWN),
            minloglevel=2,
        )
    except RuntimeError as error:  # "INTERNAL: FILE(LINE) [CHECK] Vocabulary size too high (9). Please ..."
        why = str(error).splitlines()[-1].split("] ")[-1] or "no line is of a length that it learns from"
        raise UserError(f"--symbols {subwords.symbols}: sentencepiece learned nothing: {why}") from error
    write_whole(path, model.getvalue())
    return SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size()


def every_nth(pairs: Iterable[Pair], total: int, most: int = SAMPLE) -> Iterator[Pair]:
    """Yield all of ``total`` pairs, or every second, third, ... pair, so that they are at most ``most``."""
    return islice(pairs, 0, None, -(-total // most) or 1)
