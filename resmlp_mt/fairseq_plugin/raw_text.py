"""Raw text, treated as the data was (``--tokenizer prepared --bpe prepared``), and the lines of fairseq-interactive."""

import argparse
import contextlib
import functools
import importlib.util
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from fairseq import utils
from fairseq.data.encoders import register_bpe, register_tokenizer
from fairseq.dataclass import FairseqDataclass
from omegaconf import DictConfig, OmegaConf, open_dict

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import binary_lines
from resmlp_mt.fairseq_plugin.encoder_decoder import check_length
from resmlp_mt.fairseq_plugin.uncaught import loaded

if TYPE_CHECKING:
    from resmlp_mt.data.raw_text import RawText

logger = logging.getLogger(__name__)

PREPARED = "prepared"
RECORD = "text.json"  # data.raw_text.NAME; that module is not imported here, as only raw text needs its libraries
OF_TARGET = "\0"  # begins a line in the target language, for the prepared tokenizer


@dataclass
class PreparedTextConfig(FairseqDataclass):
    """The data folder that records how text is treated, and the languages; by default those of the task."""

    data: Optional[str] = None  # noqa: UP045 (fairseq 0.12.2's omegaconf reads no other)
    source_lang: Optional[str] = None  # noqa: UP045
    target_lang: Optional[str] = None  # noqa: UP045

    def _get_all_attributes(self) -> list[str]:
        return []  # the command line has these options already, from the task


def is_recorded(data: str | None) -> bool:
    """Return whether ``data``, a folder or several separated by ``:``, records how its text was treated."""
    return bool(data) and os.path.lexists(os.path.join(utils.split_paths(data)[0], RECORD))


def record_of(data: str) -> "RawText":
    """Return the record of how the text of ``data`` was treated."""
    from resmlp_mt.data.raw_text import RawText

    return RawText.of(utils.split_paths(data)[0])


def _treatment(cfg: PreparedTextConfig) -> tuple["RawText", str, str]:
    if cfg.data is None:
        raise UserError("the data is not given, which tells how to treat text: give the folder that preparing made")
    text = record_of(cfg.data)
    return text, *text.check_languages(cfg.source_lang, cfg.target_lang)


@register_tokenizer(PREPARED, dataclass=PreparedTextConfig)
class PreparedTokenizer:
    """Turns a raw line into words, and words into running text."""

    def __init__(self, cfg: PreparedTextConfig):
        text, source, target = _treatment(cfg)
        of_source, of_target = text.tokenizer(source), text.tokenizer(target)
        self.encode = lambda line: of_target(line[1:]) if line.startswith(OF_TARGET) else of_source(line)
        self.decode = text.detokenizer(target)
        logger.info(
            f"raw text is treated as {text.folder / RECORD} says (--tokenizer prepared --bpe prepared); "
            "--tokenizer space takes the words as they are"
        )


@register_bpe(PREPARED, dataclass=PreparedTextConfig)
class PreparedSubwords:
    """Turns words into subwords, and back."""

    def __init__(self, cfg: PreparedTextConfig):
        text, _, _ = _treatment(cfg)
        self.encode = text.splitter()
        self.decode = text.join


def choose_prepared(cfg: DictConfig) -> None:
    """Choose prepared text for ``from_pretrained``, unless its checkpoint or its caller names a tokenizer or BPE."""
    names = (each.get("_name") if isinstance(each, DictConfig) else each for each in (cfg.tokenizer, cfg.bpe))
    if not any(names) and is_recorded(cfg.task.data):
        with open_dict(cfg):
            cfg.tokenizer = cfg.bpe = OmegaConf.structured(PreparedTextConfig(_name=PREPARED))


def choose_prepared_for_command(args: argparse.Namespace) -> None:
    """Choose prepared text for fairseq-interactive and -generate, if the data has a record and no option is given."""
    translates = "beam" in args and args.task == "translation"
    if translates and args.tokenizer is None and args.bpe is None and is_recorded(args.data):
        # fairseq-generate needs only the subwords: it also runs where these libraries are not installed
        has_libraries = all(map(importlib.util.find_spec, ("sacremoses", "sentencepiece", "subword_nmt")))
        is_joined = args.post_process is not None  # by --remove-bpe, in its own way
        if "buffer_size" in args or (has_libraries and not is_joined):
            args.tokenizer = args.bpe = PREPARED


_make_batches: Any = next((command.make_batches for command in loaded("fairseq_cli.interactive")), None)


class Lines:
    """The lines of one run of fairseq-interactive: read as data preparation reads them, and made into batches."""

    def __init__(self) -> None:
        self._first = 0  # number of the current list's first line, from 0 as fairseq numbers sentences
        self._refused = 0

    def read(self, input: str, buffer_size: int) -> Iterator[list[str]]:
        """Yield lists of ``buffer_size`` lines. Only LF ends a line; a line that is not UTF-8 becomes an empty one."""
        self._first = self._refused = 0
        if input == "-" and not sys.stdin:  # closed by the shell's <&-
            raise UserError("standard input is closed: give --input FILE")
        with contextlib.nullcontext(sys.stdin.buffer) if input == "-" else open(input, "rb") as file:
            read = binary_lines(file, "stdin" if input == "-" else input)
            while some := list(itertools.islice(read, buffer_size)):
                yield [self._decoded(number, line) for number, line in enumerate(some)]
                self._first += len(some)
        if self._refused:
            raise UserError(f"lines without a translation, as told above: {self._refused}")

    def _decoded(self, number: int, line: bytes) -> str:
        try:
            return line.decode().lstrip("\ufeff").strip()
        except UnicodeDecodeError as error:
            self._refuse(number, f"not UTF-8 ({error.reason}): convert it, for example with iconv")
            return ""

    def batches(
        self, lines: list[str], cfg: Any, task: Any, max_positions: tuple[int, int], encode_fn: Callable[[str], str]
    ) -> Iterator[Any]:
        """Yield batches of lines; a line that the model cannot take is reported and becomes an empty one."""
        encode = functools.cache(encode_fn)
        most = cfg.dataset.max_tokens
        for number, line in enumerate(lines if isinstance(max_positions, tuple) else ()):  # else: several languages
            # after tabs come words that the translation must contain
            parts = line.split("\t") if cfg.generation.constraints else [line]
            if getattr(cfg.tokenizer, "_name", cfg.tokenizer) == PREPARED:
                lines[number] = f"\t{OF_TARGET}".join(parts)
            try:
                sentence, *_ = [encode(part) for part in parts]
                length = task.source_dictionary.encode_line(sentence, add_if_not_exist=False).numel()
                check_length(length, max_positions[0], "source")
                if most and length > most:
                    raise UserError(f"{length} positions (subwords and </s>), more than --max-tokens {most}: raise it")
            except UserError as error:
                lines[number] = ""
                self._refuse(number, str(error), cfg.dataset.skip_invalid_size_inputs_valid_test)
        yield from _make_batches(lines, cfg, task, max_positions, encode)

    def _refuse(self, number: int, message: str, is_skipped: bool = False) -> None:
        sentence = self._first + number
        self._refused += not is_skipped
        skipped = "skipped: " if is_skipped else ""
        print(f"sentence {sentence} (line {sentence + 1}): {skipped}{message}", file=sys.stderr, flush=True)


lines = Lines()
