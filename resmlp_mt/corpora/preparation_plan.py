"""What a preparation needs, told before it begins: files to download and disk space."""

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt.corpora.archives import unpacked
from resmlp_mt.corpora.download import PublicFile
from resmlp_mt.corpora.progress import in_bytes
from resmlp_mt.errors import UserError

# Bytes that a preparation writes, as multiples of its raw text, in the order in which it writes them. Measured on
# Multi30k, 4,000 merges: tokenized 1.02, subwords 1.12, data-bin 0.66 (less where sentences are longer); rounded up.
WORK = {"tokenized": 1.1, "subwords": 1.2, "data-bin": 0.7}


@dataclass(frozen=True)
class PreparationPlan:
    """Files to read, a folder to work in, and how much text there is.

    Attributes:
        files: all archives, each with the members that must be there where a person has it unpacked; none: it is taken
            as an archive only
        archives: folder that a person names, which must have all of them; None: they are downloaded
        out: folder of the results
        text_bytes: of the raw training text on both sides, about
        anew: folders in ``out`` whose files will be made again, with other options
        made: folders in ``out`` in which nothing is missing
        mirrors: addresses of folders that are asked for the files first
    """

    files: Mapping[PublicFile, Sequence[str]]
    archives: Path | None
    out: Path
    text_bytes: int
    anew: Collection[str] = ()
    made: Collection[str] = ()
    mirrors: Sequence[str] = ()

    def __post_init__(self) -> None:
        for mirror in self.mirrors:
            if not re.fullmatch(r"https?://[\w.\[]\S*", mirror):
                raise UserError(f"--mirror {mirror}: is no address of http or https (--archives names a folder)")
        if self.mirrors and self.archives:
            raise UserError("--mirror: nothing is downloaded with --archives: leave one of them out")
        for option, folder in (("--archives", self.archives), ("--out", self.out)):
            try:
                if folder and not folder.is_dir() and (option == "--archives" or folder.exists()):
                    raise UserError(f"{option} {folder}: is not a folder")
            except OSError as error:
                raise UserError(f"{option} {folder}: {error.strerror}") from error

    @property
    def folder(self) -> Path:
        """Where the archives are, or will be."""
        return self.archives or self.out / "raw"

    @property
    def download(self) -> int:
        """Bytes that must still come, as far as sizes are known."""
        if self.archives:
            return 0
        return sum(max(0, (file.size or 0) - file.present_in(self.folder)) for file in self.files)

    @property
    def work(self) -> int:
        """Bytes that the work will need beside what is there, at most at one time, about."""
        more = most = 0.0
        for name, share in WORK.items():
            if name in self.made:
                continue
            new = share * self.text_bytes
            old = sum(path.stat().st_size for path in (self.out / name).glob("*") if path.is_file())
            # An old file goes when the new one that takes its place is complete.
            most = max(most, more + (new if name in self.anew else new - old))
            more += new - old if name in self.anew else max(0, new - old)
        return round(most)

    @property
    def free(self) -> int:
        """Bytes free on the disk of the results."""
        existing = next(path for path in (self.out.absolute(), *self.out.absolute().parents) if path.exists())
        return shutil.disk_usage(existing).free

    def obtained(self) -> dict[str, Path]:
        """All archives by their names: downloaded, or taken from the folder that a person names, and checked.

        Where the person has one of them unpacked, it is that folder, and unchecked.

        Raises:
            UserError: too little disk is free, or an archive cannot be had or is another
        """
        if self.download + self.work > self.free:
            raise UserError(
                f"{self.out}: {in_bytes(self.free)} free on its disk, but about {in_bytes(self.download + self.work)} "
                f"needed ({in_bytes(self.download)} of downloads, {in_bytes(self.work)} of work): make room, choose "
                "another folder, or try a small --sample"
            )
        paths = {}
        silent: set[str] = set()
        for file in self.files:
            if not self.archives:
                path = file.fetched_into(self.folder, self.mirrors, silent=silent)
            elif archive := self._given(file):
                path = archive.taken_from(self.archives)
            else:
                path = self.archives
                print(f"{path}: has {file.name} unpacked, which is taken as it is: nothing tells its sums", flush=True)
            paths[file.name] = path
            if path.is_file():
                print(f"{path}: complete", flush=True)
        return paths

    def __str__(self) -> str:
        unknown = sum(file.size is None for file in self.files) if not self.archives else 0
        lines = [f"archives in {self.folder}" + ("" if self.archives else ", downloaded where they are missing")]
        for file in self.files:
            size = "size unknown" if file.size is None else in_bytes(file.size)
            lines.append(f"  {file.name}  {size}, {self._there(file)}")
            lines += [f"    {url}" for url in file.addresses(self.mirrors)]
            if self.archives and file.zipped:
                lines.append(f"    or {file.zipped.url}")
        anew = f"; {', '.join(self.anew)} anew, beside the old" if self.anew else ""
        lines += [
            f"to download: {in_bytes(self.download)}" + (f" and {unknown} of unknown size" if unknown else ""),
            f"work: about {in_bytes(self.work)} ({sum(WORK.values()):.1f} times {in_bytes(self.text_bytes)} of raw "
            f"text, less what {self.out} has{anew})",
            f"disk: about {in_bytes(self.download + self.work)} needed, {in_bytes(self.free)} free",
        ]
        return "\n".join(lines)

    def _given(self, file: PublicFile) -> PublicFile | None:
        """What a person's folder has of a file: itself, or its zip; None if it has all members unpacked."""
        for archive in (file, file.zipped):
            if archive and (self.folder / archive.name).exists():
                return archive
        members = self.files[file]
        return None if members and all(unpacked(self.folder, member) for member in members) else file

    def _there(self, file: PublicFile) -> str:
        archive = self._given(file) if self.archives else file
        if archive is None:
            return "there, unpacked"
        path = self.folder / archive.name
        if path.is_file():
            wrong = archive.wrong_size(path)
            there = "there" if archive is file else f"there as {archive.name}"
            again = "get it again" if self.archives else "will be downloaded"
            return f"{wrong}: {again}" if wrong else there
        present = 0 if self.archives else archive.present_in(self.folder)
        return f"{in_bytes(present)} there" if present else "missing"
