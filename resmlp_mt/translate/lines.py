"""Line-by-line translation: read lines in windows, translate them and write them in order, in constant memory."""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from resmlp_mt.common import files
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.workers import Chunk, chunks
from resmlp_mt.translate.numbers import number_problems
from resmlp_mt.translate.options import EngineOptions, Options
from resmlp_mt.translate.words import links

FIRST_WINDOW = 64  # lines: few, so that the first output comes soon
WINDOW = 2048  # lines: enough for batches of similar lengths


@dataclass(frozen=True)
class TranslationJob:
    """How every line is translated and written."""

    folder: str
    checksum: str  # of the files in it
    name: str  # of the input, in messages
    options: Options
    engine: EngineOptions
    scores: bool = False  # begin each line with the score and a tab
    json: bool = False  # instead, write everything about a line of input as a line of JSON
    alignments: bool = False  # write links of words as the last column
    check: bool = False  # report numbers that are missing or new

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that determines the output for a line, as JSON values."""
        options = {name: value for name, value in asdict(self.options).items() if name != "batch_tokens"}
        options.update(glossary=list(map(list, self.options.glossary)) or None, avoid=list(self.options.avoid) or None)
        how = {"precision": self.engine.precision, "engine": self.engine.engine}
        layout = {"scores": self.scores, "json": self.json, "alignments": self.alignments}
        return {"model": self.checksum, **how, **options, **layout}


class LineTranslator:
    """Translates a window of lines: returns their output as bytes, and reports about their numbers."""

    def __init__(self, work: TranslationJob):
        from resmlp_mt.translate.translator import Translator

        self._work = work
        self._translator = Translator(work.folder, **asdict(work.engine))

    def __call__(self, window: Chunk[bytes]) -> tuple[bytes, list[str]]:
        work = self._work
        encoded = []
        for number, line in enumerate(window.lines, start=window.first):
            place = f"{work.name}:{number}: "
            try:
                text = line.removesuffix(b"\r").decode()
            except UnicodeDecodeError as error:
                raise UserError(f"{place}not UTF-8: convert it by iconv") from error
            encoded.append(self._translator.encode(text, work.options.too_long, place))
        options = replace(work.options, alignment=work.options.alignment or work.alignments)
        found = self._translator.translate_encoded(encoded, options)
        problems = []
        pairs = zip(encoded, found, strict=True) if work.check else ()
        for each, (best, *_) in pairs:
            problems += number_problems(each.place, each.text, best.text)
        return "".join(f"{row}\n" for translations in found for row in self._rows(translations)).encode(), problems

    def _rows(self, translations: list[Any]) -> Iterator[str]:
        if self._work.json:
            values = [asdict(each) for each in translations]
            sources = [each.pop("source_tokens") for each in values]
            yield json.dumps({"source_tokens": sources[0], "translations": values}, ensure_ascii=False)
            return
        for each in translations:
            columns = [f"{each.score:.4f}", each.text] if self._work.scores else [each.text]
            if self._work.options.alignment and each.alignment is not None:
                columns.append(pharaoh(links(each.alignment)))
            if self._work.alignments:
                if each.word_links is None:
                    raise UserError("--alignments: the model has no cross-attention: give --alignment-by omission")
                columns.append(pharaoh(each.word_links))
            yield "\t".join(columns)


def pharaoh(pairs: Iterable[tuple[int, int]]) -> str:
    """Return links in the format of Pharaoh and Moses: ``0-0 1-2``, source first."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


class GrowingFile(contextlib.AbstractContextManager):
    """An output file that is written as ``FILE.partial`` and renamed when it is complete. A broken-off run can go on.

    ``FILE.partial.json`` records how many lines of which input are done, and their size in ``FILE.partial``.
    ``identity`` is what determines the output: a file that was begun with another one cannot be continued.
    ``beside`` is a second file, which gets the last column of all lines at the end.
    """

    def __init__(self, path: files.PathLike, identity: dict[str, Any], resume: bool, beside: Path | None = None):
        self._path, self._partial, self._beside = Path(path), Path(f"{path}.partial"), beside
        self._record = files.JsonFile(f"{self._partial}.json")
        self._input = hashlib.sha256()
        outputs = [each for each in (self._path, beside) if each is not None]
        # a run that stopped between the two files has written the second one
        self._new = [each for each in outputs if os.path.abspath(each) != self._record.values.get("ended")]
        for each in self._new:
            files.check_new(each)
            files.check_can_be_written(each)
        with files.one_line_write_errors(self._partial):
            self._file: IO[bytes] = open(self._partial, "ab")  # noqa: SIM115 (closed by __exit__)
        files.lock(self._file, f"{self._partial}: another run is writing it: wait until it has ended")
        for each in outputs:
            files.remove_unfinished(each)
        begun, size = self._record.values, self._file.tell()
        remove = f"remove it and {self._partial.name}.json"
        new = {"identity": identity, "lines": 0, "bytes": 0, "input": "", "ended": ""}
        if not begun and not size:
            begun.update(new)
        elif not resume:
            raise UserError(f"{self._partial}: left by a run that was broken off: give --resume, or {remove}")
        elif begun.keys() != new.keys() or size < begun["bytes"]:
            raise UserError(f"{self._partial}: is not as its record says: {remove}")
        for name, value in identity.items():
            before = begun["identity"].get(name)
            # with "error" no line was too long until now: their output does not depend on this option
            if before != value and (name, before) != ("too_long", "error"):
                raise UserError(f"{self._partial}: begun with {name} {before}, not {value}: give the same, or {remove}")
        begun["identity"] = identity
        self._record.save()
        self.lines: int = begun["lines"]
        self._file.truncate(begun["bytes"])

    def skip(self, lines: Iterator[bytes], name: str) -> None:
        """Skip the lines of the input that are done, and check that they are those of the earlier run."""
        for _, line in zip(range(self.lines), lines, strict=False):  # in this order: zip reads no line too many
            self._input.update(line + b"\n")
        if self.lines and self._input.hexdigest() != self._record.values["input"]:
            problem = f"its first {self.lines:,} lines are not those that {self._partial} was made of"
            advice = f"give the same input, or remove that file and {self._partial.name}.json"
            raise UserError(f"{name}: {problem}: {advice}")

    def add(self, window: Chunk[bytes], output: bytes) -> None:
        """Write the output of a window, and then record that its lines are done."""
        with files.one_line_write_errors(self._partial):
            self._file.write(output)
            self._file.flush()
            os.fsync(self._file.fileno())
        for line in window.lines:
            self._input.update(line + b"\n")
        self.lines += len(window.lines)
        self._record.values.update(lines=self.lines, bytes=self._file.tell(), input=self._input.hexdigest())
        self._record.save()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._file, files.one_line_write_errors(self._partial):
            if kind is None:
                for each in self._new:
                    if os.path.lexists(each):
                        raise UserError(f"{each}: has appeared meanwhile: the translations are in {self._partial}")
                if self._beside is None:
                    os.replace(self._partial, self._path)
                else:
                    self._record.values["ended"] = os.path.abspath(self._beside)
                    self._record.save()
                    split(self._partial, self._path, self._beside)
                    self._partial.unlink()
            elif self.lines:
                return
            else:
                self._partial.unlink(missing_ok=True)  # nothing is lost
            Path(f"{self._partial}.json").unlink(missing_ok=True)


def split(path: Path, first: Path, last: Path) -> None:
    """Write the part of each line before its last tab into ``first``, and the part after it into ``last``."""
    with open(path, "rb") as lines, files.atomic_write(first, "wb") as before, files.atomic_write(last, "wb") as behind:
        for line in lines:
            columns, _, column = line.rpartition(b"\t")
            before.write(columns + b"\n")
            behind.write(column)


def translate_file(
    work: TranslationJob,
    path: Path | None,
    out: Path | None,
    resume: bool,
    mapped: Callable[[Callable[[], LineTranslator], Iterable[Chunk[bytes]]], Iterator[tuple[bytes, list[str]]]],
    done: Callable[[int], None],
    alignments: Path | None = None,
) -> None:
    """Translate ``path`` (None: standard input) into ``out`` (None: standard output) and, if given, ``alignments``.

    ``resume``: continue the ``out`` that an interrupted run left. ``mapped`` makes a ``LineTranslator`` and applies it
    to windows, in order; ``done`` is called with the number of lines of each window that was written.
    """
    if resume and out is None:
        raise UserError("--resume needs --output, the file to continue")
    if alignments and (not out or alignments.resolve() == out.resolve() or work.options.n_best > 1 or work.json):
        problem = "needs --output, another name than that, and no --n-best or --json"
        raise UserError(f"--alignments {alignments}: {problem}")
    for each in out, alignments:
        if str(each).endswith(".gz"):
            raise UserError(f"{each}: would be plain text: give a name that does not end in .gz")
    if not (path or sys.stdin) or not (out or sys.stdout):  # closed by the shell's <&- or >&-
        raise UserError("standard input or output is closed: give --input and --output")
    lines = files.binary_lines(files.open_input(path) if path else sys.stdin.buffer, work.name)
    pending: list[Chunk[bytes]] = []
    with contextlib.ExitStack() as stack:
        output = None if out is None else stack.enter_context(GrowingFile(out, work.identity, resume, alignments))
        if output is not None:
            output.skip(lines, work.name)

        # one by one for somebody who types them
        sizes = (1, 1) if not path and sys.stdin.isatty() else (FIRST_WINDOW, WINDOW)

        def remembered() -> Iterator[Chunk[bytes]]:
            for window in chunks(lines, *sizes, first=output.lines + 1 if output else 1):
                pending.append(window)
                yield window

        for translated, problems in mapped(partial(LineTranslator, work), remembered()):
            window = pending.pop(0)
            if output is not None:
                output.add(window, translated)
            else:
                sys.stdout.buffer.write(translated)
                sys.stdout.flush()
            for line in problems:
                print(line, file=sys.stderr)
            done(len(window.lines))


def lines_in(path: Path | None) -> int | None:
    """Return the number of lines of a plain file; None for other input, which would have to be read twice."""
    if path is None or path.suffix == ".gz" or not path.is_file():
        return None
    with open(path, "rb") as file:
        return sum(1 for _ in file)
