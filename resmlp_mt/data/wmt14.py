"""WMT14 from its public archives: what must be downloaded, what it takes, and how it is prepared."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.progress import in_bytes
from resmlp_mt.common.workers import ALONE, Workers
from resmlp_mt.data.archives import ArchivedText, unpacked
from resmlp_mt.data.catalog import ARCHIVES, Task
from resmlp_mt.data.disk import check_disk, disk_free, disk_needed
from resmlp_mt.data.download import PublicFile
from resmlp_mt.data.filtering import PairFilter
from resmlp_mt.data.official_sets import OfficialText
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, prepare
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words


@dataclass(frozen=True)
class Preparation:
    """A task of WMT14 to be prepared.

    Attributes:
        task: which
        out: folder of the results
        subwords: their kind
        archives: folder that a person names, which must have all archives; None: they are downloaded
        mirrors: addresses of folders that are asked for them first
        sample: of each training corpus, only so many pairs from its beginning; None: all
    """

    task: Task
    out: Path
    subwords: Subwords
    archives: Path | None = None
    mirrors: Sequence[str] = ()
    sample: int | None = None

    def __post_init__(self) -> None:
        for mirror in self.mirrors:
            if not re.fullmatch(r"https?://[\w.\[]\S*", mirror):
                raise UserError(f"--mirror {mirror}: is no address of http or https (--archives names a folder)")
        if self.mirrors and self.archives:
            raise UserError("--mirror: nothing is downloaded with --archives: leave one of them out")
        if self.archives and not self.archives.is_dir():
            raise UserError(f"--archives {self.archives}: is not a folder")

    @property
    def files(self) -> dict[PublicFile, Sequence[str]]:
        """All archives, each with the members that a person may have unpacked in its place."""
        training = {ARCHIVES[bitext.archive]: bitext.members_for(self.task.langs) for bitext in self.task.train}
        return {**training, **{official.archive: () for official in (*self.task.valid, self.task.test)}}

    def run(self, workers: Workers = ALONE, overwrite: bool = False) -> dict[str, Any]:
        """Obtain the archives and prepare them: ``pipeline.prepare``."""
        task, langs = self.task, self.task.langs
        sets = [*task.valid, task.test]
        paths = {file.name: self._place(file) for file in self.files}
        train = [ArchivedText(each.name, paths[each.archive], each.members_for(langs)) for each in task.train]
        also = [official.step(self.out, paths[official.archive.name], langs) for official in sets]
        texts = [OfficialText(*official.paths(self.out, langs)) for official in sets]
        corpus = Corpus(langs, train, texts[:-1], texts[-1:], self.sample)
        recipe = CorpusRecipe(
            Words("moses", dash_splits=True), self.subwords, PairFilter(max_length=250, max_ratio=1.5)
        )
        return prepare(corpus, recipe, self.out, workers, also, overwrite, self._obtain)

    def __str__(self) -> str:
        folder = self.archives or self.out / "raw"
        lines = [f"archives in {folder}" + ("" if self.archives else ", downloaded where they are missing")]
        for file in self.files:
            size = "size unknown" if file.size is None else in_bytes(file.size)
            path = self._place(file)
            lines.append(f"  {file.name}  {size}, {f'there as {path}' if path.exists() else 'missing'}")
            lines += [f"    {url}" for url in file.addresses(self.mirrors)]
            if self.archives and file.zipped:
                lines.append(f"    or {file.zipped.url}")
        download, work, free = self._download, disk_needed(self.out, self._text_bytes), disk_free(self.out)
        lines += [
            f"to download: about {in_bytes(download)}",
            f"work: about {in_bytes(work)} for {in_bytes(self._text_bytes)} of raw text, less what {self.out} has",
            f"disk: about {in_bytes(download + work)} needed, {in_bytes(free)} free"
            + (": too little" if download + work > free else ""),
        ]
        return "\n".join(lines)

    @property
    def _text_bytes(self) -> int:
        share = min(1.0, self.sample * len(self.task.train) / self.task.pairs) if self.sample else 1.0
        return round(share * self.task.text_bytes)

    @property
    def _download(self) -> int:
        """Bytes that must still come, as far as sizes are known."""
        if self.archives:
            return 0
        return sum(max(0, (file.size or 0) - file.present_in(self.out / "raw")) for file in self.files)

    def _place(self, file: PublicFile) -> Path:
        """What is read for a file: itself, or in a person's folder its zip, or that folder where it is unpacked."""
        if not self.archives:
            return self.out / "raw" / file.name
        for archive in (file, file.zipped):
            if archive and (self.archives / archive.name).exists():
                return self.archives / archive.name
        members = self.files[file]
        is_unpacked = members and all(unpacked(self.archives, member) for member in members)
        return self.archives if is_unpacked else self.archives / file.name

    def _obtain(self) -> None:
        """Download all archives, or check those that a person has."""
        check_disk(self.out, self._text_bytes, self._download)
        for file in self.files:
            path = self._place(file)
            if not self.archives:
                file.fetched_into(path.parent, self.mirrors)
            elif path == self.archives:
                print(f"{path}: has {file.name} unpacked, which is taken as it is: nothing tells its sums", flush=True)
                continue
            else:
                given = file.zipped if file.zipped and path.name == file.zipped.name else file
                given.taken_from(self.archives)
            print(f"{path}: complete", flush=True)
