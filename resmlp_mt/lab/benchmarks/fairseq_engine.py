"""fairseq's own search as an engine, and what makes the engine of any system."""

import importlib.util
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq import utils

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import matmul
from resmlp_mt.lab.benchmarks.batches import batch
from resmlp_mt.lab.benchmarks.comparison import counted
from resmlp_mt.lab.benchmarks.engines import BATCH, CTranslate2Engine
from resmlp_mt.lab.benchmarks.processes import new_processes
from resmlp_mt.lab.benchmarks.systems import Source, System


class FairseqEngine:
    """A model in fairseq's search, prepared as fairseq-generate prepares it.

    A checkpoint's options are the system's in the place of its own; ``batch_size=64`` sentences unless given.
    """

    def __init__(self, source: Source):
        source.conditions.apply()
        self._name, self._library, self._device = source.system.name, source.system.library, source.conditions.device
        overrides = source.system.overrides
        self._batch_size = overrides.pop("batch_size", BATCH)
        config, model, self.task = source.load(**overrides)
        config.generation.beam = source.conditions.beam
        model.eval()
        if source.conditions.fp16:
            model.half()
        model.to(self._device)
        model.prepare_for_inference_(config)
        for module in model.modules():
            if hasattr(module, "can_use_fastpath"):  # fairseq 0.12.2 calls a fused layer as PyTorch 1 had it
                module.can_use_fastpath = False
        self.generator = self.task.build_generator([model], config.generation)
        self.formula = counted(config, len(self.task.target_dictionary))

    def translate(self, sentences: Sequence[list[str]], length: int | None = None) -> list[list[str]]:
        """Untrained models never end a sentence where a trained one would, so they are told the length."""
        if length is None:
            order = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))
            batches = [order[start : start + self._batch_size] for start in range(0, len(order), self._batch_size)]
        else:
            self._force(length)
            batches = [list(range(len(sentences)))]
        found: dict[int, list[str]] = {}
        for numbers in batches:
            best = self._search([sentences[number] for number in numbers])
            found |= dict(zip(numbers, best, strict=True))
        return [found[number] for number in range(len(sentences))]

    def _force(self, length: int) -> None:
        """Let every translation have this many subwords: not fewer, and not more."""
        if length > self.generator.max_len:
            raise UserError(
                f"{self._name}: {length} subwords, but the model has {self.generator.max_len} positions: give "
                f"shorter sentences, or an untrained model max_source_positions and max_target_positions"
            )
        self.generator.max_len_a, self.generator.min_len, self.generator.max_len_b = 0, length - 1, length - 1

    def _search(self, sentences: Sequence[list[str]]) -> list[list[str]]:
        dictionary = self.task.source_dictionary
        sources = [torch.tensor([*map(dictionary.index, words), dictionary.eos()]) for words in sentences]
        sample = batch(sources, sources, dictionary)
        if self._device == "cuda":
            sample = utils.move_to_cuda(sample)
        with matmul(self._library):
            found = self.generator.generate([], sample)
        best = {
            number: [self.task.target_dictionary[index] for index in beams[0]["tokens"].tolist()]
            for number, beams in zip(sample["id"].tolist(), found, strict=True)
        }
        return [best[number] for number in range(len(sentences))]


def convert(source: Source, folder: str, vmap: str | None = None) -> None:
    """Write a Transformer for CTranslate2 to ``folder/converted``."""
    ctranslate2 = importlib.import_module("ctranslate2")
    config, model, task = source.load()
    checkpoint = Path(folder) / "checkpoint.pt"
    options = vars(config.model) if isinstance(config.model, Namespace) else dict(config.model)
    torch.save({"args": Namespace(**options), "model": model.state_dict()}, checkpoint)
    task.source_dictionary.save(f"{folder}/dict.source.txt")
    task.target_dictionary.save(f"{folder}/dict.target.txt")
    converter = ctranslate2.converters.FairseqConverter(str(checkpoint), folder, "source", "target")
    with torch.serialization.safe_globals([Namespace]):  # of the file that was just written
        converter.convert(f"{folder}/converted", vmap=vmap)


def builder(source: Source, folder: str, baseline: str = "") -> Callable[[], Any]:
    """What builds fairseq's or CTranslate2's engine of a system in a process of its own.

    Args:
        folder: an empty one, for what CTranslate2 reads, while there may be processes to start
        baseline: what CTranslate2 has, where its name does not say
    """
    system, conditions = source.system, source.conditions
    if not system.is_ctranslate2:
        return partial(FairseqEngine, source)
    if not importlib.util.find_spec("ctranslate2"):
        raise UserError(f"{system.name}: CTranslate2 is not installed: pip install ctranslate2")
    original = replace(source, system=System(system.arch.partition("/")[2] or baseline))
    with new_processes(1) as process:  # CTranslate2 beside PyTorch makes both slow
        try:
            process.submit(convert, original, folder, system.overrides.get("vmap")).result()
        except (TypeError, ValueError) as error:
            raise UserError(f"{system.name}, of {original.system.name}: {str(error).splitlines()[0]}") from error
    converted = f"{folder}/converted"
    return partial(
        CTranslate2Engine, converted, conditions.device, conditions.threads, conditions.beam, system.overrides
    )
