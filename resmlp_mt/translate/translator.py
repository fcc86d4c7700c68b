"""Text to text with a model's folder: ``Translator(folder).translate(texts)``, without fairseq."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, checksum
from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.nn.encoder_decoder import fold_
from resmlp_mt.nn.token_mixing import TokenMixing
from resmlp_mt.text.subwords import WORD_START
from resmlp_mt.translate.alignment import omission
from resmlp_mt.translate.compiled import compiled_model
from resmlp_mt.translate.constraints import Constraints, Demand
from resmlp_mt.translate.entities import masked, placed, restored, spaced
from resmlp_mt.translate.graphs import FOLDER, OnnxModel, reason
from resmlp_mt.translate.model_folder import SHORTLIST, WEIGHTS, find_folder, load_model, load_settings
from resmlp_mt.translate.options import EngineOptions, Options
from resmlp_mt.translate.precision import keep_freed_memory, lower_precision_, pack_
from resmlp_mt.translate.rules import Rules, rules_of
from resmlp_mt.translate.search import BEAM, PENALTY, Hypothesis, search
from resmlp_mt.translate.shortlist import read_shortlist
from resmlp_mt.translate.words import links, piece_starts, word_alignment, word_numbers, word_scores

WIDE_ENDS = "。！？；"  # no space follows these
SPLIT_AFTER = ".!?…;:" + WIDE_ENDS
BATCH_TOKENS = {"pytorch": 2048, "compiled": 512, "onnx": 2048}


@dataclass(frozen=True)
class Translation:
    """A translation of a text.

    Attributes:
        score: translations are ranked by it; a natural logarithm, 0 for a text without a word
        alignment: T x S+1, for each token the weights of the source's tokens and, last, of ``</s>``: the last layer's
            cross-attention, the mean of its heads; or the result of ``omission``. None if it was not asked for, or if
            the model has no cross-attention
        token_scores: the log-probability of each token; that of the whole also includes ``</s>``
        words: ``text.split()``, each with its log-probability, the sum over its tokens
        word_links: for each word of the translation, the word of ``source.split()`` to which it attends most, as
            ``(source, target)`` counted from 0; left out if that is ``</s>``. None if ``alignment`` is
    """

    text: str
    score: float
    tokens: list[str]  # T subwords
    source_tokens: list[str]  # S subwords
    alignment: list[list[float]] | None = None
    token_scores: list[float] = field(default_factory=list)
    words: list[tuple[str, float]] = field(default_factory=list)
    word_links: list[tuple[int, int]] | None = None


@dataclass(frozen=True)
class Encoded:
    """A text, and the subwords of each part that is translated separately."""

    text: str
    place: str  # where the text comes from; error messages begin with it
    parts: list[list[str]]
    masked: str  # the text that the subwords come from, with a mask in place of each word that is ``kept`` unchanged
    kept: list[str]
    tagged: bool  # it needs an alignment by ``omission``, whatever the options are, so that tags are put back


class Part(NamedTuple):
    """A part of a text, which is translated separately."""

    text: Encoded
    numbers: list[int]  # of its tokens, ``</s>`` last
    demand: Demand | None  # what the translation must contain
    aligned_by: str = ""  # one of ``options.ALIGNMENTS``, if an alignment is needed

    @property
    def missing(self) -> int:
        """The number of forced tokens; -1 if there is no demand."""
        return -1 if self.demand is None else self.demand.missing


class Translator:
    """A trained model that translates text.

    ``folder``: made by ``resmlp-mt export``, or a name on Hugging Face's hub that is in the local cache;
    ``options``: ``threads``, ``device``, ``precision`` and ``engine``, fields of ``EngineOptions``.
    """

    def __init__(self, folder: PathLike, **options: Any) -> None:
        self._how = how = EngineOptions(**options)
        self._loading = threading.Lock()
        self._place = place = find_folder(folder)
        self.cfg, self.tokenizer, self.generation = load_settings(place)
        self.shortlist = None
        if not self.cfg.adaptive_cutoffs and how.engine != "onnx" and os.path.lexists(place / SHORTLIST):
            self.shortlist = read_shortlist(place / SHORTLIST, self.tokenizer)
        if how.threads is not None:
            torch.set_num_threads(how.threads)
        try:
            one = torch.ones((), device=how.device)
            one.item()  # an error for "meta", which computes nothing
        except (RuntimeError, AssertionError, ImportError) as error:  # PyTorch's, if there is no such device
            raise UserError(f"device {how.device}: {reason(error)}") from error
        self.device = one.device
        self._map: Callable[..., Iterable[Any]] = map
        if self.device.type == "cpu":
            keep_freed_memory()
        self._searched: Any
        if how.engine == "compiled":
            digest, shortlist = checksum(place / WEIGHTS), self.shortlist is not None
            threads = torch.get_num_threads()
            self._searched = compiled_model(self.cfg, digest, lambda: self.model, how.precision, shortlist, threads)
            if threads > 1:  # each of which translates batches of its own
                self._map = ThreadPoolExecutor(threads, "translate", torch.set_num_threads, (1,)).map
        elif how.engine == "onnx":
            self._searched = OnnxModel(place / FOLDER, self.model, torch.get_num_threads())
        else:
            self._searched = self.model

    @property
    def model(self) -> EncoderDecoder:
        """The model in PyTorch, folded and in the precision asked for. Compiled code has its own weights: with it, the
        model is loaded only for what is not compiled.
        """
        with self._loading:  # so that only one thread loads it
            return self._model

    @cached_property
    def _model(self) -> EncoderDecoder:
        model = load_model(self._place, self.cfg)
        fold_(model)
        model = model.to(self.device)
        leave = () if self.shortlist is None else ("output_projection",)  # a shortlist takes rows of its weights
        lower_precision_(model, self._how.precision, leave)
        if self._how.engine == "pytorch" and self.device.type == "cpu":
            pack_(model, leave)
        return model

    def translate(self, texts: Any, **options: Any) -> Any:
        """Translate one text or any number of them, each of a sentence or a few; ``options`` are fields of ``Options``.

        A text's translation does not depend on the other texts. A text without a word has an empty translation.
        Addresses and placeholders such as ``{name}`` and ``%s`` stay unchanged, and are not tokens.

        Returns the ``Translation`` of one text, or a list of them in the order of the texts; with ``n_best`` above 1,
        each is replaced by a list of ``n_best`` translations, best first.
        """
        if isinstance(texts, str):
            return self.translate([texts], **options)[0]
        if isinstance(texts, bytes) or not isinstance(texts, Iterable):
            raise UserError(f"texts: {type(texts).__name__}: give a str or a list of str")
        chosen = Options(**options)
        encoded = [self.encode(text, chosen.too_long, f"texts[{number}]: ") for number, text in enumerate(texts)]
        found = self.translate_encoded(encoded, chosen)
        return found if chosen.n_best > 1 else [best for (best,) in found]

    def encode(self, text: str, too_long: str = "error", place: str = "", tagged: bool = False) -> Encoded:
        """Prepare a text for ``translate_encoded``; ``place`` and ``tagged``: as in ``Encoded``."""
        if not isinstance(text, str):
            raise UserError(f"{place}{type(text).__name__}: give a str")
        try:
            without, kept = masked(text)
            pieces = self.tokenizer.pieces(without)
        except ValueError as error:
            raise UserError(f"{place}{error}") from error
        most = self.cfg.encoder.positions - 1
        if len(pieces) > most and too_long == "error":
            advice = "split the text, or choose split or truncate for too_long (--too-long)"
            raise UserError(f"{place}{len(pieces)} tokens, but the model takes {most}: {advice}")
        if too_long == "truncate" and len(pieces) > most:
            without = without[: piece_starts(pieces, without)[most]]  # entities after the cut go, too
            pieces = pieces[:most]
        parts = list(split(pieces, most, self.tokenizer.settings.subwords)) if pieces else []
        return Encoded(text, place, parts, without if parts else " ".join(without.split()), kept, tagged)

    def translate_encoded(self, texts: Sequence[Encoded], options: Options) -> list[list[Translation]]:
        """Return the ``n_best`` translations of each text."""
        beam = options.beam or max(self.generation.get("num_beams", BEAM), options.n_best)
        penalty = options.length_penalty
        penalty = self.generation.get("length_penalty", PENALTY) if penalty is None else penalty
        tokens = options.batch_tokens or BATCH_TOKENS[self._how.engine]
        options = replace(options, beam=beam, length_penalty=penalty, batch_tokens=tokens)
        rules = rules_of(self.tokenizer, options.prefix, options.glossary, options.avoid)
        asked = options.alignment_by if options.alignment else ""
        parts = [
            Part(
                text,
                self.tokenizer.numbers(pieces),
                rules.demand(pieces, number == 0),
                "omission" if text.tagged else asked or ("attention" if text.kept else ""),
            )
            for text in texts
            for number, pieces in enumerate(text.parts)
        ]
        left = iter(self._search(parts, rules, options))
        translations = []
        for text in texts:
            hypotheses = zip(*(next(left) for _ in text.parts), strict=True) if text.parts else [()] * options.n_best
            whole = [self._joined(text, each, options, rules) for each in hypotheses]
            translations.append(sorted(whole, key=lambda each: -each.score))  # several parts can change the order
        return translations

    def _search(self, parts: Sequence[Part], rules: Rules, options: Options) -> list[list[Hypothesis]]:
        """Return the ``n_best`` hypotheses of each part."""
        found: list[list[Hypothesis]] = [[] for _ in parts]
        shortlist = self.shortlist if options.shortlist else None
        limit = options.batch_tokens
        assert limit is not None  # set by translate_encoded

        def search_batch(batch: list[int]) -> list[list[Hypothesis]]:
            some = [parts[number] for number in batch]
            source = pad_sequence([torch.tensor(part.numbers) for part in some], True, self.cfg.pad).to(self.device)
            demands = [part.demand for part in some if part.demand is not None]
            constraints = Constraints(demands, rules.words) if demands else None
            candidates = None if shortlist is None else shortlist.candidates(source, [each.tokens for each in demands])
            how = replace(options, alignment=some[0].aligned_by == "attention")
            return search(self._searched, source, how, candidates, constraints)

        chosen = list(batches(parts, limit))
        for batch, hypotheses in zip(chosen, self._map(search_batch, chosen), strict=True):
            for number, found_here in zip(batch, hypotheses, strict=True):
                if len(found_here) < options.n_best:
                    few = f"n_best {options.n_best}: there are only {len(found_here)} translations"
                    problem = f"{few if found_here else 'there is no translation'} within the limit of tokens"
                    obeyed = "with all forced words and no avoided ones"
                    advice = "give a larger max_len_b (--max-len-b), or fewer forced or avoided words"
                    raise UserError(f"{parts[number].text.place}{problem}, {obeyed}: {advice}")
                found[number] = found_here[: options.n_best]

        def aligned(part: Part, best: list[Hypothesis]) -> list[Hypothesis]:
            if part.aligned_by != "omission":
                return best
            rows = [omission(self.model, part.numbers, each.tokens, limit) for each in best]
            return [replace(each, attention=row) for each, row in zip(best, rows, strict=True)]

        return list(self._map(aligned, parts, found))

    def _joined(self, text: Encoded, parts: Sequence[Hypothesis], options: Options, rules: Rules) -> Translation:
        """Return the translation made of all parts; its score is that of all their tokens, as if of one sentence."""
        lengths, penalty = [len(part.tokens) + 1 for part in parts], options.length_penalty or 0.0
        total = sum(part.score * length**penalty for part, length in zip(parts, lengths, strict=True))
        scores = [score for part in parts for score in part.token_scores[:-1]]
        alignment = joined_alignment(parts)
        subwords = self.tokenizer.settings.subwords
        source = [piece for part in text.parts for piece in part]
        target = [self.tokenizer.target[number] for part in parts for number in part.tokens]
        running = self.tokenizer.running_text(target)
        if text.kept:
            with_masks = placed(target, source, text.masked, alignment, subwords, len(rules.prefix))
            running = spaced(self.tokenizer.running_text(with_masks), text.masked)
        running = rules.respelled(running)
        final = restored(running, text.kept)
        words, rows, links_of_words = word_numbers(target, running), None, None
        if (options.alignment or text.tagged) and alignment is not None:
            rows = alignment.tolist()
            both = text.masked.split(), running.split()
            links_of_words = links(word_alignment(rows, word_numbers(source, text.masked), words, both))
        return Translation(
            final,
            total / max(1, sum(lengths)) ** penalty,
            target,
            source,
            rows,
            scores,
            word_scores(final, words, scores),
            links_of_words,
        )

    def mixing_rows(self, position: int) -> list[Tensor | None]:
        """Return the weights by which a position of a translation reads earlier ones, in place of self-attention.

        For each layer of the decoder these are rows of its matrices A (without a band's part), H x (position + 1), the
        same for every text; position 0 is ``</s>``. None: a layer without such a matrix.
        """
        last = self.cfg.decoder.positions - 1
        if not 0 <= position <= last:
            raise UserError(f"position {position}: give a number from 0 to {last}")
        rows: list[Tensor | None] = []
        for layer in self.model.decoder.layers:
            mixing = None if layer.mixing is None else layer.mixing.mixing
            row = mixing.rows(position, position + 1).detach() if isinstance(mixing, TokenMixing) else None
            rows.append(None if row is None else row.reshape(-1, position + 1))
        return rows


def joined_alignment(parts: Sequence[Hypothesis]) -> np.ndarray | None:
    """Return the alignment of a text, T x S+1, made of those of its parts; None if a part has none."""
    alignments = [each.attention[:-1].float().cpu() for each in parts if each.attention is not None]
    if len(alignments) < len(parts):
        return None
    own = torch.block_diag(torch.zeros(0, 0), *(each[:, :-1] for each in alignments))
    of_end = torch.cat([torch.zeros(0, 1), *(each[:, -1:] for each in alignments)])
    return torch.cat([own, of_end], 1).numpy()


def batches(parts: Sequence[Part], tokens: int) -> Iterator[list[int]]:
    """Yield the numbers of the parts of each batch: of similar lengths, the longest first, at most ``tokens`` tokens.

    The parts of a batch all have the same number of forced tokens, which widen their search, or all have no demand. All
    of them need the cross-attention or none does, because compiled code does not return it.
    """
    kinds = [(part.missing, part.aligned_by == "attention") for part in parts]
    batch: list[int] = []
    longest = 0
    for number in sorted(range(len(parts)), key=lambda number: (kinds[number], -len(parts[number].numbers))):
        full = longest * (len(batch) + 1) * (1 + max(0, parts[number].missing)) > tokens
        if batch and (full or kinds[number] != kinds[batch[0]]):
            yield batch
            batch = []
        longest = longest if batch else len(parts[number].numbers)
        batch.append(number)
    if batch:
        yield batch


def split(pieces: Sequence[str], most: int, subwords: str) -> Iterator[list[str]]:
    """Yield parts of a text, as long as possible: to the last end of a sentence, else of a word, in ``most`` pieces."""
    start = 0
    while len(pieces) - start > most:
        ends = [
            end
            for end in range(start + 1, start + most + 1)
            if pieces[end - 1][-1] in WIDE_ENDS
            or (not pieces[end - 1].endswith("@@") if subwords == "bpe" else pieces[end].startswith(WORD_START))
        ]
        sentences = [end for end in ends if pieces[end - 1][-1] in SPLIT_AFTER]
        end = max(sentences or ends or [start + most])
        yield list(pieces[start:end])
        start = end
    yield list(pieces[start:])
