"""Text line by line: read, translated window by window and written in order, in flat memory."""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, PathLike, binary_lines, lock, opened, writing
from resmlp_mt.translate.numbers import check_numbers
from resmlp_mt.translate.options import EngineOptions, Options
from resmlp_mt.translate.words import links

FIRST_WINDOW = 64  # lines: the first ones are out soon
WINDOW = 2048  # lines: enough to make batches of like lengths
WINDOW_BYTES = 4 << 20


@dataclass(frozen=True)
class TranslationJob:
    """What is done with every line, on whichever machine."""

    folder: str
    checksum: str  # of the files in it
    name: str  # of the input, in messages
    options: Options
    engine: EngineOptions
    scores: bool = False  # the score stands first in a line, before a tab
    json: bool = False  # instead, a line of JSON for each line of input, with everything in it
    alignments: bool = False  # links of words, for a file of their own
    check: bool = False  # tell which numbers are missing or new

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides what comes out for a line, as JSON values."""
        options = {name: value for name, value in asdict(self.options).items() if name != "batch_tokens"}
        options.update(glossary=list(map(list, self.options.glossary)) or None, avoid=list(self.options.avoid) or None)
        how = {"precision": self.engine.precision, "engine": self.engine.engine}
        layout = {"scores": self.scores, "json": self.json, "alignments": self.alignments}
        return {"model": self.checksum, **how, **options, **layout}


@dataclass(frozen=True)
class Window:
    """Lines that follow one another: bytes without line ends; ``first`` is the number of the first, counted from 1."""

    first: int
    lines: list[bytes]


class Translated(NamedTuple):
    """What comes out for a window."""

    files: tuple[bytes, ...]  # lines of the output, and of the file of alignments if there is one
    told: list[str]  # lines about numbers


class LineTranslator:
    """From a window of lines to what comes out for them."""

    def __init__(self, work: TranslationJob):
        from resmlp_mt.translate.model_folder import checksum
        from resmlp_mt.translate.translator import Translator

        if checksum(work.folder) != work.checksum:
            raise UserError(f"{work.folder}: holds another model on {os.uname().nodename}: copy the folder there")
        self._work = work
        self._translator = Translator(work.folder, **asdict(work.engine))

    def __call__(self, window: Window) -> Translated:
        work = self._work
        encoded = []
        for place, line in enumerate(window.lines, start=window.first):
            try:
                encoded.append(self._translator.encode(line.removesuffix(b"\r").decode(), work.options.too_long))
            except ValueError as error:
                problem = "not UTF-8: convert it by iconv" if isinstance(error, UnicodeDecodeError) else error
                raise UserError(f"{work.name}:{place}: {problem}") from error
        options = replace(work.options, alignment=work.options.alignment or work.alignments)
        found = self._translator.translate_encoded(encoded, options)
        columns = [[row for translations in found for row in self._rows(translations)]]
        if work.alignments:
            links_of_lines = [best.word_links for best, *_ in found]
            if None in links_of_lines:
                raise UserError(f"--alignments: {work.folder}: its last layer has no cross-attention, so no alignment")
            columns.append([moses(each or ()) for each in links_of_lines])
        told = []
        pairs = zip(encoded, found, strict=True) if work.check else ()
        for place, (text, (best, *_)) in enumerate(pairs, start=window.first):
            for what, numbers in zip(("missing", "new"), check_numbers(text.text, best.text), strict=True):
                if numbers:
                    told.append(f"{work.name}:{place}: {what}: {' '.join(numbers)}")
        return Translated(tuple("".join(f"{row}\n" for row in rows).encode() for rows in columns), told)

    def _rows(self, translations: list[Any]) -> Iterator[str]:
        if self._work.json:
            values = [asdict(each) for each in translations]
            sources = [each.pop("source_tokens") for each in values]
            yield json.dumps({"source_tokens": sources[0], "translations": values}, ensure_ascii=False)
            return
        for each in translations:
            columns = [f"{each.score:.4f}", each.text] if self._work.scores else [each.text]
            if self._work.options.alignment and each.alignment is not None:
                columns.append(moses(links(each.alignment)))
            yield "\t".join(columns)


def moses(pairs: Iterable[tuple[int, int]]) -> str:
    """Links as Moses writes them: ``0-0 1-2``, source first."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def windows(lines: Iterable[bytes], done: int = 0) -> Iterator[Window]:
    """The lines of a stream, ``FIRST_WINDOW`` of them, then more and more at a time; ``done`` came before them."""
    some: list[bytes] = []
    first, size, most = done + 1, 0, FIRST_WINDOW
    for line in lines:
        some.append(line)
        size += len(line)
        if len(some) >= most or size >= WINDOW_BYTES:
            yield Window(first, some)
            first, some, size, most = first + len(some), [], 0, min(2 * most, WINDOW)
    if some:
        yield Window(first, some)


class GrowingFile:
    """A file that grows beside its name and gets the name when it is whole; one that was broken off goes on.

    Until then it is ``FILE.partial``, always of whole lines, and ``FILE.partial.json`` tells how many lines of which
    input are done. ``identity`` is what decides the output: a file that was begun with another one does not go on.
    ``beside``: other files that grow with it and get their names just before it.
    """

    def __init__(self, path: PathLike, identity: dict[str, Any], resume: bool, beside: Sequence[PathLike] = ()):
        self._partials = {Path(each): Path(f"{each}.partial") for each in (path, *beside)}
        self._partial = self._partials[Path(path)]
        self._record = JsonFile(f"{self._partial}.json")
        self._input = hashlib.sha256()
        begun = self._record.values
        for (each, growing), size in zip(self._partials.items(), begun.get("sizes", []), strict=False):
            renamed = resume and self._partial.is_file() and each.is_file() and not growing.exists()
            if renamed and each.stat().st_size == size:  # killed between one name and the next
                os.rename(each, growing)
        for each in self._partials:
            if os.path.lexists(each):
                raise UserError(f"{each}: is there already: move it away, or choose another name")
        self._files: list[IO[bytes]] = []
        for growing in self._partials.values():
            with writing(growing):
                self._files.append(open(growing, "ab"))  # noqa: SIM115 (closed by __exit__)
            lock(self._files[-1], f"{growing}: another run is writing it: wait until it has ended")
        sizes = [file.tell() for file in self._files]
        remove = f"remove it and {self._partial.name}.json"
        new = {"identity": identity, "lines": 0, "sizes": [0] * len(sizes), "input": ""}
        if not begun and not any(sizes):
            begun.update(new)
        elif not resume:
            raise UserError(f"{self._partial}: left by a run that was broken off: give --resume, or {remove}")
        elif begun.keys() != new.keys():
            raise UserError(f"{self._partial}: is not as its record says: {remove}")
        for name, value in identity.items():
            before = begun["identity"].get(name)
            # no line was too long until now: they would all have come out the same
            if before != value and (name, before) != ("too_long", "error"):
                raise UserError(f"{self._partial}: begun with {name} {before}, not {value}: give the same, or {remove}")
        if len(sizes) != len(begun["sizes"]) or any(map(int.__lt__, sizes, begun["sizes"])):
            raise UserError(f"{self._partial}: is not as its record says: {remove}")
        begun["identity"] = identity
        self._record.save()
        self.lines: int = begun["lines"]
        for file, size in zip(self._files, begun["sizes"], strict=True):
            file.truncate(size)

    def skip(self, lines: Iterator[bytes], name: str) -> None:
        """Read from the input what is done, and see that it is what was read then."""
        for _, line in zip(range(self.lines), lines, strict=False):  # in this order: no line more is read
            self._input.update(line + b"\n")
        if self.lines and self._input.hexdigest() != self._record.values["input"]:
            told = f"its first {self.lines:,} lines are not those that {self._partial} was made of"
            raise UserError(f"{name}: {told}: give the same input, or remove that file and {self._partial.name}.json")

    def add(self, window: Window, *outputs: bytes) -> None:
        """Write the output of some more lines, of each file, and then that they are done."""
        for file, growing, output in zip(self._files, self._partials.values(), outputs, strict=True):
            with writing(growing):
                file.write(output)
                file.flush()
                os.fsync(file.fileno())
        for line in window.lines:
            self._input.update(line + b"\n")
        self.lines += len(window.lines)
        self._record.values.update(lines=self.lines, sizes=[file.tell() for file in self._files])
        self._record.values["input"] = self._input.hexdigest()
        self._record.save()

    def __enter__(self) -> "GrowingFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with contextlib.ExitStack() as files, writing(self._partial):
            for file in self._files:
                files.enter_context(file)
            if kind is None:
                for path, growing in self._partials.items():
                    if os.path.lexists(path):
                        raise UserError(f"{path}: has appeared meanwhile: the translations are in {growing}")
                for path, growing in reversed(self._partials.items()):
                    os.replace(growing, path)
            elif self.lines:
                return
            else:
                for growing in self._partials.values():
                    growing.unlink(missing_ok=True)  # nothing is lost
            Path(f"{self._partial}.json").unlink(missing_ok=True)


def translate_file(
    work: TranslationJob,
    path: Path | None,
    out: Path | None,
    resume: bool,
    mapped: Callable[[Callable[[], LineTranslator], Iterable[Window]], Iterator[Translated]],
    done: Callable[[int], None],
    alignments: Path | None = None,
) -> None:
    """Translate a file (None: standard input) into another (None: standard output), with one of its alignments.

    ``resume``: go on with what an interrupted run left of ``out``. ``mapped`` makes a ``LineTranslator`` and applies it
    to windows, in order; ``done`` is called with the number of lines each time that some more are out.
    """
    if resume and out is None:
        raise UserError("--resume: goes on with an output file: give --output")
    if work.alignments:
        if work.options.n_best > 1 or work.json:
            raise UserError("--alignments: has one line for each of the input: not with --n-best or --json")
        if out is None or alignments is None or os.path.realpath(alignments) == os.path.realpath(out):
            raise UserError("--alignments: is a file of its own beside that of the translations: give --output")
    lines = binary_lines(opened(path) if path else sys.stdin.buffer, work.name)
    pending: list[Window] = []
    with contextlib.ExitStack() as stack:
        beside = [] if alignments is None else [alignments]
        output = None if out is None else stack.enter_context(GrowingFile(out, work.identity, resume, beside))
        if output is not None:
            output.skip(lines, work.name)

        def remembered() -> Iterator[Window]:
            for window in windows(lines, output.lines if output else 0):
                pending.append(window)
                yield window

        for translated in mapped(partial(LineTranslator, work), remembered()):
            window = pending.pop(0)
            if output is not None:
                output.add(window, *translated.files)
            else:
                sys.stdout.buffer.write(translated.files[0])
                sys.stdout.flush()
            for line in translated.told:
                print(line, file=sys.stderr)
            done(len(window.lines))


def lines_in(path: Path | None) -> int | None:
    """How many lines a plain file has; None where that would have to be read twice."""
    if path is None or path.suffix == ".gz" or not path.is_file():
        return None
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
