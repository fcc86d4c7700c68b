"""fairseq-interactive: every line that is put in has its number, and a bad one harms no other."""

import contextlib
import functools
import os
import stat
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any

from fairseq import options
from fairseq.data.data_utils import post_process
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import LONGEST_SENTENCE
from resmlp_mt.fairseq_plugin.encoder import check_length


def take_lines_one_by_one() -> None:
    """Read lines as preparing does, and translate the others where a sentence is too long or cannot be split.

    fairseq would end lines at a lone CR, too, end in a traceback where a line is not UTF-8, and stop at a sentence that
    is too long, or, told to skip it, print nothing in its place. Options that lack are told before the model is loaded.
    """
    options.parse_args_and_arch = _checking(options.parse_args_and_arch)


def _checking(parse: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(parse)
    def parse_and_check(*args: Any, **kwargs: Any) -> Any:
        parsed = parse(*args, **kwargs)
        given: Namespace = parsed[0] if isinstance(parsed, tuple) else parsed
        if hasattr(given, "beam"):  # fairseq-generate and fairseq-interactive
            _check(given)
            if hasattr(given, "buffer_size"):
                _check_interactive(given)
                _install()
        return parsed

    return parse_and_check


def _check(given: Namespace) -> None:
    if given.sampling and given.nbest != given.beam:
        raise UserError(f"--sampling needs --nbest {given.nbest} to equal --beam {given.beam}")
    for option in "print_step", "retain_iter_history":
        if getattr(given, option) and TASK_REGISTRY.get(given.task) is TranslationTask:
            raise UserError(f"--{option.replace('_', '-')}: for models that refine in steps: leave it out")
    if given.num_shards != 1:
        raise UserError(
            f"--num-shards {given.num_shards}: fairseq takes no notice of it, and would translate all: leave it out"
        )
    try:
        post_process("", given.post_process)
    except NotImplementedError as error:
        raise UserError(f"--post-process {given.post_process}: give subword_nmt, sentencepiece or none") from error
    if given.replace_unk and not os.path.isfile(given.replace_unk):
        raise UserError(
            f"--replace-unk {given.replace_unk}: no such file: give an alignment dictionary, or '' for none"
        )


def _check_interactive(given: Namespace) -> None:
    if given.input == "-":
        if sys.stdin is None:
            raise UserError("stdin is closed: give text to it, or --input")
    else:
        try:
            is_folder = stat.S_ISDIR(os.stat(given.input).st_mode)
        except OSError as error:
            raise UserError(f"--input {given.input}: cannot be read: {error.strerror}") from error
        if is_folder:
            raise UserError(f"--input {given.input}: is a folder: give a file of lines")
    if given.score_reference:
        raise UserError("--score-reference: fairseq-interactive has no references: give it to fairseq-generate")
    for option in "lm_path", "prefix_size":
        if getattr(given, option):
            name = f"--{option.replace('_', '-')}"
            raise UserError(f"{name}: fairseq-interactive takes no notice of it: give it to fairseq-generate")
    if given.batch_size and given.batch_size > max(given.buffer_size, 1):
        raise UserError(
            f"--batch-size {given.batch_size} is larger than --buffer-size {given.buffer_size}, the number of lines "
            "read at once: give at least as many"
        )


def _install() -> None:
    # fairseq-interactive imports the module, python -m fairseq_cli.interactive runs it
    for name in "fairseq_cli.interactive", "__main__":
        module: Any = sys.modules.get(name)
        read = getattr(module, "buffered_read", None)
        if read and not isinstance(getattr(read, "__self__", None), _Lines):
            lines = _Lines(module.make_batches)
            module.buffered_read, module.make_batches = lines.read, lines.batches


class _Lines:
    """The lines of one run.

    Args:
        make_batches: fairseq's
    """

    def __init__(self, make_batches: Callable[..., Iterator[Any]]):
        self._make_batches = make_batches
        self._first = 0  # number of the first line at hand
        self._at_hand = 0
        self._refused = 0

    def read(self, input: str, buffer_size: int) -> Iterator[list[str]]:
        """Yield as many lines at once, numbered from 0 as fairseq numbers its sentences.

        Raises:
            UserError: a line is not UTF-8, after those before it; at the end, if a sentence had no translation
        """
        where = "stdin" if input == "-" else input
        self._first = self._at_hand = self._refused = 0
        lines: list[str] = []
        broken = None
        try:
            with contextlib.nullcontext(sys.stdin.buffer) if input == "-" else open(input, "rb") as file:
                while line := file.readline(LONGEST_SENTENCE + 1):
                    number = self._first + self._at_hand + len(lines) + 1
                    if len(line) > LONGEST_SENTENCE:
                        broken = f"{where}:{number}: more than {LONGEST_SENTENCE:,} bytes: give text, a sentence a line"
                        break
                    try:
                        lines.append(line.decode().strip())
                    except UnicodeDecodeError as error:
                        broken = f"{where}:{number}: not UTF-8 ({error.reason}): convert it, for example with iconv"
                        break
                    if len(lines) == buffer_size:
                        yield self._handed_out(lines)
                        lines = []
        except OSError as error:
            broken = f"{where}: cannot be read: {error.strerror or error}"
        if lines:
            yield self._handed_out(lines)
        if broken:
            raise UserError(broken)
        if self._refused:
            raise UserError(f"lines without a translation, as told above: {self._refused}")

    def _handed_out(self, lines: list[str]) -> list[str]:
        self._first += self._at_hand
        self._at_hand = len(lines)
        return lines

    def batches(
        self,
        lines: list[str],
        cfg: Any,
        task: TranslationTask,
        max_positions: tuple[int, int],
        encode_fn: Callable[[str], str],
    ) -> Iterator[Any]:
        """Make batches of lines; a line that the model cannot take is told, and becomes one without a word."""
        encode = functools.cache(encode_fn)
        limit, most = max_positions[0], cfg.dataset.max_tokens
        for number, line in enumerate(lines):
            # behind tabs come words that the translation must have
            sentence, *wanted = line.split("\t") if cfg.generation.constraints else [line]
            try:
                for text in wanted:
                    encode(text)
                length = task.source_dictionary.encode_line(encode(sentence), add_if_not_exist=False).numel()
                check_length(length, limit, "source")
                if most and length > most:
                    raise UserError(f"{length} positions (subwords and </s>), more than --max-tokens {most}: raise it")
            except UserError as error:
                lines[number] = ""
                self._tell(self._first + number, error, cfg.dataset.skip_invalid_size_inputs_valid_test)
        yield from self._make_batches(lines, cfg, task, max_positions, encode)

    def _tell(self, sentence: int, error: UserError, is_skipped: bool) -> None:
        self._refused += not is_skipped
        skipped = "skipped: " if is_skipped else ""
        print(f"sentence {sentence} (line {sentence + 1}): {skipped}{error}", file=sys.stderr, flush=True)
