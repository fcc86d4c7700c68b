"""Text line by line: read, translated window by window and written in order, in flat memory."""

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, PathLike
from resmlp_mt.common.locks import lock
from resmlp_mt.translate.options import Options

FIRST_WINDOW = 64  # lines: the first ones are out soon
WINDOW = 2048  # lines: enough to make batches of like lengths
WINDOW_BYTES = 4 << 20
UNCHANGING = {"batch_tokens"}
"""Options that do not change a translation."""
YIELDING = {"too_long": "error"}
"""By option, a value that may be another one later: the lines translated until then would have come out the same."""


@dataclass(frozen=True)
class Layout:
    """What stands in a line of output, with tabs between.

    Attributes:
        scores: the score stands first
        json: instead, a line of JSON for each line of input, with everything in it
    """

    scores: bool = False
    json: bool = False


@dataclass(frozen=True)
class Work:
    """What is done with every line, on whichever machine.

    Attributes:
        folder: the model's
        checksum: of the files in it
        name: what the input is called in messages
        options, layout: how lines are translated and written
        precision, device, threads, engine: those of ``Translator``
    """

    folder: str
    checksum: str
    name: str
    options: Options
    layout: Layout
    precision: str = "fp32"
    device: str = "cpu"
    threads: int | None = None
    engine: str = "pytorch"

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides what comes out for a line, as JSON values."""
        options = {name: value for name, value in asdict(self.options).items() if name not in UNCHANGING}
        how = {"precision": self.precision, "engine": self.engine}
        return {"model": self.checksum, **how, **options, **asdict(self.layout)}


@dataclass(frozen=True)
class Window:
    """Lines that follow one another.

    Attributes:
        first: the number of the first one, counted from 1
        lines: bytes, without line ends
    """

    first: int
    lines: list[bytes]


class LineTranslator:
    """From a window of lines to their lines of output, as bytes.

    Raises:
        UserError: the folder cannot be used, or has other files than the one that the work was made for
    """

    def __init__(self, work: Work):
        from resmlp_mt.translate.translator import Translator

        if checksum(work.folder) != work.checksum:
            raise UserError(f"{work.folder}: holds another model on {os.uname().nodename}: copy the folder there")
        self._work = work
        self._translator = Translator(work.folder, work.threads, work.device, work.precision, work.engine)

    def __call__(self, window: Window) -> bytes:
        """Translate.

        Raises:
            UserError: a line is not UTF-8, or too long; with its number
        """
        work = self._work
        encoded = []
        for number, line in enumerate(window.lines, start=window.first):
            try:
                encoded.append(self._translator.encode(line.removesuffix(b"\r").decode(), work.options.too_long))
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{work.name}:{number}: not UTF-8 ({error.reason}): convert the text, for example with iconv"
                ) from error
            except UserError as error:
                raise UserError(f"{work.name}:{number}: {error}") from error
        out = io.StringIO()
        for found in self._translator.translate_encoded(encoded, work.options):
            if work.layout.json:
                translations = [asdict(each) for each in found]
                sources = [each.pop("source_tokens") for each in translations]
                everything = {"source_tokens": sources[0], "translations": translations}
                out.write(json.dumps(everything, ensure_ascii=False) + "\n")
                continue
            for each in found:
                columns = [f"{each.score:.4f}"] if work.layout.scores else []
                columns.append(each.text)
                if each.alignment is not None:
                    columns.append(" ".join(links(each.alignment)))
                out.write("\t".join(columns) + "\n")
        return out.getvalue().encode()


def links(alignment: list[list[float]]) -> Iterator[str]:
    """``source-target`` of each target token that attends most to a token of the source (and not to ``</s>``)."""
    for target, row in enumerate(alignment):
        source = max(range(len(row)), key=row.__getitem__)
        if source < len(row) - 1:
            yield f"{source}-{target}"


def checksum(folder: PathLike) -> str:
    """SHA-256 of what decides a folder's translations."""
    from resmlp_mt.translate.model_folder import CONFIG, GENERATION, LEARNED, SOURCE, TARGET, TEXT, WEIGHTS
    from resmlp_mt.translate.shortlist import SHORTLIST

    total = hashlib.sha256()
    for name in CONFIG, GENERATION, TEXT, LEARNED, SOURCE, TARGET, WEIGHTS, SHORTLIST:
        path = Path(folder, name)
        if name == SHORTLIST and not path.is_file():
            continue
        try:
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    total.update(block)
        except OSError as error:
            raise UserError(
                f"{path}: cannot be read: {error.strerror}: name a folder that resmlp-mt export made"
            ) from error
        total.update(name.encode())
    return total.hexdigest()


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

    Until then it is ``FILE.partial``, always of whole lines, and ``FILE.partial.json`` tells how far it is and of which
    input. Use in a ``with`` statement.

    Args:
        path: its name
        identity: what decides what is written: one that was begun with another one does not go on
        resume: go on where there is a ``.partial``

    Attributes:
        lines: of input that are done

    Raises:
        UserError: the file is there, or a ``.partial`` is there and is not to go on, or not with this identity, or
            another run is at it
    """

    def __init__(self, path: PathLike, identity: dict[str, Any], resume: bool):
        self._path = Path(path)
        self._partial = self._path.with_name(f"{self._path.name}.partial")
        self._record = JsonFile(f"{self._partial}.json")
        self._input = hashlib.sha256()
        if os.path.lexists(path):
            raise UserError(f"{path}: is there already: move it away, or choose another name")
        try:
            self._file: IO[bytes] = open(self._partial, "ab")  # noqa: SIM115 (closed by __exit__)
        except OSError as error:
            raise UserError(f"{self._partial}: cannot be written: {error.strerror or error}") from error
        lock(self._file, f"{self._partial}: another run is writing it: wait until it has ended")
        begun, size = self._record.values, self._file.tell()
        record = f"{self._partial.name}.json"
        new = {"identity": identity, "lines": 0, "bytes": 0, "input": ""}
        if not begun and not size:
            self._record.values = begun = new
            self._record.save()
        elif not resume:
            raise UserError(
                f"{self._partial}: left by a run that was broken off: give --resume, or remove it and {record}"
            )
        elif begun.keys() != new.keys() or size < begun["bytes"]:
            raise UserError(f"{self._partial}: is not as its record {record} says: remove both")
        for name, value in identity.items():
            before = begun["identity"].get(name)
            if before not in (value, YIELDING.get(name, value)):
                raise UserError(
                    f"{self._partial}: begun with {name} {before}, not {value}: give the same, or remove it and "
                    f"{record}"
                )
        begun["identity"] = identity
        self.lines: int = begun["lines"]
        self._file.truncate(begun["bytes"])

    def skip(self, lines: Iterator[bytes], name: str) -> None:
        """Read what is done from the input.

        Raises:
            UserError: it is not what was read then
        """
        for _ in range(self.lines):
            line = next(lines, None)
            if line is None:
                break
            self._input.update(line + b"\n")
        if self.lines and self._input.hexdigest() != self._record.values["input"]:
            raise UserError(
                f"{name}: its first {self.lines:,} lines are not those that {self._partial} was made of: give the same "
                f"input, or remove that file and {self._partial.name}.json"
            )

    def add(self, window: Window, output: bytes) -> None:
        """Write the output of some more lines, and then that they are done."""
        try:
            self._file.write(output)
            self._file.flush()
            os.fsync(self._file.fileno())
            size = self._file.tell()
        except OSError as error:
            raise UserError(f"{self._partial}: cannot be written: {error.strerror or error}") from error
        for line in window.lines:
            self._input.update(line + b"\n")
        self.lines += len(window.lines)
        self._record.values.update(lines=self.lines, bytes=size, input=self._input.hexdigest())
        self._record.save()

    def __enter__(self) -> "GrowingFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._take_name()
            elif not self.lines:
                self._partial.unlink(missing_ok=True)  # nothing is lost
                Path(f"{self._partial}.json").unlink(missing_ok=True)

    def _take_name(self) -> None:
        if os.path.lexists(self._path):
            raise UserError(f"{self._path}: has appeared during the run: the translations are in {self._partial}")
        try:
            os.replace(self._partial, self._path)
            Path(f"{self._partial}.json").unlink(missing_ok=True)
        except OSError as problem:
            raise UserError(f"{self._path}: cannot be written: {problem.strerror or problem}") from problem


class Stdout:
    """Standard output in the place of a ``GrowingFile``.

    Args:
        stream: of bytes
    """

    lines = 0

    def __init__(self, stream: IO[bytes]):
        self._stream = stream

    def add(self, window: Window, output: bytes) -> None:
        """Write the output of some more lines."""
        self._stream.write(output)
        self._stream.flush()


def translate_lines(
    lines: Iterator[bytes],
    work: Work,
    output: "GrowingFile | Stdout",
    mapped: Callable[[Iterable[Window]], Iterator[bytes]],
    done: Callable[[int], None],
) -> None:
    """Translate a stream.

    Args:
        lines: without line ends
        output: where the translations go
        mapped: what applies a ``LineTranslator`` to windows, in order
        done: called with the number of lines each time that some more are out

    Raises:
        UserError: a line cannot be translated, or the output not be written
    """
    if isinstance(output, GrowingFile):
        output.skip(lines, work.name)
    pending: list[Window] = []

    def remembered() -> Iterator[Window]:
        for window in windows(lines, output.lines):
            pending.append(window)
            yield window

    for translated in mapped(remembered()):
        window = pending.pop(0)
        output.add(window, translated)
        done(len(window.lines))
