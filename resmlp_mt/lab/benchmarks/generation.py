"""Generation: fairseq's own beam search, and CTranslate2's, with every output of a batch forced to one length."""

import importlib.util
import math
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import matmul
from resmlp_mt.data.dictionaries import made_up_dictionary
from resmlp_mt.lab.analysis.flops import TranslationModel
from resmlp_mt.lab.benchmarks import memory
from resmlp_mt.lab.benchmarks.batches import Shape, batch, random_sentences, spread_lengths
from resmlp_mt.lab.benchmarks.comparison import Comparison, Measurement, Workload, compare, counted
from resmlp_mt.lab.benchmarks.processes import fresh_processes
from resmlp_mt.lab.benchmarks.systems import TINY, System, load_model


@dataclass(frozen=True)
class Piece:
    """A batch of source sentences, and how many subwords each translation has, ``</s>`` included."""

    sources: list[Tensor]
    length: int

    @property
    def tokens(self) -> int:
        return self.length * len(self.sources)


class FairseqTranslator:
    """A model in fairseq's SequenceGenerator, prepared as fairseq-generate prepares it.

    Untrained models never end a sentence where a trained one would, so both are told when: not before the last
    position, and there at the latest.
    """

    def __init__(self, comparison: Comparison, system: System, task: TranslationTask):
        self.name, self.library = system.name, system.library
        self.dictionary, self.device = task.source_dictionary, comparison.conditions.device
        config, model = load_model(system, comparison.size, comparison.conditions, task)
        config.generation.beam = comparison.conditions.beam
        model.eval()
        if comparison.conditions.fp16:
            model.half()
        model.to(self.device)
        model.prepare_for_inference_(config)
        for module in model.modules():
            if hasattr(module, "can_use_fastpath"):  # fairseq 0.12.2 calls a fused layer as PyTorch 1 had it
                module.can_use_fastpath = False
        self.generator = SequenceGenerator([model], task.target_dictionary, comparison.conditions.beam, max_len_a=0)
        self.formula = counted(config, len(task.target_dictionary))

    def prepare(self, piece: Piece) -> Callable[[], list[int]]:
        """What translates a piece, ready on the device, and tells the length of each sentence's best translation.

        Raises:
            UserError: the model has fewer positions
        """
        if piece.length > self.generator.max_len:
            raise UserError(
                f"{self.name}: {piece.length} subwords, but the model has {self.generator.max_len} positions: give "
                f"shorter sentences, or an untrained model max_source_positions and max_target_positions"
            )
        sample = batch(piece.sources, piece.sources, self.dictionary)
        if self.device == "cuda":
            sample = utils.move_to_cuda(sample)

        def translate() -> list[int]:
            self.generator.min_len = self.generator.max_len_b = piece.length - 1
            with matmul(self.library):
                return [len(best["tokens"]) for best, *_ in self.generator.generate([], sample)]

        return translate


class CTranslate2Translator:
    """The baseline, a Transformer, converted for CTranslate2, in a process of its own.

    Its threads and PyTorch's are of two OpenMP libraries, and PyTorch's small operations take three times as long in a
    process that has both.

    Args:
        system: ``ctranslate2:compute_type=TYPE``, TYPE as CTranslate2 has them: float32, int8, ...
    """

    def __init__(self, comparison: Comparison, system: System, task: TranslationTask):
        if not importlib.util.find_spec("ctranslate2"):
            raise UserError(f"{system.name}: CTranslate2 is not installed: pip install ctranslate2")
        self.beam, self.dictionary = comparison.conditions.beam, task.source_dictionary
        config, model = load_model(System(comparison.baseline), comparison.size, comparison.conditions, task)
        self.formula = counted(config, len(task.target_dictionary))
        self.process = fresh_processes(1)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(folder) / "checkpoint.pt"
            torch.save({"args": config.model, "model": model.state_dict()}, checkpoint)
            task.source_dictionary.save(str(Path(folder) / "dict.source.txt"))
            task.target_dictionary.save(str(Path(folder) / "dict.target.txt"))
            options = {
                "device": comparison.conditions.device,
                "intra_threads": comparison.conditions.threads,
                **dict(option.split("=", 1) for option in system.options),
            }
            try:
                self.process.submit(_load_ctranslate2, checkpoint, options).result()
            except (TypeError, ValueError) as error:
                raise UserError(f"{system.name}, of {comparison.baseline}: {str(error).splitlines()[0]}") from error

    def prepare(self, piece: Piece) -> Callable[[], list[int]]:
        """As for fairseq's translator; the last step, its ``</s>``, gives a word here."""
        words = [[self.dictionary[index] for index in source[:-1]] for source in piece.sources]
        return lambda: [len(best) for best in self.translate(words, piece.length)]

    def translate(self, words: list[list[str]], length: int) -> list[list[str]]:
        """The best translation of each sentence, of that many words."""
        return self.process.submit(_translate_by_ctranslate2, words, self.beam, length).result()


_in_this_process: list[Any] = []
"""CTranslate2's translator, in the process that has it"""


def _load_ctranslate2(checkpoint: Path, options: Mapping[str, Any]) -> None:
    ctranslate2 = importlib.import_module("ctranslate2")
    converted = checkpoint.with_name("converted")
    converter = ctranslate2.converters.FairseqConverter(str(checkpoint), str(checkpoint.parent), "source", "target")
    with torch.serialization.safe_globals([Namespace]):  # of the file that this process's parent has just written
        converter.convert(str(converted))
    _in_this_process[:] = [ctranslate2.Translator(str(converted), **options)]


def _translate_by_ctranslate2(words: list[list[str]], beam: int, length: int) -> list[list[str]]:
    [translator] = _in_this_process
    results = translator.translate_batch(words, beam_size=beam, min_decoding_length=length, max_decoding_length=length)
    return [result.hypotheses[0] for result in results]


Translator = FairseqTranslator | CTranslate2Translator


def build(comparison: Comparison, system: System, task: TranslationTask) -> Translator:
    return (CTranslate2Translator if system.arch == "ctranslate2" else FairseqTranslator)(comparison, system, task)


def random_piece(shape: Shape, padding: float, dictionary: Any) -> Piece:
    """Random sentences of that shape, and translations as long as the longest."""
    return Piece(random_sentences(spread_lengths(shape, padding), dictionary, 1), shape.length)


@dataclass(frozen=True)
class RealText:
    """Sentences of a folder that fairseq-preprocess made.

    Args:
        data: the folder
        split: one of its splits, such as ``test``
    """

    data: str
    split: str = "test"

    def task(self, comparison: Comparison) -> TranslationTask:
        """fairseq's translation with the folder's dictionaries.

        Raises:
            UserError: it is no such folder
        """
        config = System("transformer").config(comparison.size, comparison.conditions).task
        config.data = self.data
        try:
            return TranslationTask.setup_task(config)
        except (UserError, OSError) as error:
            raise UserError(f"{self.data}: no folder of fairseq-preprocess with one language pair: {error}") from error

    def pieces(self, task: TranslationTask, count: int, batch_size: int) -> list[Piece]:
        """Sentences taken evenly from the split, in batches of similar length, shortest first.

        Every translation of a batch has the mean length of its references, or of its sources where there are none.

        Raises:
            UserError: there is no such split
        """
        task.load_dataset(self.split)
        dataset = task.dataset(self.split)
        chosen = torch.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().long().tolist()
        pairs = sorted((dataset[index] for index in chosen), key=lambda pair: len(pair["source"]))
        pieces = []
        for start in range(0, len(pairs), batch_size):
            part = pairs[start : start + batch_size]
            references = [pair["target"] if pair["target"] is not None else pair["source"] for pair in part]
            length = round(sum(map(len, references)) / len(references))
            pieces.append(Piece([pair["source"] for pair in part], max(2, length)))
        return pieces


def translate(comparison: Comparison, shapes: Sequence[Shape], text: RealText | None = None) -> Iterator[Measurement]:
    """Time the translating of every system on batches of these shapes.

    Args:
        text: sentences to take in the place of random ones; of the shapes the number of sentences counts alone
    """
    comparison.conditions.apply()
    task = make_task(comparison, text)
    translators = {system.name: build(comparison, system, task) for system in comparison.systems}
    for shape in shapes:
        if text is None:
            piece = random_piece(shape, comparison.padding, task.source_dictionary)
            pieces = [piece] * math.ceil(comparison.sentences / shape.sentences)
        else:
            pieces = text.pieces(task, max(comparison.sentences, shape.sentences), shape.sentences)
        tokens = sum(piece.tokens for piece in pieces)
        sentences = sum(len(piece.sources) for piece in pieces)
        yield from compare(
            comparison,
            Workload(
                str(shape) if text is None else f"{sentences} by {shape.sentences}",
                tokens / sentences if text else shape.length,
                shape.sentences,
                tokens,
                len(pieces),
                pieces[-1].tokens,
            ),
            {name: checked(name, list(map(each.prepare, pieces)), pieces) for name, each in translators.items()},
            {name: flops_per_token(comparison, translator.formula, pieces) for name, translator in translators.items()},
            peaks(comparison, text, pieces[-1]),
        )


def make_task(comparison: Comparison, text: RealText | None) -> TranslationTask:
    """fairseq's translation, with the text's dictionaries or made-up ones."""
    if text is not None:
        return text.task(comparison)
    dictionary = made_up_dictionary(comparison.size.vocabulary)
    return TranslationTask(TranslationConfig(), dictionary, dictionary)


def checked(name: str, prepared: Sequence[Callable[[], list[int]]], pieces: Sequence[Piece]) -> Callable[[int], None]:
    """A function that translates piece ``number`` and checks the lengths of its translations."""

    def translate(number: int) -> None:
        lengths, piece = prepared[number](), pieces[number]
        if lengths != [piece.length] * len(piece.sources):
            raise RuntimeError(f"{name}: translations of {lengths} subwords, not {piece.length}")

    return translate


def peaks(comparison: Comparison, text: RealText | None, piece: Piece) -> dict[str, int]:
    """By system, the peak memory of translating a piece; not of CTranslate2, which is in yet another process."""
    if not comparison.memory:
        return {}
    tiny = Piece([torch.tensor([made_up_dictionary(0).eos()])], 2)
    rehearsal = partial(translate_alone, replace(comparison, size=TINY), System("transformer"), None, tiny)
    return {
        system.name: memory.peak(
            partial(translate_alone, comparison, system, text, piece), rehearsal, comparison.conditions
        )
        for system in comparison.systems
        if system.arch != "ctranslate2"
    }


def translate_alone(comparison: Comparison, system: System, text: RealText | None, piece: Piece) -> None:
    build(comparison, system, make_task(comparison, text)).prepare(piece)()


def flops_per_token(comparison: Comparison, formula: TranslationModel | None, pieces: Sequence[Piece]) -> float | None:
    """FLOPs a target token; the encoder reads a sentence once, every beam decodes it step by step.

    Each beam has keys and values of its own, but on the CPU those of a ResMLP share them (``models.beams``).
    """
    if formula is None:
        return None
    total, beam = 0.0, comparison.conditions.beam
    shared = beam - 1 if formula.beams_share and comparison.conditions.device == "cpu" else 0
    for piece in pieces:
        source = max(map(len, piece.sources))
        decoding = beam * step_by_step(formula, source, piece.length) - shared * formula.kept(source)
        total += (formula.encoder(source) + decoding) * len(piece.sources)
    return total / sum(piece.tokens for piece in pieces)


def step_by_step(formula: TranslationModel, source: int, target: int) -> float:
    """FLOPs of the decoder, one position after the other.

    Position t costs what each of t positions costs at once: squares over positions, whole at once, are triangles here.
    Keys and values are there once, and what is beyond the last position (``ConvS2S``) is not there.
    """
    without = formula.decoder(source, 0)
    steps = ((formula.decoder(source, length) - without) / length for length in range(1, target + 1))
    return formula.kept(source) + sum(steps)
