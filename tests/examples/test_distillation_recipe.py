"""The recipe of distillation, from a teacher to a score, on a made-up language."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))
from fairseq_commands import prepare, start, training  # noqa: E402
from made_up_language import TRAIN  # noqa: E402


def run(script, *arguments, **variables):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **{key: str(value) for key, value in variables.items()}}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    command = ["bash", f"examples/distillation/{script}.sh", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """What examples/multi30k leaves: data, references, and a trained model, which here is the teacher."""
    folder = tmp_path_factory.mktemp("work")
    prepare(folder, "en", "de", train=("train", TRAIN, 0), valid=("val", 8, 1), test=("test_2016_flickr", 16, 2))
    options = training(folder / "data-bin", folder / "resmlp")
    done = start(folder / "log", "train", *options, "--share-all-embeddings", "--max-epoch", 5).finish()
    assert done.status == 0, done.output
    return folder


@pytest.mark.timeout(600)  # eight processes, one after another
def test_from_the_teacher_to_the_score(work):
    teacher = work / "resmlp" / "checkpoint_last.pt"
    done = run("translate", work, TEACHER=teacher, BEAM=2)
    assert done.returncode == 0, done.stderr
    assert f"data-bin.distilled: {TRAIN} pairs" in done.stdout
    assert f"data-bin.both: {2 * TRAIN} pairs" in done.stdout
    again = run("translate", work, TEACHER=teacher, BEAM=2)
    assert (again.returncode, again.stdout) == (0, "")

    for student, pairs in ("distilled", TRAIN), ("both", 2 * TRAIN):
        tiny = ("--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--cpu", "--max-epoch", 5)
        done = run("train", student, work, "--", *tiny)
        assert done.returncode == 0, done.stdout
        assert f"data-bin.{student} train en-de {pairs} examples" in done.stdout
    (work / "resmlp" / "test.lenpen1.txt").write_text((work / "distillation" / "train.txt").read_text())
    done = run("evaluate", "both", work)
    assert done.returncode == 1  # what was put there is no translation of the test set
    assert "sacreBLEU" in done.stdout
    assert "give the reference of the test set that was translated" in done.stderr
    assert (work / "distillation" / "both" / "average5.pt").exists()


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("translate", ["nowhere"], "translate.sh: no teacher nowhere/transformer/average5.pt: run"),
        ("train", ["student"], "train.sh: no student student: give distilled or both"),
        ("train", ["both", "nowhere"], "train.sh: no nowhere/distillation/data-bin.both: run"),
        ("train", ["both", "nowhere", "--lr", "1"], "train.sh: --lr where -- should stand"),
        ("evaluate", ["resmlp"], "evaluate.sh: no student resmlp: give distilled or both"),
    ],
)
def test_mistakes_are_told_in_one_line(script, arguments, message):
    done = run(script, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
