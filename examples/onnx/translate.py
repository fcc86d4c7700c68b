#!/usr/bin/env python3
"""Translate subword sentences with an exported model: beam search in NumPy and ONNX Runtime, no PyTorch, no fairseq.

Reads one sentence a line, writes one translation a line. FOLDER is what resmlp-mt export onnx made.
"""

import argparse
import hashlib
import json
import math
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

try:
    if __name__ == "__main__":  # Ctrl-C and a reader that goes away (| head) end it without a word
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    import numpy as np
    import onnxruntime
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is not installed for {sys.executable}: pip install numpy onnxruntime")

T = TypeVar("T")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]  # fairseq's, before the entries of dict.*.txt
PARTS = ("encoder.onnx", "decoder_step.onnx")
MANY_UNKNOWN = 0.05
"""The share of words from which on a batch is no text that was split as the training's."""


class Mistake(ValueError):
    """Of the user's, told in one line."""


@dataclass
class Hypothesis:
    """A finished translation without its ``</s>``, and its log-probability divided by its length to some power."""

    tokens: list[int]
    score: float


class Translator:
    """An exported model with its dictionaries.

    Args:
        folder: of encoder.onnx, decoder_step.onnx, model.json and dict.*.txt
        threads: of the processor; 0: all
    """

    def __init__(self, folder: Path, threads: int = 0):
        self.about = read_about(folder / "model.json")
        check_sums(folder, self.about.get("sha256", {}))
        self.source_symbols, self.target_symbols = (
            read_dictionary(folder / self.about[f"{side}_dictionary"], size)
            for side, size in (("source", self.about["source_symbols"]), ("target", self.about["sizes"]["V"]))
        )
        self.source_index = {symbol: index for index, symbol in enumerate(self.source_symbols)}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # a mistake comes as an exception too
        self.encoder, self.decoder_step = (session(folder / name, options) for name in PARTS)

    def tokens(self, sentence: str) -> list[int]:
        """The numbers of a sentence's subwords, and ``</s>``."""
        words = [self.source_index.get(word, self.about["unk"]) for word in sentence.split()]
        limit = self.about["max_source_positions"]
        if len(words) >= limit:
            raise Mistake(f"{len(words)} subwords and </s>, but the model has {limit} positions: split the sentence")
        return [*words, self.about["eos"]]

    def unknown(self, sentence: str) -> list[str]:
        """The words of a sentence that are none of the model's."""
        return [word for word in sentence.split() if word not in self.source_index]

    @property
    def marks(self) -> str:
        """How the model's subwords are marked, as far as its dictionary tells."""
        for mark, found in (("@@", str.endswith), ("\u2581", str.startswith)):
            if any(found(symbol, mark) for symbol in self.source_symbols):
                return f" ({mark})"
        return ""

    def text(self, tokens: list[int]) -> str:
        return " ".join(self.target_symbols[token] for token in tokens)

    def search(self, sentences: list[list[int]], beam: int, lenpen: float, longest: int) -> list[Hypothesis]:
        """The best translation of each of a batch of sentences, as fairseq's beam search finds it.

        Args:
            sentences: their tokens, ``</s>`` last
            beam: hypotheses that are followed at a time, K
            lenpen: the power of the length
            longest: tokens of a translation, without ``</s>``
        """
        pad, eos, sizes = self.about["pad"], self.about["eos"], self.about["sizes"]
        longest = min(longest, self.about["max_target_positions"] - 1)
        source = np.full((len(sentences), max(map(len, sentences))), pad)
        for row, tokens in zip(source, sentences, strict=True):
            row[: len(tokens)] = tokens
        keys, values, mask = run(self.encoder, {"source": source})

        going = np.arange(len(sentences))  # the sentences that are not finished, B
        finished: list[list[Hypothesis]] = [[] for _ in sentences]
        tokens = np.full((len(going), beam, 1), eos)  # what the beams have written, B x K x T
        scores = np.zeros((len(going), beam, 1), np.float32)
        past = np.zeros((sizes["L"], 0, len(going) * beam, sizes["C"]), np.float32)
        for length in range(1, longest + 2):
            step = {"previous": tokens[:, :, -1].ravel(), "past": past, "keys": keys, "values": values, "mask": mask}
            new, past, *_ = run(self.decoder_step, step)
            new = new.reshape(len(going), beam, -1)
            new[:, :, pad] = -np.inf
            if length == 1:
                new[:, 1:] = -np.inf  # all beams are the same yet
                new[:, :, eos] = -np.inf  # no empty translation
            elif length > longest:
                new[:, :, np.arange(new.shape[2]) != eos] = -np.inf
            totals, beams, words = best(scores + new, 2 * beam)

            ends = (words[:, :beam] == eos) & np.isfinite(totals[:, :beam])
            for b, k in zip(*np.nonzero(ends), strict=True):
                if len(finished[going[b]]) < beam:
                    written = tokens[b, beams[b, k], 1:].tolist()
                    finished[going[b]].append(Hypothesis(written, totals[b, k] / length**lenpen))
            left = np.array([len(finished[sentence]) < beam for sentence in going])
            if length > longest or not left.any():
                break

            # The K best that go on; a beam has one end, so at least K of the 2K candidates do.
            on = np.argsort(words == eos, axis=1, kind="stable")[left, :beam]
            totals, beams, words = (np.take_along_axis(each[left], on, 1) for each in (totals, beams, words))
            continued = np.take_along_axis(tokens[left], beams[:, :, None], 1)
            tokens = np.concatenate([continued, words[:, :, None]], 2)
            scores = totals[:, :, None]
            past = past[:, :, (np.flatnonzero(left)[:, None] * beam + beams).ravel()]
            if not left.all():
                keys, values, mask, going = keys[:, left], values[:, left], mask[left], going[left]
        if not all(finished):
            raise Mistake("the model's scores are no numbers: export it again")
        return [max(hypotheses, key=lambda each: each.score) for hypotheses in finished]


def best(totals: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ``count`` highest of each sentence's scores (B x K x V), highest first: they, their beams and their words."""
    flat = totals.reshape(len(totals), -1)
    count = min(count, flat.shape[1] - 1)
    index = np.argpartition(-flat, count, axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(flat, index, 1), axis=1, kind="stable")
    index = np.take_along_axis(index, order, 1)
    return np.take_along_axis(flat, index, 1), index // totals.shape[2], index % totals.shape[2]


def read_about(path: Path) -> dict[str, Any]:
    """What model.json says, as far as it is needed here."""
    about = read(path, lambda file: json.loads(file.read_text(encoding="utf-8")))
    try:
        numbers = [about[name] for name in ("source_symbols", "pad", "eos", "unk")]
        numbers += [about[f"max_{side}_positions"] for side in ("source", "target")]
        numbers += [about["sizes"][name] for name in "LHDCV"]
        names = [about[f"{side}_dictionary"] for side in ("source", "target")]
        sums = about.get("sha256", {})  # folders of earlier versions have none
        names += [*sums]
        right = all(type(number) is int and number >= 0 for number in numbers) and isinstance(sums, dict)
        right = right and max(about["pad"], about["eos"], about["unk"]) < min(numbers[0], about["sizes"]["V"])
        right = right and all(isinstance(name, str) and Path(name).name == name for name in names)
    except (KeyError, TypeError, AttributeError):
        right = False
    if not right:
        raise Mistake(f"{path}: not what resmlp-mt export onnx writes: export the model again")
    return about


def check_sums(folder: Path, sums: dict[str, str]) -> None:
    """See that the files are those that were exported together; dictionaries may have been added since."""
    for name, expected in sums.items():
        found = read(folder / name, lambda file: hashlib.sha256(file.read_bytes()).hexdigest())
        if found != expected:
            raise Mistake(f"{folder / name}: not the file that was exported: copy the whole folder again")


def read_dictionary(path: Path, size: int) -> list[str]:
    """fairseq's dict.*.txt: a symbol and its count a line, so many with fairseq's own."""
    lines = read(path, lambda file: file.read_text(encoding="utf-8")).removesuffix("\n").split("\n")
    symbols = SPECIAL + [line.removesuffix(" #fairseq:overwrite").rpartition(" ")[0] for line in lines]
    if len(symbols) != size or "" in symbols:
        raise Mistake(f"{path}: not the model's dictionary, of {size - len(SPECIAL)} lines: copy its own there")
    return symbols


def session(path: Path, options: Any) -> Any:
    """A graph, ready to run."""
    return read(
        path,
        lambda file: onnxruntime.InferenceSession(file.read_bytes(), options, providers=["CPUExecutionProvider"]),
    )


def run(graph: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """A graph's outputs."""
    try:
        return graph.run(None, inputs)
    except Exception as error:  # onnxruntime's own have no class in common
        raise Mistake(f"the model does not run ({first_line(error)}): smaller batches, or export it again") from error


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def read(path: Path, reader: Callable[[Path], T]) -> T:
    """What a reader makes of a file; whatever goes wrong is one line."""
    if path.exists() and not path.is_file():
        raise Mistake(f"{path}: is not a file: export the model again")
    try:
        return reader(path)
    except FileNotFoundError as error:
        raise Mistake(f"{path}: no such file: make the folder with resmlp-mt export onnx") from error
    except Exception as error:
        raise Mistake(f"{path}: cannot be read ({first_line(error)}): export the model again, or copy it") from error


def batches(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """``size`` things at a time, the last ones possibly fewer."""
    things = iter(things)
    while batch := list(islice(things, size)):
        yield batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--beam", type=int, default=5, help="default: %(default)s, as fairseq-generate")
    parser.add_argument("--lenpen", type=float, default=1.0, help="power of the length, default: %(default)s")
    parser.add_argument("--max-len", type=int, default=200, help="subwords of a translation, default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=32, help="sentences at a time, default: %(default)s")
    parser.add_argument("--threads", type=int, default=0, help="default: all of the machine's")
    args = parser.parse_args()
    for name in "beam", "batch_size", "max_len":
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(args, name)}: give 1 or more")
    if args.threads < 0 or args.threads > 1000:
        parser.error(f"--threads {args.threads}: give 0 to 1000")
    if not math.isfinite(args.lenpen):
        parser.error(f"--lenpen {args.lenpen}: give a number")
    try:
        sys.exit(translate(Translator(args.folder, args.threads), args))
    except Mistake as error:
        sys.exit(str(error))


def translate(translator: Translator, args: argparse.Namespace) -> int:
    """Translate stdin to stdout, a line a line. A line that cannot be translated is told and becomes an empty one.

    Returns:
        the status to end with: 1 if there was such a line
    """
    failed = warned = False
    for batch in batches(enumerate(sys.stdin.buffer, start=1), args.batch_size):
        sentences: dict[int, list[int]] = {}
        words: list[str] = []
        unknown: list[str] = []
        for number, line in batch:
            try:
                text = line.decode("utf-8")
                if text.strip():  # nothing stays nothing: a model would make something up
                    sentences[number] = translator.tokens(text)
                words += text.split()
                unknown += translator.unknown(text)
            except ValueError as error:  # not UTF-8, too
                print(f"line {number}: {error}; its translation is left empty", file=sys.stderr)
                failed = True
        if len(unknown) > MANY_UNKNOWN * len(words) and not warned:
            print(
                f"from line {batch[0][0]} on: {len(unknown)} of {len(words)} words are none of the model's, such as "
                f"{unknown[0]!r}: it reads text split into subwords{translator.marks} as its training text was",
                file=sys.stderr,
            )
            warned = True
        found = translator.search([*sentences.values()], args.beam, args.lenpen, args.max_len) if sentences else []
        texts = {number: translator.text(each.tokens) for number, each in zip(sentences, found, strict=True)}
        for number, _ in batch:
            sys.stdout.buffer.write(texts.get(number, "").encode("utf-8") + b"\n")
        sys.stdout.buffer.flush()
    return int(failed)


if __name__ == "__main__":
    main()
