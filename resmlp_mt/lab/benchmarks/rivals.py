"""Engines that a user might choose instead, for Transformers: CTranslate2 and Marian, each with its fastest settings.

Each class has ``settings(threads)``, the possible values of the options that decide its speed.
"""

import importlib
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.workers import cpuinfo
from resmlp_mt.lab.benchmarks.engines import new_process

if TYPE_CHECKING:
    from resmlp_mt.lab.benchmarks.systems import Source

BATCH = 64  # sentences that are translated at a time, unless an option says otherwise
BATCHES = 4, 8, 16, 32, 64, 128  # sentences of a batch: each number is tried
BATCH_TOKENS = 128, 256, 512, 1024
BY_SETTINGS = "max_batch_size", "batch_type", "beam_size", "min_decoding_length", "max_decoding_length"
"""Arguments of CTranslate2's ``translate_batch``."""


class CTranslate2Engine:
    """A converted Transformer in CTranslate2.

    ``options`` are those of ``ctranslate2.Translator`` (``inter_threads`` are workers with ``intra_threads`` each) and
    BY_SETTINGS of its ``translate_batch``. With ``vmap``, a file that the converter had, translations have only words
    of that file. ``isa`` is the instruction set, such as AVX2; its process must not have imported CTranslate2.
    """

    def __init__(self, converted: str, device: str, threads: int, beam: int, options: dict[str, Any]):
        options = dict(options)
        if "isa" in options:
            os.environ["CT2_FORCE_CPU_ISA"] = options.pop("isa")
        ctranslate2 = importlib.import_module("ctranslate2")
        self._options = {"beam_size": beam, "use_vmap": "vmap" in options, "max_batch_size": BATCH}
        self._options |= {name: options[name] for name in BY_SETTINGS if name in options}
        own = {name: value for name, value in options.items() if name not in ("vmap", *BY_SETTINGS)}
        self._translator = ctranslate2.Translator(converted, device=device, **{"intra_threads": threads, **own})

    @staticmethod
    def settings(threads: int) -> list[dict[str, Any]]:
        """Return the settings to try: instruction sets of this processor, batches, workers."""
        flags = {"avx2": "AVX2", "avx512f": "AVX512"}
        sets = [{"isa": name} for flag, name in flags.items() if flag in cpuinfo("flags").split()] or [{}]
        batches = [(size, "examples") for size in BATCHES] + [(size, "tokens") for size in BATCH_TOKENS]
        workers = [{"inter_threads": number, "intra_threads": threads // number} for number in {1, threads}]
        return [
            {**isa, "max_batch_size": size, "batch_type": kind, **how}
            for isa in sets
            for size, kind in batches
            for how in workers
        ]

    def translate(self, sentences: Sequence[list[str]]) -> list[list[str]]:
        results = self._translator.translate_batch(sentences, **self._options)
        return [result.hypotheses[0] for result in results]


class MarianEngine:
    """A converted Marian model in pymarian. ``options`` are those of ``marian-decoder``, with ``_`` for ``-``.

    ``original`` is the model as it was trained; the file ``original.decoder.yml`` next to it names the vocabularies.
    """

    def __init__(self, converted: str, original: str, threads: int, beam: int, options: dict[str, Any]):
        usual = {"beam_size": beam, "normalize": 1, "mini_batch": BATCH, "maxi_batch": 100, "maxi_batch_sort": "src"}
        given = {"config": f"{original}.decoder.yml", "models": f"{converted}/model.bin", "cpu_threads": threads}
        words = [f"--{name.replace('_', '-')} {value}" for name, value in {**given, **usual, **options}.items()]
        pymarian = importlib.import_module("_pymarian")  # without pymarian, which imports what its commands need
        self._translator = pymarian.Translator(" ".join([*words, "--quiet", "--quiet-translation"]))

    @staticmethod
    def settings(threads: int) -> list[dict[str, Any]]:
        """Return the settings to try: batches by sentences and by tokens."""
        by_tokens = [{"mini_batch_words": size, "mini_batch": 1000} for size in BATCH_TOKENS]
        return [{"mini_batch": size} for size in BATCHES] + by_tokens

    def translate(self, sentences: Sequence[list[str]]) -> list[list[str]]:
        return [line.split(" ") for line in self._translator.translate([*map(" ".join, sentences)])]


PACKAGES = {"ctranslate2": "ctranslate2", "marian": "_pymarian"}  # modules, by the start of "marian/MODEL"


def builder(source: "Source", folder: str) -> Callable[[], Any]:
    """Convert a model to ``folder/converted``; return what builds its engine in another process."""
    system, here = source.system, source.conditions
    if not find_spec(PACKAGES[system.rival]):
        raise UserError(f"{system.name}: not installed: pip install {PACKAGES[system.rival].lstrip('_')}")
    converted, vmap = f"{folder}/converted", system.overrides.get("vmap")
    try:
        if system.rival == "marian":
            _convert_for_marian(system.path, converted)
            return partial(MarianEngine, converted, system.path, here.threads, here.beam, system.overrides)
        if system.path.endswith(".npz"):
            convert: Callable[..., None] = partial(_from_marian_to_ctranslate2, system.path)
        else:
            convert = partial(_from_fairseq_to_ctranslate2, replace(source, system=replace(system, name=system.path)))
        with new_process() as process:  # CTranslate2 and PyTorch in one process are both slow
            process.submit(convert, folder, vmap).result()
    except (TypeError, ValueError, KeyError, RuntimeError, OSError) as error:
        raise UserError(f"{system.name}: cannot be converted: {str(error).splitlines()[0]}") from error
    return partial(CTranslate2Engine, converted, here.device, here.threads, here.beam, system.overrides)


def _convert_for_marian(model: str, converted: str) -> None:
    """Write ``converted/model.bin``, whose matrices have 8 bits."""
    Path(converted).mkdir()
    options = ["--from", model, "--to", f"{converted}/model.bin", "--gemm-type", "intgemm8"]
    code = "import sys, _pymarian; sys.exit(_pymarian.main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, "convert", *options], capture_output=True, text=True)
    if done.returncode:
        raise ValueError(next((line for line in done.stderr.splitlines() if "Error" in line), "pymarian failed"))


def _from_marian_to_ctranslate2(model: str, folder: str, vmap: str | None) -> None:
    """Convert a Transformer that Marian trained to ``folder/converted``."""
    arrays, name = dict(np.load(model)), "special:model.yml"
    # newer Marian pads this text with zeros; the converter expects one
    arrays[name] = np.frombuffer(arrays[name].tobytes().rstrip(b"\0") + b"\0", np.int8)
    np.savez(f"{folder}/model.npz", **arrays)
    vocabularies = importlib.import_module("yaml").safe_load(Path(f"{model}.decoder.yml").read_text())["vocabs"]
    converters = importlib.import_module("ctranslate2").converters
    converters.MarianConverter(f"{folder}/model.npz", vocabularies).convert(f"{folder}/converted", vmap=vmap)


def _from_fairseq_to_ctranslate2(source: "Source", folder: str, vmap: str | None) -> None:
    """Convert a Transformer of fairseq to ``folder/converted``."""
    torch = importlib.import_module("torch")
    config, model, task = source.load()
    checkpoint = Path(folder) / "checkpoint.pt"
    options = vars(config.model) if isinstance(config.model, Namespace) else dict(config.model)
    torch.save({"args": Namespace(**options), "model": model.state_dict()}, checkpoint)
    task.source_dictionary.save(f"{folder}/dict.source.txt")
    task.target_dictionary.save(f"{folder}/dict.target.txt")
    converters = importlib.import_module("ctranslate2").converters
    converter = converters.FairseqConverter(str(checkpoint), folder, "source", "target")
    with torch.serialization.safe_globals([Namespace]):  # of the file that was just written
        converter.convert(f"{folder}/converted", vmap=vmap)
