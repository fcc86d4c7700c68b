"""What translates running text, the whole way from text to text: fairseq, CTranslate2, and a model's folder.

An engine is named by ``WHAT`` or ``WHAT:option=value,...``, where WHAT is a checkpoint (``model.pt``: fairseq's own
search), ``ctranslate2/model.pt`` (the same Transformer converted for CTranslate2) or a folder of ``resmlp-mt export``.
"""

import ast
import contextlib
import importlib
import os
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from resmlp_mt.common.errors import UserError

CTRANSLATE2 = "ctranslate2/"


@dataclass(frozen=True)
class Setting:
    """What all engines have in common.

    Attributes:
        data: the binarized data of the training, for engines that are no folder
        languages: of source and target
        threads: of each engine's process
        beam: width of the search
    """

    data: str
    languages: tuple[str, str]
    threads: int = 1
    beam: int = 4


class Engine(Protocol):
    """Translates running text."""

    def translate(self, lines: Sequence[str]) -> list[str]:
        """The best translation of each line, in order."""

    @property
    def size(self) -> int:
        """Bytes on disk of what it was loaded from."""


class FairseqEngine:
    """fairseq's search, as ``fairseq-generate`` and ``from_pretrained`` run it, on raw text.

    Args:
        options: of fairseq, in the place of the checkpoint's own; ``batch_size=64`` sentences unless given
    """

    def __init__(self, checkpoint: str, setting: Setting, options: dict[str, Any]):
        import torch
        from fairseq import hub_utils

        from resmlp_mt.fairseq_plugin.hub import with_prepared_text
        from resmlp_mt.lab.benchmarks.processes import quiet

        quiet()
        torch.set_num_threads(setting.threads)
        path = Path(checkpoint)
        options = {"batch_size": 64, "max_tokens": None, **options}
        loaded = hub_utils.from_pretrained(str(path.parent), path.name, setting.data, archive_map={}, **options)
        self._translator = with_prepared_text(loaded)
        self._beam, self.size = setting.beam, path.stat().st_size

    def translate(self, lines: Sequence[str]) -> list[str]:
        return self._translator.translate(list(lines), beam=self._beam)


class CTranslate2Engine:
    """A Transformer of fairseq's in CTranslate2, with the text's treatment that the exported folder has.

    Args:
        options: of ``ctranslate2.Translator`` (``compute_type``; ``inter_threads``, workers with ``intra_threads``
            each, one with all threads unless given), and of its ``translate_batch``: ``max_batch_size`` (64 sentences
            unless given); ``vmap``, a file of words that may be a translation's
    """

    def __init__(self, checkpoint: str, setting: Setting, options: dict[str, Any]):
        try:
            ctranslate2 = importlib.import_module("ctranslate2")
        except ImportError as error:
            raise UserError(
                f"{CTRANSLATE2}{checkpoint}: CTranslate2 is not installed: pip install ctranslate2"
            ) from error
        import torch

        from resmlp_mt.data.dictionaries import read_dictionary
        from resmlp_mt.data.raw_text import RawText
        from resmlp_mt.fairseq_plugin.checkpoints.loading import load_checkpoint, options_of
        from resmlp_mt.text.tokenizer import Tokenizer

        vmap = options.pop("vmap", None)
        self._options = {"max_batch_size": 64, "beam_size": setting.beam, "use_vmap": vmap is not None}
        for name in "max_batch_size", "batch_type":
            if name in options:
                self._options[name] = options.pop(name)
        dictionaries = [Path(setting.data, f"dict.{language}.txt") for language in setting.languages]
        state = load_checkpoint(checkpoint)
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) / "model.pt"
            torch.save({"args": Namespace(**options_of(state, "model")), "model": state["model"]}, kept)
            converter = ctranslate2.converters.FairseqConverter(str(kept), setting.data, *setting.languages)
            with torch.serialization.safe_globals([Namespace]):  # of the file that was just written
                converter.convert(f"{folder}/converted", vmap=vmap)
            self.size = sum(path.stat().st_size for path in Path(folder, "converted").iterdir())
            options = {"intra_threads": setting.threads, **options}
            self._translator = ctranslate2.Translator(f"{folder}/converted", **options)
        raw = RawText.of(setting.data)
        symbols = [read_dictionary(path).symbols for path in dictionaries]
        self._text = Tokenizer(raw.settings(*setting.languages), raw.folder / raw.learned, *symbols)
        self._numbers = {symbol: number for number, symbol in enumerate(symbols[1])}

    def translate(self, lines: Sequence[str]) -> list[str]:
        results = self._translator.translate_batch([self._text.pieces(line) for line in lines], **self._options)
        return [
            self._text.decode(self._numbers[piece] for piece in result.hypotheses[0] if piece in self._numbers)
            for result in results
        ]


class FolderEngine:
    """A folder of ``resmlp-mt export`` in ``Translator``.

    Args:
        options: ``precision``, ``engine``, and fields of ``translation.options.Options`` such as ``batch_tokens``
    """

    def __init__(self, folder: str, setting: Setting, options: dict[str, Any]):
        from resmlp_mt.translate.translator import Translator

        own = {name: options.pop(name) for name in ("precision", "engine") if name in options}
        self._translator = Translator(folder, threads=setting.threads, **own)
        self._options = {"beam": setting.beam, **options}
        self.size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())

    def translate(self, lines: Sequence[str]) -> list[str]:
        return [each.text for each in self._translator.translate(lines, **self._options)]


def build(name: str, setting: Setting) -> Engine:
    """The engine of a name.

    Raises:
        UserError: there is no such checkpoint or folder, or an option is not the engine's
    """
    what, options = parse(name)
    kind: Any = FairseqEngine
    if what.startswith(CTRANSLATE2):
        kind, what = CTranslate2Engine, what.removeprefix(CTRANSLATE2)
    elif os.path.isdir(what):
        kind = FolderEngine
    if not os.path.exists(what):
        raise UserError(f"{name}: no such checkpoint or folder")
    try:
        return kind(what, setting, options)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name}: {str(error).splitlines()[0]}") from error


def parse(name: str) -> tuple[str, dict[str, Any]]:
    """``"model.pt:a=1,b=x,c=False"`` is ``("model.pt", {"a": 1, "b": "x", "c": False})``.

    Raises:
        UserError: something behind the colon is no ``option=value``
    """
    what, _, text = name.partition(":")
    options: dict[str, Any] = {}
    for option in filter(None, text.split(",")):
        key, equals, value = option.partition("=")
        if not equals:
            raise UserError(f"{name}: {option!r} is no option=value")
        options[key] = value
        with contextlib.suppress(ValueError, SyntaxError):  # of what is no number, True or False
            options[key] = ast.literal_eval(value)
    return what, options
