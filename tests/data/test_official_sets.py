"""Official text, beside what sacrebleu itself makes of the same archives."""

import shutil
from pathlib import Path

import pytest
import sacrebleu.dataset
from data import replicas

from resmlp_mt.common.errors import UserError
from resmlp_mt.data import wmt14
from resmlp_mt.data.wmt14 import OfficialText

SETS = [wmt14.NEWSTEST2012, wmt14.NEWSTEST2013, wmt14.NEWSTEST2014]


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
@pytest.mark.parametrize("official", SETS, ids=lambda official: official.name)
def test_text_is_sacrebleus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, official, pair: str) -> None:
    name = official.archive.name
    (tmp_path / name).write_bytes(replicas.archives()[name])
    dataset = sacrebleu.dataset.DATASETS[official.key]
    monkeypatch.setattr(dataset, "_rawdir", str(tmp_path / "raw"))
    monkeypatch.setattr(dataset, "_outdir", str(tmp_path))
    monkeypatch.setattr(dataset, "maybe_download", lambda: shutil.unpack_archive(tmp_path / name, tmp_path / "raw"))
    theirs = dataset.get_files(pair)[:2]
    step, work = official.step(tmp_path / "ours", tmp_path / name, tuple(pair.split("-")))
    work()
    ours = step.outputs
    assert [path.name for path in ours] == [f"{official.name}.{lang}" for lang in pair.split("-")]
    assert [path.read_bytes() for path in ours] == [Path(path).read_bytes() for path in theirs]

    sentences = replicas.sentences(official.name, replicas.SETS[official.name])
    for side, lang in enumerate(pair.split("-")):
        running = [lines[side].decode() for lines in OfficialText(*ours).pairs()]
        assert running == [
            sentence[lang] + (" <b> Q&A" if number in (1, 2) else "") for number, sentence in enumerate(sentences)
        ]
        assert "&amp;" in ours[side].read_text()


def test_the_archives_are_sacrebleus() -> None:
    for official in SETS:
        dataset = sacrebleu.dataset.DATASETS[official.key]
        archive = official.archive
        assert (archive.url, archive.md5) == (dataset.data[0], dataset.md5[0])
        assert archive.name == dataset._get_tarball_filename(archive.url)


def test_an_archive_without_the_set(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_bytes(replicas.tar({"a": b""}))
    with pytest.raises(UserError, match=r"x\.tgz: has no test/newstest2013-src\.en\.sgm"):
        wmt14.NEWSTEST2013.step(tmp_path / "out", tmp_path / "x.tgz", ("en", "de"))[1]()
    assert list((tmp_path / "out").iterdir()) == []


def test_entities_are_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("&lt;b&gt; &quot;R&amp;D&quot; &apos;s &amp;lt; AT&T &nbsp;\n")
    (tmp_path / "b").write_text("plain\n")
    assert list(OfficialText(tmp_path / "a", tmp_path / "b").pairs()) == [(b'<b> "R&D" \'s &lt; AT&T &nbsp;', b"plain")]
