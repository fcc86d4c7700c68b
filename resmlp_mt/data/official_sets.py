"""Official test sets: which archive has them, and their text, as sacrebleu knows both."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import unescape

from resmlp_mt.common.files import atomic_write
from resmlp_mt.data.archives import opened_member
from resmlp_mt.data.download import PublicFile
from resmlp_mt.data.sources import PlainText
from resmlp_mt.data.steps import Step


@dataclass(frozen=True)
class OfficialSet:
    """A test set in SGML of sacrebleu's catalog.

    Attributes:
        name: of its files of text
        key: its name in the catalog, ``sacrebleu -t``
    """

    name: str
    key: str

    @property
    def archive(self) -> PublicFile:
        """The archive that the catalog names, under the name by which sacrebleu keeps it in its own folder."""
        dataset = self._dataset()
        url = dataset.data[0]
        return PublicFile(f"{self.key.replace('/', '_')}.{url.rsplit('/', 1)[1]}", url, md5=dataset.md5[0])

    def paths(self, folder: Path, langs: tuple[str, str]) -> tuple[Path, Path]:
        """The files of ``step``."""
        return folder / f"{self.name}.{langs[0]}", folder / f"{self.name}.{langs[1]}"

    def step(self, folder: Path, archive: Path, langs: tuple[str, str]) -> tuple[Step, Callable[[], dict[str, Any]]]:
        """The step that writes ``NAME.LANG`` for both languages: byte by byte what sacrebleu scores against."""
        step = Step(
            f"take {self.name}", [archive], self.paths(folder, langs), {"set": self.key, "langs": langs}, ["sacrebleu"]
        )

        def work() -> dict[str, Any]:
            dataset = self._dataset()
            for path, member in zip(step.outputs, dataset.langpairs["-".join(langs)], strict=True):
                # sacrebleu's public function would download and unpack the whole archive.
                with atomic_write(path, "wb") as file, tempfile.TemporaryDirectory() as temporary:
                    sgml, text = Path(temporary, "sgml"), Path(temporary, "text")
                    with opened_member(archive, member) as stream, sgml.open("wb") as copy:
                        shutil.copyfileobj(stream, copy)
                    dataset._convert_format(str(sgml), str(text))
                    file.write(text.read_bytes())
            return {"pairs": step.outputs[0].read_bytes().count(b"\n")}

        return step, work

    def _dataset(self) -> Any:
        from sacrebleu.dataset import DATASETS

        return DATASETS[self.key]


@dataclass(frozen=True)
class OfficialText(PlainText):
    """The text of an official set as running text: without the entities (``&amp;``) that the SGML left in it."""

    @property
    def options(self) -> dict[str, Any]:
        return {"entities": "resolved"}

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        for source, target in super().pairs():
            yield _running(source), _running(target)


def _running(line: bytes) -> bytes:
    return unescape(line.decode(), {"&quot;": '"', "&apos;": "'"}).encode()
