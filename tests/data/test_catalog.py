"""The catalog names what it should, in the way that it should."""

import io
import re
import tarfile

import pytest
import sacrebleu.dataset
from data import replicas

from resmlp_mt.data.wmt14 import ARCHIVES, TASKS


def test_every_archive_is_known_by_its_bytes() -> None:
    for name, file in ARCHIVES.items():
        assert file.name == name
        assert re.fullmatch(r"https://[a-z.]+/\S+", file.url)
        assert re.fullmatch("[0-9a-f]{64}", file.sha256 or "") or re.fullmatch("[0-9a-f]{32}", file.md5 or "")
    assert sum(file.size or 0 for file in ARCHIVES.values()) == 6_617_099_128


def test_members_are_in_the_replicas() -> None:
    """The replicas' names are written down a second time, from the same public sources."""
    files = replicas.archives()
    assert {official.archive.name for task in TASKS.values() for official in (*task.valid, task.test)} < set(files)
    assert set(ARCHIVES) < set(files)
    for pair, task in TASKS.items():
        assert "-".join(task.langs) == pair
        wanted = [(bitext.archive, bitext.members.format(lang=lang)) for bitext in task.train for lang in task.langs]
        assert [member for archive, member in wanted if member not in _names(files[archive])] == []


def _names(archive: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return set(tar.getnames())


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_the_evaluation_sets(pair: str) -> None:
    task = TASKS[pair]
    assert [official.key for official in task.valid] == {"en-de": ["wmt13"], "en-fr": ["wmt12", "wmt13"]}[pair]
    assert task.test.key == "wmt14/full"  # 3,003 segments; "wmt14" is filtered
    assert pair in sacrebleu.dataset.DATASETS[task.test.key].langpairs
