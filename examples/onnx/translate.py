#!/usr/bin/env python3
"""Translate subword sentences with an exported model: beam search in NumPy and ONNX Runtime, no PyTorch, no fairseq.

Reads one sentence a line, writes one translation a line. FOLDER is what scripts/export_onnx.py made.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnxruntime

T = TypeVar("T")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]  # fairseq's, before the entries of dict.*.txt


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
        self.about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        self.source_symbols = read_dictionary(folder / self.about["source_dictionary"])
        self.target_symbols = read_dictionary(folder / self.about["target_dictionary"])
        self.source_index = {symbol: index for index, symbol in enumerate(self.source_symbols)}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.encoder, self.decoder_step = (
            onnxruntime.InferenceSession((folder / name).read_bytes(), options, providers=["CPUExecutionProvider"])
            for name in ("encoder.onnx", "decoder_step.onnx")
        )

    def tokens(self, sentence: str) -> list[int]:
        """The numbers of a sentence's subwords, and ``</s>``."""
        words = [self.source_index.get(word, self.about["unk"]) for word in sentence.split()]
        limit = self.about["max_source_positions"]
        if len(words) >= limit:
            raise ValueError(f"{len(words)} subwords and </s>, but the model has {limit} positions: split the sentence")
        return [*words, self.about["eos"]]

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
        keys, values, mask = self.encoder.run(None, {"source": source})

        going = np.arange(len(sentences))  # the sentences that are not finished, B
        finished: list[list[Hypothesis]] = [[] for _ in sentences]
        tokens = np.full((len(going), beam, 1), eos)  # what the beams have written, B x K x T
        scores = np.zeros((len(going), beam, 1), np.float32)
        past = np.zeros((sizes["L"], 0, len(going) * beam, sizes["C"]), np.float32)
        for length in range(1, longest + 2):
            step = {"previous": tokens[:, :, -1].ravel(), "past": past, "keys": keys, "values": values, "mask": mask}
            new, past = self.decoder_step.run(None, step)
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
        return [max(hypotheses, key=lambda each: each.score) for hypotheses in finished]


def best(totals: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ``count`` highest of each sentence's scores (B x K x V), highest first: they, their beams and their words."""
    flat = totals.reshape(len(totals), -1)
    count = min(count, flat.shape[1] - 1)
    index = np.argpartition(-flat, count, axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(flat, index, 1), axis=1, kind="stable")
    index = np.take_along_axis(index, order, 1)
    return np.take_along_axis(flat, index, 1), index // totals.shape[2], index % totals.shape[2]


def read_dictionary(path: Path) -> list[str]:
    """fairseq's dict.*.txt: a symbol and its count a line."""
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return SPECIAL + [line.removesuffix(" #fairseq:overwrite").rpartition(" ")[0] for line in lines]


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
    try:
        translator = Translator(args.folder, args.threads)
    except FileNotFoundError as error:
        sys.exit(f"{error.filename}: no such file: make the folder with scripts/export_onnx.py, with --data")

    for batch in batches(enumerate(sys.stdin.buffer, start=1), args.batch_size):
        sentences = []
        for number, line in batch:
            try:
                sentences.append(translator.tokens(line.decode("utf-8")))
            except ValueError as error:  # not UTF-8, too
                sys.exit(f"line {number}: {error}")
        for hypothesis in translator.search(sentences, args.beam, args.lenpen, args.max_len):
            sys.stdout.buffer.write(translator.text(hypothesis.tokens).encode("utf-8") + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
