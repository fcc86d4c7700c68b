"""Text to text with a model's folder: ``Translator(folder).translate(texts)``, without fairseq."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike
from resmlp_mt.nn.encoder_decoder import fold_
from resmlp_mt.nn.token_mixing import TokenMixing
from resmlp_mt.text.subwords import joined
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.alignment import omission
from resmlp_mt.translate.compiled import compiled_model
from resmlp_mt.translate.constraints import Demand, Forms, Rules, rules_of
from resmlp_mt.translate.entities import masked, placed, restored, spaced
from resmlp_mt.translate.graphs import FOLDER, OnnxModel, reason
from resmlp_mt.translate.model_folder import SHORTLIST, find_folder, load
from resmlp_mt.translate.options import EngineOptions, Options
from resmlp_mt.translate.precision import keep_freed_memory, lower_precision_, pack_
from resmlp_mt.translate.search import BEAM, PENALTY, Hypothesis, search
from resmlp_mt.translate.shortlist import read_shortlist
from resmlp_mt.translate.words import links, word_alignment, word_numbers, word_scores

SENTENCE_ENDS = ".!?…;:"


@dataclass(frozen=True)
class Translation:
    """A translation of a text.

    Attributes:
        score: by which translations are ranked, in natural logarithms; 0 for a text without a word
        alignment: T x S+1, for each token the weights of the source's tokens and, last, of ``</s>``: the last layer's
            cross-attention, the mean of its heads; or what ``omission`` tells. None if it was not asked for, or the
            model has no attention
        token_scores: the log-probability of each token; what is missing to that of the whole is ``</s>``'s
        words: ``text.split()``, each with its log-probability, the sum of its tokens'
        word_links: of each word of the translation the one of ``source.split()`` to which it attends most, as
            ``(source, target)`` counted from 0; none that attends most to ``</s>``. None as ``alignment``
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
    """A text, its subwords, and the numbers of each part that is translated by itself, ``</s>`` last.

    ``forced``: of each part the constraints; of each constraint the forms of which one must come out, in token numbers
    without ``</s>``. Empty: none of any part. Those of the options' glossary come to them.
    ``masked``: the text that was made subwords of, with masks in the place of what is ``kept`` as it is.
    """

    text: str
    pieces: list[str]
    parts: list[list[int]]
    forced: Sequence[Sequence[Forms]] = ()
    masked: str = ""
    kept: Sequence[str] = ()


class Translator:
    """A trained model that translates text.

    Args:
        folder: made by ``resmlp-mt export``, or a name on Hugging Face's hub that is in the local cache
        options: ``threads``, ``device``, ``precision`` and ``engine``, fields of ``EngineOptions``
    """

    def __init__(self, folder: PathLike, **options: Any) -> None:
        how = EngineOptions(**options)
        place = find_folder(folder)
        model, self.tokenizer, self.generation = load(place)
        self.shortlist = None
        if not model.cfg.adaptive_cutoffs and how.engine != "onnx" and os.path.lexists(place / SHORTLIST):
            self.shortlist = read_shortlist(place / SHORTLIST, self.tokenizer.source, self.tokenizer.target)
        if how.threads is not None:
            torch.set_num_threads(how.threads)
        fold_(model)
        try:
            self.model = model.to(how.device)
            torch.ones((), device=how.device).item()  # "meta" computes nothing
        except (RuntimeError, AssertionError, ImportError) as error:  # PyTorch's, where a device is not there
            raise UserError(f"device {how.device}: {reason(error)}") from error
        self.device = next(model.parameters()).device
        leave = () if self.shortlist is None else ("output_projection",)  # whose rows are taken
        lower_precision_(self.model, how.precision, leave)
        if self.device.type == "cpu":
            keep_freed_memory()
        self._searched: Any = self.model
        if how.engine == "onnx":
            self._searched = OnnxModel(place / FOLDER, self.model, torch.get_num_threads())
        elif how.engine == "compiled":
            self._searched = compiled_model(self.model, how.precision, self.shortlist is not None)
        elif self.device.type == "cpu":
            pack_(self.model, leave)

    def translate(self, texts: Any, **options: Any) -> Any:
        """Translate one text or any number of them, each of a sentence or a few; ``options`` are fields of ``Options``.

        What comes out for a text does not depend on the others. One without a word has an empty translation. Addresses
        and placeholders such as ``{name}`` and ``%s`` come out as they are, and are no tokens.

        Returns the ``Translation`` of one text, or a list of them in the order of the texts; with ``n_best`` above 1,
        in the place of each a list of so many, best first.
        """
        if isinstance(texts, str):
            return self.translate([texts], **options)[0]
        if isinstance(texts, bytes) or not isinstance(texts, Iterable):
            raise UserError(f"texts: {type(texts).__name__}: give a str or a list of str")
        chosen = Options(**options)
        encoded = []
        for number, text in enumerate(texts):
            try:
                encoded.append(self.encode(text, chosen.too_long))
            except UserError as error:
                raise UserError(f"texts[{number}]: {error}") from error
        found = self.translate_encoded(encoded, chosen)
        return found if chosen.n_best > 1 else [best for (best,) in found]

    def encode(self, text: str, too_long: str = "error") -> Encoded:
        """Make a text ready for ``translate_encoded``; ``too_long`` is that of ``Options``."""
        if not isinstance(text, str):
            raise UserError(f"{type(text).__name__}: give a str")
        without, kept = masked(text)
        try:
            pieces = self.tokenizer.pieces(without)
        except ValueError as error:
            raise UserError(str(error)) from error
        most = self.model.encoder.limit - 1
        if len(pieces) > most and too_long == "error":
            told = "split the text, or choose too_long split or truncate"
            raise UserError(f"{len(pieces)} tokens, but the model takes {most}: {told}")
        if too_long == "truncate":
            pieces = pieces[:most]
        parts = split(pieces, most, self.tokenizer.settings.subwords) if pieces else ()
        return Encoded(text, pieces, [self.tokenizer.numbers(part) for part in parts], masked=without, kept=kept)

    def translate_encoded(self, texts: Sequence[Encoded], options: Options) -> list[list[Translation]]:
        """The ``n_best`` translations of each text."""
        beam = options.beam or max(self.generation.get("num_beams", BEAM), options.n_best)
        penalty = options.length_penalty
        penalty = self.generation.get("length_penalty", PENALTY) if penalty is None else penalty
        options = replace(options, beam=beam, length_penalty=penalty)
        parts = [part for text in texts for part in text.parts]
        has_kept = [bool(text.kept) for text in texts for _ in text.parts]
        found: list[list[Hypothesis]] = [[] for _ in parts]
        shortlist = self.shortlist if options.shortlist else None
        demands = self._demands(texts, options)
        for batch in batches(list(map(len, parts)), options.batch_tokens, demands):
            rows = [torch.tensor(parts[number]) for number in batch]
            source = pad_sequence(rows, batch_first=True, padding_value=self.model.cfg.pad).to(self.device)
            asked = [demand for number in batch if (demand := demands[number]) is not None]
            constraints = self._rules(options).constraints(asked, self.device) if asked else None
            more = [demand.tokens for demand in asked]
            candidates = None if shortlist is None else shortlist.candidates(source, more)
            aligned = options.alignment or any(has_kept[number] for number in batch)
            how = replace(options, alignment=aligned)
            searched = search(self._searched, source, END, how, candidates, constraints)
            for number, hypotheses in zip(batch, searched, strict=True):
                if len(hypotheses) < options.n_best:
                    told = f"a text has only {len(hypotheses)} translations of so few tokens"
                    raise UserError(f"n_best {options.n_best}: {told}: give a smaller n_best or a larger max_len_b")
                found[number] = hypotheses[: options.n_best]
        if options.alignment and options.alignment_by == "omission":
            found = [
                [
                    replace(each, attention=omission(self.model, numbers, each.tokens, options.batch_tokens))
                    for each in hypotheses
                ]
                for numbers, hypotheses in zip(parts, found, strict=True)
            ]
        left = iter(found)
        return [
            [self._joined(text, each, options) for each in zip(*(next(left) for _ in text.parts), strict=True)]
            if text.parts
            else options.n_best * [_nothing(text, options.alignment)]
            for text in texts
        ]

    def _rules(self, options: Options) -> Rules:
        return rules_of(self.tokenizer, options.prefix, options.glossary, options.avoid)

    def _demands(self, texts: Sequence[Encoded], options: Options) -> list[Demand | None]:
        """What the options and the texts themselves want of the translation of each part; None: nothing."""
        free = options.prefix is None and not options.glossary and not options.avoid
        if free and not any(text.forced for text in texts):
            return [None for text in texts for _ in text.parts]
        rules = self._rules(options)
        demands: list[Demand | None] = []
        for text in texts:
            start = 0
            for number, part in enumerate(text.parts):
                end = start + len(part) - 1
                words = joined(" ".join(text.pieces[start:end]), self.tokenizer.settings.subwords)
                demands.append(rules.demand(words, number == 0, text.forced[number] if text.forced else ()))
                start = end
        return demands

    def _joined(self, text: Encoded, parts: Sequence[Hypothesis], options: Options) -> Translation:
        """The translation of all parts: its score is that of all their tokens, as if they were of one sentence."""
        lengths, penalty = [len(part.tokens) + 1 for part in parts], options.length_penalty or 0.0
        total = sum(part.score * length**penalty for part, length in zip(parts, lengths, strict=True))
        tokens: list[int] = []
        scores: list[float] = []
        weights: list[list[float]] = []
        start = 0
        for numbers, part in zip(text.parts, parts, strict=True):
            tokens += part.tokens
            scores += part.token_scores[:-1]
            end = start + len(numbers) - 1
            if part.attention is not None:
                before, behind = [0.0] * start, [0.0] * (len(text.pieces) - end)
                for row in part.attention[:-1].tolist():
                    weights.append([*before, *row[:-1], *behind, row[-1]])
            start = end
        aligned = weights if parts[0].attention is not None else None
        pieces, subwords = [self.tokenizer.target[number] for number in tokens], self.tokenizer.settings.subwords
        running = self.tokenizer.decode(tokens)
        if text.kept:
            prefix = len(self._rules(options).prefix) if options.prefix else 0
            with_masks = placed(pieces, text.pieces, text.masked, aligned, subwords, prefix)
            running = spaced(self.tokenizer.running_text(with_masks), text.masked)
        target = word_numbers(pieces, running)
        links_of_words = None
        if options.alignment and aligned is not None:
            source = word_numbers(text.pieces, text.masked)
            words = text.masked.split(), running.split()
            links_of_words = links(word_alignment(aligned, source, target, words))
        final = restored(running, text.kept)
        return Translation(
            final,
            total / sum(lengths) ** penalty,
            pieces,
            text.pieces,
            aligned if options.alignment else None,
            scores,
            word_scores(final, target, scores),
            links_of_words,
        )

    def mixing_rows(self, positions: int) -> list[Tensor | None]:
        """Which earlier positions each of T positions of a translation reads, where a Transformer has self-attention.

        Returns of each layer of the decoder the matrices A (without a band's part), H x T x T, the same for every
        text: row t holds the weights of positions 0 to t, ``</s>`` first. None: a layer without such a matrix.
        """
        limit = self.model.decoder.limit
        if not 0 <= positions <= limit:
            raise UserError(f"positions {positions}: give a number from 0 to {limit}")
        rows: list[Tensor | None] = []
        for layer in self.model.decoder.layers:
            mixing = None if layer.mixing is None else layer.mixing.mixing
            matrix = mixing.rows(0, positions).detach() if isinstance(mixing, TokenMixing) else None
            rows.append(matrix.unsqueeze(0) if matrix is not None and matrix.dim() == 2 else matrix)
        return rows


def _nothing(text: Encoded, alignment: bool) -> Translation:
    """The translation of a text without a word but those that are kept."""
    words = text.text.split() if text.kept else []
    itself = [(number, number) for number in range(len(words))]
    scores = [(word, 0.0) for word in words]
    return Translation(
        " ".join(words), 0.0, [], [], [] if alignment else None, [], scores, itself if alignment else None
    )


def batches(lengths: Sequence[int], tokens: int, demands: Sequence[Demand | None] = ()) -> Iterator[list[int]]:
    """Which sentences are translated together: of like lengths, the longest first, with so many tokens at most.

    With demands, those of a batch have none, or all as many forced tokens, by which their search is wider.
    """
    missing = [-1 if demand is None else demand.missing for demand in demands] or [-1] * len(lengths)
    batch: list[int] = []
    longest = 0
    for number in sorted(range(len(lengths)), key=lambda number: (missing[number], -lengths[number])):
        full = longest * (len(batch) + 1) * (1 + max(0, missing[number])) > tokens
        if batch and (full or missing[number] != missing[batch[0]]):
            yield batch
            batch = []
        longest = longest if batch else lengths[number]
        batch.append(number)
    if batch:
        yield batch


def split(pieces: Sequence[str], most: int, subwords: str) -> Iterator[list[str]]:
    """Parts of a text, each as long as may be: up to the last end of a sentence within ``most`` pieces, of a word."""
    start = 0
    while len(pieces) - start > most:
        ends = [
            end
            for end in range(start + 1, start + most + 1)
            if (not pieces[end - 1].endswith("@@") if subwords == "bpe" else pieces[end].startswith("▁"))
        ]
        sentences = [end for end in ends if pieces[end - 1][-1] in SENTENCE_ENDS]
        end = max(sentences or ends or [start + most])
        yield list(pieces[start:end])
        start = end
    yield list(pieces[start:])
