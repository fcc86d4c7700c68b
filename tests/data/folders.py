"""What a preparation leaves in a folder."""

from pathlib import Path

NOT_COMPARED = (".checksums.json", "times.json")  # they differ from run to run


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder by their names in it, but for those that differ from run to run."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in NOT_COMPARED)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
