"""WMT14 from its public archives: its contents, the downloads, the disk space needed, and how it is prepared.

Sources of the facts in this file:

- URLs of the training archives: https://www.statmt.org/wmt14/translation-task.html
- their second addresses, copies that https://github.com/huggingface/datasets made (its pull request 1912) and names in
  ``datasets/wmt14/wmt_utils.py`` at 098b1c6; not tested, but other bytes are refused
- their sizes and sha256: https://github.com/tensorflow/datasets, ``tensorflow_datasets/url_checksums/``
  ``wmt14_translate.txt`` and, for the UN documents and Giga-French, ``wmt15_translate.txt``
- their members: https://github.com/facebookresearch/fairseq, ``examples/translation/prepare-wmt14en2de.sh`` and
  ``prepare-wmt14en2fr.sh``, whose order of the corpora is kept; https://github.com/tensorflow/tensor2tensor,
  ``tensor2tensor/data_generators/translate_ende.py`` and ``translate_enfr.py``
- test sets, their URLs and md5: sacrebleu's catalog, read where it is installed
- pairs and bytes of the training text: https://huggingface.co/datasets/wmt/wmt14, which has the same corpora
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import unescape

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write
from resmlp_mt.common.workers import ALONE, Workers
from resmlp_mt.data.chunks import PairFilter
from resmlp_mt.data.download import PublicFile
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, prepare
from resmlp_mt.data.sources import ArchivedText, PlainText, opened_member
from resmlp_mt.data.steps import Step, check_disk, disk, format_bytes
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words


@dataclass(frozen=True)
class OfficialSet:
    """A test set of sacrebleu's catalog, which is in SGML."""

    name: str  # of its text files
    key: str  # its name in the catalog, ``sacrebleu -t``

    @property
    def archive(self) -> PublicFile:
        """The archive that the catalog names; its file name is the one in sacrebleu's own folder."""
        dataset = self._dataset()
        url = dataset.data[0]
        return PublicFile(f"{self.key.replace('/', '_')}.{url.rsplit('/', 1)[1]}", url, md5=dataset.md5[0])

    def paths(self, folder: Path, langs: tuple[str, str]) -> tuple[Path, Path]:
        """Return the paths of the files that ``step`` writes."""
        return folder / f"{self.name}.{langs[0]}", folder / f"{self.name}.{langs[1]}"

    def step(self, folder: Path, archive: Path, langs: tuple[str, str]) -> tuple[Step, Callable[[], dict[str, Any]]]:
        """Return the step that writes ``NAME.LANG`` for both languages: the same bytes that sacrebleu scores with."""
        step = Step(
            f"take {self.name}", [archive], self.paths(folder, langs), {"set": self.key, "langs": langs}, ["sacrebleu"]
        )

        def work() -> dict[str, Any]:
            dataset = self._dataset()
            for path, member in zip(step.outputs, dataset.langpairs["-".join(langs)], strict=True):
                # sacrebleu's public function would download and unpack the whole archive.
                with opened_member(archive, member) as stream:
                    content = stream.read()
                with atomic_write(path, "wb") as file, tempfile.TemporaryDirectory() as temporary:
                    sgml, text = Path(temporary, "sgml"), Path(temporary, "text")
                    sgml.write_bytes(content)
                    dataset._convert_format(str(sgml), str(text))
                    file.write(text.read_bytes())
            return {"pairs": step.outputs[0].read_bytes().count(b"\n")}

        return step, work

    def _dataset(self) -> Any:
        from sacrebleu.dataset import DATASETS

        return DATASETS[self.key]


@dataclass(frozen=True)
class OfficialText(PlainText):
    """The text of an official set as running text: entities (``&amp;``) that the SGML left in it are resolved."""

    @property
    def options(self) -> dict[str, Any]:
        return {"entities": "resolved"}

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        for pair in super().pairs():
            source, target = (unescape(line.decode(), {"&quot;": '"', "&apos;": "'"}).encode() for line in pair)
            yield source, target


def _training(folder: str, file: str, size: int, sha256: str) -> PublicFile:
    """Return a training archive of statmt.org, with its copy as a mirror."""
    copy = f"https://huggingface.co/datasets/wmt/{folder}/resolve/main/{file}"
    return PublicFile(file, f"https://www.statmt.org/{folder}/{file}", sha256, size=size, mirrors=(copy,))


ARCHIVES = {
    file.name: file
    for file in (
        _training(
            "wmt13", "training-parallel-europarl-v7.tgz",
            657_632_379, "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
        ),
        _training(
            "wmt13", "training-parallel-commoncrawl.tgz",
            918_311_367, "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
        ),
        _training(
            "wmt14", "training-parallel-nc-v9.tgz",
            80_418_416, "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
        ),
        _training(
            "wmt13", "training-parallel-un.tgz",
            2_365_634_246, "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
        ),
        _training(
            "wmt10", "training-giga-fren.tar",
            2_595_102_720, "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
        ),
    )
}  # fmt: skip


# The training corpora: their archives, and the members that hold them.
CORPORA = {
    "europarl-v7": ("training-parallel-europarl-v7.tgz", "training/europarl-v7.{pair}.{lang}"),
    "commoncrawl": ("training-parallel-commoncrawl.tgz", "commoncrawl.{pair}.{lang}"),
    "un": ("training-parallel-un.tgz", "un/undoc.2000.{pair}.{lang}"),
    "news-commentary-v9": ("training-parallel-nc-v9.tgz", "training/news-commentary-v9.{pair}.{lang}"),
    "giga-fren": ("training-giga-fren.tar", "giga-fren.release2.fixed.{lang}.gz"),
}


def members(corpus: str, langs: tuple[str, str]) -> tuple[str, str]:
    """Return the archive members of both sides of a training corpus. The source must be English."""
    source, target = (CORPORA[corpus][1].format(pair=f"{langs[1]}-{langs[0]}", lang=lang) for lang in langs)
    return source, target


@dataclass(frozen=True)
class Task:
    """A translation task of WMT14."""

    langs: tuple[str, str]
    train: Sequence[str]  # corpora, in this order
    valid: Sequence[OfficialSet]
    test: OfficialSet
    symbols: int  # BPE merges, or pieces of the sentencepiece vocabulary
    pairs: int  # of the training text, approximately
    text_bytes: int  # of both sides of the training text in UTF-8, approximately


NEWSTEST2012 = OfficialSet("newstest2012", "wmt12")
NEWSTEST2013 = OfficialSet("newstest2013", "wmt13")
NEWSTEST2014 = OfficialSet("newstest2014", "wmt14/full")

TASKS = {
    "en-de": Task(
        langs=("en", "de"),
        train=("europarl-v7", "commoncrawl", "news-commentary-v9"),
        valid=(NEWSTEST2013,),
        test=NEWSTEST2014,
        symbols=32_000,
        pairs=4_508_785,
        text_bytes=1_358_000_000,
    ),
    "en-fr": Task(
        langs=("en", "fr"),
        train=("europarl-v7", "commoncrawl", "un", "news-commentary-v9", "giga-fren"),
        valid=(NEWSTEST2012, NEWSTEST2013),
        test=NEWSTEST2014,
        symbols=40_000,
        pairs=40_836_715,
        text_bytes=14_753_000_000,
    ),
}


@dataclass(frozen=True)
class Preparation:
    """The preparation of a WMT14 task."""

    task: Task
    out: Path
    subwords: Subwords
    archives: Path | None = None  # folder of the user, which must have all archives; None: they are downloaded
    sample: int | None = None  # use only this many pairs from the beginning of each training corpus; None: all

    def __post_init__(self) -> None:
        if self.archives and not self.archives.is_dir():
            raise UserError(f"--archives {self.archives}: is not a folder")

    @property
    def files(self) -> list[PublicFile]:
        training = [ARCHIVES[CORPORA[name][0]] for name in self.task.train]
        return [*training, *(official.archive for official in (*self.task.valid, self.task.test))]

    @property
    def folder(self) -> Path:
        return self.archives or self.out / "raw"

    def run(self, workers: Workers = ALONE, overwrite: bool = False) -> dict[str, Any]:
        """Get the archives and prepare their text by ``pipeline.prepare``."""
        task, langs = self.task, self.task.langs
        sets = [*task.valid, task.test]
        train = [ArchivedText(name, self.folder / CORPORA[name][0], members(name, langs)) for name in task.train]
        also = [official.step(self.out, self.folder / official.archive.name, langs) for official in sets]
        texts = [OfficialText(*official.paths(self.out, langs)) for official in sets]
        corpus = Corpus(langs, train, texts[:-1], texts[-1:], self.sample)
        recipe = CorpusRecipe(Words(dash_splits=True), self.subwords, PairFilter(max_length=250, max_ratio=1.5))
        return prepare(corpus, recipe, self.out, workers, also, overwrite, self._obtain)

    def __str__(self) -> str:
        lines = [f"archives in {self.folder}" + ("" if self.archives else ", downloaded where they are missing")]
        for file in self.files:
            size = "size unknown" if file.size is None else format_bytes(file.size)
            lines.append(f"  {file.name}  {size}, {'there' if (self.folder / file.name).exists() else 'missing'}")
            lines += [f"    {url}" for url in (file.url, *file.mirrors)]
        download, (work, free) = self._download, disk(self.out, self._text_bytes)
        too_little = ": too little" if download + work > free else ""
        raw = format_bytes(self._text_bytes)
        lines += [
            f"to download: about {format_bytes(download)}",
            f"work: about {format_bytes(work)} for {raw} of raw text, less what {self.out} has",
            f"disk: about {format_bytes(download + work)} needed, {format_bytes(free)} free{too_little}",
        ]
        return "\n".join(lines)

    @property
    def _text_bytes(self) -> int:
        share = min(1.0, self.sample * len(self.task.train) / self.task.pairs) if self.sample else 1.0
        return round(share * self.task.text_bytes)

    @property
    def _download(self) -> int:
        """Bytes that are still to be downloaded; a file of unknown size counts as 0."""
        if self.archives:
            return 0
        return sum(max(0, (file.size or 0) - file.bytes_in(self.folder)) for file in self.files)

    def _obtain(self) -> None:
        """Check the disk space, then download all archives, or check those of the user."""
        check_disk(self.out, self._text_bytes, self._download)
        for file in self.files:
            path = file.checked_in(self.archives) if self.archives else file.download_into(self.folder)
            print(f"{path}: complete", flush=True)
