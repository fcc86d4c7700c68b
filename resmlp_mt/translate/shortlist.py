"""Shortlists: a translation is searched only among the target tokens that go with the sentence's own source tokens.

The file is CTranslate2's ``vmap``: each line has a source token, a tab, and the target tokens that it goes with; the
line of the empty source token has those that every sentence may have.
"""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, atomic_write, check_outputs, read_lines, read_parallel, remove_unfinished
from resmlp_mt.text.tokenizer import END, PAD, UNKNOWN, Tokenizer
from resmlp_mt.translate.model_folder import SHORTLIST, load_settings

ALWAYS = ""  # the source token of the target tokens that every sentence may have


class Shortlist:
    """The target tokens of each sentence, chosen for it alone, so that the batch never changes a sentence's scores.

    Args:
        always: numbers of the target tokens that every sentence may have; ``</s>`` and ``<unk>`` are added
        of_source: by the number of a source token, more target tokens, which a sentence with it may have
    """

    def __init__(
        self, always: Sequence[int], of_source: Mapping[int, Sequence[int]], source_symbols: int, target_symbols: int
    ):
        lists = [torch.tensor(of_source.get(number, ()), dtype=torch.long) for number in range(source_symbols)]
        self._of_source = pad_sequence(lists, True, END)  # every sentence may have </s>
        self._always = torch.zeros(target_symbols, dtype=torch.bool)
        self._always[[END, UNKNOWN, *always]] = True

    def candidates(self, source: Tensor, more: Sequence[Collection[int]] = ()) -> Tensor:
        """Return the target tokens that each sentence may have, ``B x S -> B x L``: ascending numbers, then padding.

        ``more``: further tokens that each sentence may have.
        """
        chosen = self._always.repeat(len(source), 1)
        chosen.scatter_(1, self._of_source[source.cpu()].flatten(1), True)
        for row, tokens in enumerate(more):
            chosen[row, list(tokens)] = True
        chosen[:, :END] = False  # no translation has <s> or padding
        return pad_sequence([row.nonzero().flatten() for row in chosen], True, PAD).to(source.device)


def read_shortlist(path: PathLike, tokenizer: Tokenizer) -> Shortlist:
    """Read a file of CTranslate2's format; tokens that the model's dictionaries lack are left out."""
    numbers, targets = tokenizer.vocabularies
    lists: dict[str, list[int]] = {}
    for place, line in enumerate(read_lines(path), 1):
        symbol, tab, words = line.partition("\t")
        if not tab or " " in symbol:
            raise UserError(f"{path}: line {place}: is not a source token, a tab and target tokens: make it again")
        lists[symbol] = [targets[word] for word in words.split(" ") if word in targets]
    always = lists.pop(ALWAYS, [])
    of_source = {numbers[symbol]: found for symbol, found in lists.items() if symbol in numbers}
    if not always or 2 * len(of_source) < len(lists):
        raise UserError(f"{path}: most of its tokens are not the model's: make it again, with this model")
    return Shortlist(always, of_source, len(tokenizer.source), len(tokenizer.target))


def shortlist_lines(
    tokenizer: Tokenizer, always: Sequence[int], of_source: Mapping[int, Sequence[int]]
) -> Iterator[str]:
    """Yield the lines of the file. A source token (a name, a number) also goes with the same target token, if any."""
    target = tokenizer.target
    known, has = {target[number] for number in always}, set(target)
    yield f"{ALWAYS}\t{' '.join(target[number] for number in always)}"
    for number, symbol in enumerate(tokenizer.source):
        found = [target[each] for each in of_source.get(number, ())]
        found = [each for each in dict.fromkeys([*found, symbol]) if each in has and each not in known]
        if found:
            yield f"{symbol}\t{' '.join(found)}"


def encoded(
    tokenizer: Tokenizer, pairs: Iterable[tuple[str, ...]], limits: tuple[int, int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield pairs of running text as numbers, ``</s>`` last; skip pairs with a side that is empty or over its limit."""
    for source, target in pairs:
        with contextlib.suppress(ValueError):
            numbers = tokenizer.encode(source), tokenizer.encode(target, target=True)
            if all(1 < len(side) <= limit for side, limit in zip(numbers, limits, strict=True)):
                yield numbers


def covered(shortlist: Shortlist, pairs: Sequence[tuple[list[int], list[int]]]) -> tuple[int, int, float]:
    """Return how many target tokens are in their sentence's shortlist, their total, and a shortlist's mean size."""
    found, size = 0, 0
    for source, target in pairs:
        candidates = set(shortlist.candidates(torch.tensor([source]))[0].tolist())
        found += sum(token in candidates for token in target)
        size += len(candidates)
    return found, sum(len(target) for _, target in pairs), size / len(pairs)


def make_shortlist(
    folder: Path,
    train: Sequence[PathLike],
    valid: Sequence[PathLike] | None,
    lines: int,
    per_token: int,
    always: int,
    overwrite: bool,
) -> None:
    """Write a folder's shortlist, made of the first ``lines`` lines of ``train``, and print what it has.

    It has ``per_token`` target tokens for each source token, and the ``always`` most frequent ones for every sentence.
    """
    path = folder / SHORTLIST
    cfg, tokenizer, _ = load_settings(folder)
    if path.exists() and not overwrite:
        raise UserError(f"{path}: exists: give --overwrite to replace it")
    check_outputs([path], [*train, *(valid or [])])
    if cfg.adaptive_cutoffs:
        raise UserError(f"{folder}: its model has an adaptive softmax: no shortlist would make it faster")
    limits = cfg.encoder.positions, cfg.decoder.positions
    known = list(encoded(tokenizer, read_parallel(valid), limits)) if valid else []
    pairs = list(encoded(tokenizer, islice(read_parallel(train), lines), limits))
    if not pairs:
        raise UserError(f"{train[0]}, {train[1]}: no line has words on both sides, and no more than the model takes")
    of_source = lexicon(pairs, per_token)
    remove_unfinished(path)
    frequent = Counter(number for _, target in pairs for number in target).most_common(always)
    with atomic_write(path) as file:
        for line in shortlist_lines(tokenizer, [number for number, _ in frequent], of_source):
            file.write(f"{line}\n")
    print(f"wrote {path}: {len(of_source):,} source tokens, from {len(pairs):,} pairs of sentences")
    if known:
        shortlist = read_shortlist(path, tokenizer)
        found, tokens, size = covered(shortlist, known)
        print(f"{found / tokens:.2%} of the {tokens:,} target tokens of --valid are in their sentence's list")
        print(f"a sentence has {size:.0f} target tokens of {len(tokenizer.target):,} on average")


def lexicon(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]], most: int, iterations: int = 6
) -> dict[int, list[int]]:
    """Return, for each source token, the ``most`` target tokens with the largest t(target | source), best first.

    This is IBM Model 1 (Brown et al. 1993, section 4.1), fitted by EM: a target token comes from each source token of
    its sentence with equal probability, also from ``</s>``, which represents the empty word; order plays no part.
    It takes about 30 bytes of memory for each source token times target token of a pair.
    """
    blocks: list[NDArray[np.int64]] = []
    widths: list[NDArray[np.int64]] = []
    for source, target in pairs:
        blocks.append((np.array(target)[:, None] + (np.array(source) << 32)).ravel())  # a number for each token pair
        widths.append(np.full(len(target), len(source)))
    codes, entry = np.unique(np.concatenate(blocks), return_inverse=True)
    width = np.concatenate(widths)
    reader = np.repeat(np.arange(len(width)), width)  # the target position of each pair of tokens
    sources, source = np.unique(codes >> 32, return_inverse=True)
    table = np.ones(len(codes))
    for _ in range(iterations):
        chance = table[entry]
        counts = np.bincount(entry, chance / np.bincount(reader, chance)[reader])
        table = counts / np.bincount(source, counts)[source]
    order = np.lexsort((-table, source))
    targets = (codes & 0xFFFFFFFF)[order]
    ends = np.cumsum(np.bincount(source))
    return {
        int(number): targets[start : min(end, start + most)].tolist()
        for number, start, end in zip(sources, [0, *ends[:-1]], ends, strict=True)
    }
