"""Engines that need no fairseq: CTranslate2, and a model's folder. ``fairseq_engine`` has fairseq's own search.

An engine translates sentences, ``translate(sentences, length=None)``: all in one batch if it is told how many subwords
each translation has, ``</s>`` included, and otherwise in batches of 64. For fairseq and CTranslate2 a sentence is a
list of subwords; a model's folder translates text.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BATCH = 64
"""Sentences that are translated at a time."""


class CTranslate2Engine:
    """A converted Transformer in CTranslate2.

    Args:
        converted: the folder that CTranslate2's converter made
        options: of ``ctranslate2.Translator`` (``compute_type``; ``inter_threads``, workers with ``intra_threads``
            each, one with all threads unless given), and of its ``translate_batch``: ``max_batch_size``,
            ``batch_type``; ``vmap``: only words of that file, which the converter had, are a translation's
    """

    def __init__(self, converted: str, device: str, threads: int, beam: int, options: dict[str, Any]):
        ctranslate2 = importlib.import_module("ctranslate2")
        self._options = {"beam_size": beam, "use_vmap": "vmap" in options, "max_batch_size": BATCH}
        self._options |= {name: options[name] for name in ("max_batch_size", "batch_type") if name in options}
        own = {name: value for name, value in options.items() if name not in ("vmap", *self._options)}
        self._translator = ctranslate2.Translator(converted, device=device, **{"intra_threads": threads, **own})

    def translate(self, sentences: Sequence[list[str]], length: int | None = None) -> list[list[str]]:
        """The last subword of a translation whose length is given is a word, in the place of ``</s>``."""
        told = {}
        if length is not None:
            told = {"min_decoding_length": length, "max_decoding_length": length, "max_batch_size": 0}
        results = self._translator.translate_batch(sentences, **{**self._options, **told})
        return [result.hypotheses[0] for result in results]


class FolderEngine:
    """A folder of ``resmlp-mt export`` in ``Translator``, from text to text.

    Args:
        options: ``precision``, ``engine``, and fields of ``translate.options.Options`` such as ``batch_tokens``
    """

    def __init__(self, folder: str, threads: int, beam: int, options: dict[str, Any]):
        from resmlp_mt.translate.translator import Translator

        own = {name: options[name] for name in ("precision", "engine") if name in options}
        self._translator = Translator(folder, threads=threads, **own)
        self._options = {"beam": beam, **{name: value for name, value in options.items() if name not in own}}

    def translate(self, sentences: Sequence[str], length: int | None = None) -> list[str]:
        return [each.text for each in self._translator.translate(sentences, **self._options)]


def bytes_on_disk(path: str | Path) -> int:
    """Of a file, or of all files of a folder."""
    place = Path(path)
    return sum(file.stat().st_size for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file())
