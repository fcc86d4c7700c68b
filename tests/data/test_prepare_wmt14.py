"""The catalog, compared with sacrebleu's; the whole command on replicas of the archives, served on loopback."""

import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import sacrebleu.dataset
from data import replicas
from data.conftest import contents
from data.misbehaving_server import Fault, Server
from data.replicas import Command

from resmlp_mt.common.errors import UserError
from resmlp_mt.data import wmt14
from resmlp_mt.data.download import PARTS
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.data.wmt14 import TASKS, OfficialText, Preparation


def test_the_evaluation_sets_and_archives_are_sacrebleus() -> None:
    assert {pair: [official.key for official in task.valid] for pair, task in TASKS.items()} == {
        "en-de": ["wmt13"],
        "en-fr": ["wmt12", "wmt13"],
    }
    for pair, task in TASKS.items():
        assert task.test.key == "wmt14/full"  # 3,003 segments; "wmt14" is filtered
        for official in *task.valid, task.test:
            dataset, archive = sacrebleu.dataset.DATASETS[official.key], official.archive
            assert pair in dataset.langpairs
            assert (archive.url, archive.md5) == (dataset.data[0], dataset.md5[0])
            assert archive.name == dataset._get_tarball_filename(archive.url)


SETS = [wmt14.NEWSTEST2012, wmt14.NEWSTEST2013, wmt14.NEWSTEST2014]


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
@pytest.mark.parametrize("official", SETS, ids=lambda official: official.name)
def test_text_is_sacrebleus(tmp_path, monkeypatch, official, pair):
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


def test_entities_are_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("&lt;b&gt; &quot;R&amp;D&quot; &apos;s &amp;lt; AT&T &nbsp;\n")
    (tmp_path / "b").write_text("plain\n")
    assert list(OfficialText(tmp_path / "a", tmp_path / "b").pairs()) == [(b'<b> "R&D" \'s &lt; AT&T &nbsp;', b"plain")]


EUROPARL = "training-parallel-europarl-v7.tgz"
SMALL = ("--symbols", 60)
CORPORA = {
    "en-de": ["europarl-v7", "commoncrawl", "news-commentary-v9"],
    "en-fr": ["europarl-v7", "commoncrawl", "un", "news-commentary-v9", "giga-fren"],
}
NAMED_ALIKE = {"de": ("Minister", "Pferd", "Haus", "Bericht"), "fr": ("ministre", "cheval", "maison", "rapport")}


@pytest.fixture
def run(server: Server, tmp_path: Path):
    server.requests.clear()
    urls = replicas.serve(server)
    return lambda *arguments, kill=None: Command(tmp_path, urls, arguments, kill).run()


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_from_archives_to_data_bin(run, server, tmp_path, monkeypatch, pair):
    out, (source, target) = tmp_path / "out", pair.split("-")
    plan = run(pair, "--out", out, *SMALL, "--dry-run")
    assert (plan.status, plan.error, server.requests, out.exists()) == (0, "", [], False)
    done = run(pair, "--out", out, *SMALL)
    assert (done.status, done.error) == (0, "")
    assert f"next: bash examples/wmt14_{source}_{target}/train.sh resmlp6 {out}\n" in done.output
    assert f"fairseq-interactive {out}/data-bin --user-dir " in done.output
    assert f" --path {out}/resmlp6/checkpoint_best.pt\n" in done.output

    summary = json.loads((out / "summary.json").read_text())
    train = summary["pairs"]["train"]
    read = {row["name"]: row["read"] for row in train["sources"]}
    assert list(read) == CORPORA[pair] and read.items() <= replicas.SIZES.items()
    dropped = {row["name"]: row["dropped"] for row in train["sources"]}
    assert dropped["europarl-v7"].pop("ratio") > 0
    assert dropped["europarl-v7"] == {"empty": 2, "too long": 1}
    assert dropped["commoncrawl"]["not UTF-8"] == 1
    valid = [official.name for official in TASKS[pair].valid]
    for split, names in ("valid", valid), ("test", ["newstest2014"]):
        assert summary["pairs"][split]["kept"] == sum(replicas.SETS[name] for name in names)

    # The two sides are aligned if their lines name the same things.
    sides = [(out / f"subwords/train.{lang}").read_text().replace("@@ ", "").splitlines() for lang in (source, target)]
    assert len(sides[0]) == len(sides[1]) == train["kept"]
    for word, other in zip(("minister", "horse", "house", "report"), NAMED_ALIKE[target], strict=True):
        counts = [[f" {line.lower()} ".count(f" {name.lower()} ") for line in side]
                  for side, name in zip(sides, (word, other), strict=True)]  # fmt: skip
        assert counts[0] == counts[1] and sum(counts[0]) > 50

    # What evaluate.sh scores with
    for name in f"newstest2014.{target}", f"tokenized/test.1.{target}":
        assert (out / name).read_text().count("\n") == replicas.SETS["newstest2014"]
    assert (out / "data-bin" / f"test.{pair}.{target}.bin").is_file()

    fetched = {name for name, _, _ in server.requests}
    missing = [line.split()[0] for line in plan.output.splitlines() if line.endswith(", missing")]
    assert {replicas.PATHS.get(name, name) for name in missing} == fetched and "disk: about " in plan.output
    assert len(fetched) == len(server.requests) == len(CORPORA[pair]) + len(valid) + 1
    monkeypatch.chdir(tmp_path)
    again = run(pair, "--out", out, *SMALL)
    assert again.status == 0
    assert f"next: bash {replicas.SCRIPT.parents[1]}/examples/wmt14_{source}_{target}/train.sh resmlp6 " in again.output
    assert "tokenize train 1: nothing changed, reused" in again.output
    assert "pairs/s" not in again.output
    assert len(server.requests) == len(fetched)
    assert "to download: about 0 bytes\nwork: about " in run(pair, "--out", out, *SMALL, "--dry-run").output


# The process is killed before it gives a file a name with such an end. For later steps: test_pipeline.py.
MOMENTS = "raw/training-parallel-nc-v9.tgz", "raw/wmt13.test.tgz", "newstest2013.de"


def test_killed_while_archives_are_fetched_and_read(run, server, tmp_path):
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    assert run("en-de", "--out", unbroken, *SMALL).status == 0
    server.requests.clear()

    urls = replicas.serve(server)
    server.add(EUROPARL, server.files[EUROPARL], [Fault(drop_after=4000), Fault(seconds=0.5)])
    process = Command(tmp_path, urls, ["en-de", "--out", broken, *SMALL, "--jobs", 2]).start()
    part = broken / "raw" / PARTS / EUROPARL
    while not (part.exists() and part.stat().st_size >= 4000 and len(server.requests) == 2):
        assert process.is_alive()
        time.sleep(0.02)
    process.kill()
    process.join()
    for moment in MOMENTS:
        killed = run("en-de", "--out", broken, *SMALL, "--jobs", 2, kill=moment)
        assert killed.status == -9, (moment, killed)
    assert run("en-de", "--out", broken, *SMALL, "--jobs", 2).status == 0
    assert [status for name, _, status in server.requests if name == EUROPARL] == [200, 206, 206]

    found, expected = contents(broken), contents(unbroken)
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []


def test_archives_that_somebody_has(run, server, archives, tmp_path):
    out = tmp_path / "out"
    plan = run("en-de", "--out", out, "--archives", archives, "--dry-run")
    assert "to download: about 0 bytes" in plan.output
    assert plan.output.count(", there\n") == 5
    done = run("en-de", "--out", out, "--archives", archives, *SMALL)
    assert (done.status, done.error) == (0, "")
    assert not (out / "raw").exists()
    (archives / EUROPARL).write_bytes(replicas.archives()[EUROPARL][:-1])
    wrong = run("en-de", "--out", out, "--archives", archives, *SMALL)
    assert (wrong.status, wrong.error.count("\n")) == (1, 1) and "bytes, not" in wrong.error
    assert server.requests == []


def test_a_user_s_file_in_the_way_is_told_before_any_download(run, server, tmp_path):
    path = tmp_path / "out" / "data-bin" / "notes.txt"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    done = run("en-de", "--out", tmp_path / "out")
    assert (done.status, done.error.count("\n"), server.requests) == (1, 1, [])
    assert done.error.startswith(f"{path}: is not of an earlier preparation, and would be lost")
    assert [file for file in (tmp_path / "out").rglob("*") if file.is_file()] == [path]


def test_too_little_disk_is_said_first(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    with pytest.raises(UserError, match=r"1\.0 GB free on its disk, but about \d\.\d GB needed"):
        Preparation(TASKS["en-de"], tmp_path / "out", Subwords()).run()
    assert not (tmp_path / "out" / "raw").exists()
