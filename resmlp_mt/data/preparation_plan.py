"""What a preparation needs, told before it begins: files to download and disk space."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.archives import files_of, unpacked
from resmlp_mt.data.disk import DiskWork
from resmlp_mt.data.download import PublicFile
from resmlp_mt.data.progress import in_bytes


@dataclass(frozen=True)
class PreparationPlan:
    """Files to read, and the work to do with them.

    Attributes:
        files: all archives, each with the members that must be there where a person has it unpacked; none: it is taken
            as an archive only
        archives: folder that a person names, which must have all of them; None: they are downloaded
        work: what is written
        mirrors: addresses of folders that are asked for the files first
    """

    files: Mapping[PublicFile, Sequence[str]]
    archives: Path | None
    work: DiskWork
    mirrors: Sequence[str] = ()

    def __post_init__(self) -> None:
        for mirror in self.mirrors:
            if not re.fullmatch(r"https?://[\w.\[]\S*", mirror):
                raise UserError(f"--mirror {mirror}: is no address of http or https (--archives names a folder)")
        if self.mirrors and self.archives:
            raise UserError("--mirror: nothing is downloaded with --archives: leave one of them out")
        for option, folder in (("--archives", self.archives), ("--out", self.work.out)):
            try:
                if folder and not folder.is_dir() and (option == "--archives" or folder.exists()):
                    raise UserError(f"{option} {folder}: is not a folder")
            except OSError as error:
                raise UserError(f"{option} {folder}: {error.strerror}") from error

    @property
    def folder(self) -> Path:
        """Where the archives are, or will be."""
        return self.archives or self.work.out / "raw"

    @property
    def download(self) -> int:
        """Bytes that must still come, as far as sizes are known."""
        if self.archives:
            return 0
        return sum(max(0, (file.size or 0) - file.present_in(self.folder)) for file in self.files)

    @property
    def inputs(self) -> list[Path]:
        """The files that will be read: archives, or what a person has in their place."""
        found = []
        for file, members in self.files.items():
            archive = self._given(file)
            found += [self.folder / archive.name] if archive else files_of(self.folder, members)
        return found

    def obtained(self) -> dict[str, Path]:
        """All archives by their names: downloaded, or taken from the folder that a person names, and checked.

        Where the person has one of them unpacked, it is that folder, and unchecked.

        Raises:
            UserError: too little disk is free, or an archive cannot be had or is another
        """
        self.work.check(self.download)
        paths = {}
        silent: set[str] = set()
        for file in self.files:
            archive = self._given(file)
            if not self.archives:
                path = file.fetched_into(self.folder, self.mirrors, silent=silent)
            elif archive:
                path = archive.taken_from(self.archives)
            else:
                path = self.archives
                print(f"{path}: has {file.name} unpacked, which is taken as it is: nothing tells its sums", flush=True)
            paths[file.name] = path
            if path.is_file():
                print(f"{path}: complete", flush=True)
        return paths

    def __str__(self) -> str:
        coming = [] if self.archives else [file for file in self.files if not (self.folder / file.name).is_file()]
        unknown = sum(file.size is None for file in coming)
        lines = [f"archives in {self.folder}" + ("" if self.archives else ", downloaded where they are missing")]
        for file in self.files:
            size = "size unknown" if file.size is None else in_bytes(file.size)
            lines.append(f"  {file.name}  {size}, {self._there(file)}")
            lines += [f"    {url}" for url in file.addresses(self.mirrors)]
            if self.archives and file.zipped:
                lines.append(f"    or {file.zipped.url}")
        needed, free = self.download + self.work.needed, self.work.free
        lines += [
            f"to download: {in_bytes(self.download)}" + (f" and {unknown} of unknown size" if unknown else ""),
            str(self.work),
            f"disk: about {in_bytes(needed)} needed, {in_bytes(free)} free" + (": too little" if needed > free else ""),
        ]
        return "\n".join(lines)

    def _given(self, file: PublicFile) -> PublicFile | None:
        """What is read for a file: itself, or of a person's folder its zip; None if that has all members unpacked."""
        if not self.archives:
            return file
        for archive in (file, file.zipped):
            if archive and (self.folder / archive.name).exists():
                return archive
        members = self.files[file]
        return None if members and all(unpacked(self.folder, member) for member in members) else file

    def _there(self, file: PublicFile) -> str:
        archive = self._given(file)
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
