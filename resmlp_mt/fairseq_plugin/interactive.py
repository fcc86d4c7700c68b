"""fairseq-interactive: every line that is put in has its number, and a bad one harms no other."""

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import binary_lines
from resmlp_mt.fairseq_plugin.encoder import check_length
from resmlp_mt.fairseq_plugin.uncaught import loaded

_make_batches: Any = next((command.make_batches for command in loaded("fairseq_cli.interactive")), None)


class Lines:
    """The lines of one run: read as preparing reads them, and made into batches."""

    def __init__(self) -> None:
        self._first = 0  # number of the first line at hand, from 0 as fairseq numbers sentences
        self._refused = 0

    def read(self, input: str, buffer_size: int) -> Iterator[list[str]]:
        """Yield as many lines at once. They end at LF alone; one that is not UTF-8 becomes one without a word."""
        self._first = self._refused = 0
        with contextlib.nullcontext(sys.stdin.buffer) if input == "-" else open(input, "rb") as file:
            read = binary_lines(file, "stdin" if input == "-" else input)
            while some := list(itertools.islice(read, buffer_size)):
                yield [self._decoded(number, line) for number, line in enumerate(some)]
                self._first += len(some)
        if self._refused:
            raise UserError(f"lines without a translation, as told above: {self._refused}")

    def _decoded(self, number: int, line: bytes) -> str:
        try:
            return line.decode().strip()
        except UnicodeDecodeError as error:
            self._refuse(number, f"not UTF-8 ({error.reason}): convert it, for example with iconv")
            return ""

    def batches(
        self, lines: list[str], cfg: Any, task: Any, max_positions: tuple[int, int], encode_fn: Callable[[str], str]
    ) -> Iterator[Any]:
        """Make batches of lines; a line that the model cannot take is told, and becomes one without a word."""
        encode = functools.cache(encode_fn)
        most = cfg.dataset.max_tokens
        for number, line in enumerate(lines):
            # behind tabs come words that the translation must have
            parts = line.split("\t") if cfg.generation.constraints else [line]
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
