"""The recipes of Multi30k and of distillation, from a teacher to a score, on a made-up language."""

import subprocess

import pytest
from fairseq_commands import TRAIN, prepare

from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from resmlp_mt.lab.ablations.recipe import read_recipe
from scripts import ROOT, options_of, stub

TINY = (
    "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--cpu", "--max-epoch", 5,
    "--max-source-positions", 12, "--max-target-positions", 12,  # an untrained model goes on up to this limit
)  # fmt: skip


@pytest.fixture(scope="module")
def work(run_script, tmp_path_factory):
    """A folder as examples/multi30k leaves it: data, references, and a trained model, the teacher here."""
    folder = tmp_path_factory.mktemp("work")
    prepare(folder, "en", "de", train=("train", TRAIN, 0), valid=("val", 8, 1), test=("test_2016_flickr", 16, 2))
    run_script("multi30k/train", "resmlp", folder, "--", *TINY)
    return folder


def test_from_the_teacher_to_the_score(run_script, work):
    teacher = work / "resmlp" / "checkpoint_last.pt"
    done = run_script("distillation/translate", work, TEACHER=teacher, BEAM=2)
    assert f"data-bin.distilled: {TRAIN} pairs" in done.stdout
    assert f"data-bin.both: {2 * TRAIN} pairs" in done.stdout
    assert run_script("distillation/translate", work, TEACHER=teacher, BEAM=2).stdout == ""

    students = {"distilled": TRAIN, "both": 2 * TRAIN, "shallow": TRAIN, "shallow-transformer": TRAIN}
    for student, pairs in students.items():
        done = run_script("distillation/train", student, work, "--", *TINY)
        assert f"data-bin.{'both' if student == 'both' else 'distilled'} train en-de {pairs} examples" in done.stdout
    for student, attends in {"shallow": False, "shallow-transformer": True}.items():
        weights = load_checkpoint(work / "distillation" / student / "checkpoint_last.pt")["model"]
        layers = {name.split(".layers.")[0] + name.split(".")[2] for name in weights if ".layers." in name}
        assert sorted(layers) == ["decoder0", *(f"encoder{number}" for number in range(6))]
        assert any("self_attn" in name for name in weights) is attends
    (work / "resmlp" / "test.lenpen1.txt").write_text((work / "distillation" / "train.txt").read_text())
    # the file written above is no translation of the test set
    done = run_script("distillation/evaluate", "both", work, status=1)
    assert "sacreBLEU" in done.stdout
    assert "give the reference of the test set that was translated" in done.stderr
    assert (work / "distillation" / "both" / "average5.pt").exists()


def test_the_gated_model_is_trained_as_in_its_comparison(commands_on_path, work, tmp_path):
    stub(tmp_path / "fairseq-train", "printf '%s\\n' \"$@\"")
    env = commands_on_path()
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    command = ["bash", "examples/multi30k/train.sh", "gated", str(work)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    given = options_of(done.stdout.splitlines())
    wanted = options_of(read_recipe(ROOT / "examples/ablations/budget-2.yaml").training_options("gated", 1))
    # the script does not choose the library, keeps more checkpoints, and writes its log for people
    for other in "--cpu-matmul", "--keep-last-epochs", "--log-format", "--log-interval":
        del wanted[other]
    assert {name: given.get(name) for name in wanted} == wanted
