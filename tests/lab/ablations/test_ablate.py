"""The command, from data to table: killed and run again; its figures compared with those of other commands."""

import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from contextlib import redirect_stdout

import pytest
import torch
from fairseq_commands import USER_DIR, become_command, run
from forked import fork

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from resmlp_mt.lab.ablations.recipe import read_recipe
from scripts import in_process, printed

EPOCHS = 8


def epochs(row):
    """Return how many epochs a row has trained, by its checkpoints (old ones are deleted as new ones come)."""
    return max((int(path.stem.removeprefix("checkpoint")) for path in row.glob("checkpoint[0-9]*.pt")), default=0)


def run_forked(command, output, log, held, stop, tell=lambda seconds: None):
    """Do what ``queue.run`` does, without fairseq's imports, which take most of the time of a small training."""
    module, *arguments = command
    done = run(log.with_suffix(".part"), module.removeprefix("fairseq_cli."), *arguments).succeeded()
    with open(output, "a") as file:
        file.write(done.output)
    tell(2.5)


def run_killed(command, output, log, held, stop, tell):
    """Train like ``run_forked``, but kill the training in its third epoch, and this process with it."""
    training = os.fork()
    if training == 0:
        become_command("train", list(map(str, command[1:])), log, kill=("update", 12))
    os.waitpid(training, 0)
    tell(1.5)
    os.kill(os.getpid(), signal.SIGKILL)


def ablate_killed(*arguments):
    """Run ``resmlp-mt ablate``, which is killed with its first training; to be called in a forked process."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("resmlp_mt.lab.trainings.queue.run", run_killed)
        monkeypatch.setattr("resmlp_mt.lab.machine.processor", lambda: "another")
        in_process("ablate", monkeypatch)(*arguments)


@pytest.fixture(scope="module")
def finished(work, write_recipe, tmp_path_factory):
    """Recipe, folder and output of a table whose run was killed in a training, and run again with one more row."""
    folder = tmp_path_factory.mktemp("table")
    recipe, out = write_recipe(folder / "recipe.yaml", max_epoch=EPOCHS), folder / "out"
    arguments = (recipe, "--work", work, "--out", out, "--jobs", 2)
    first = fork(ablate_killed, *arguments, "--rows", "paper")
    first.join()
    assert first.exitcode == -signal.SIGKILL
    assert epochs(out / "paper") == 2 and not (out / "paper" / "test.txt").exists()
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as monkeypatch, redirect_stdout(output):
        monkeypatch.setattr("resmlp_mt.lab.trainings.queue.run", run_forked)
        in_process("ablate", monkeypatch)(*arguments, "--rows", "paper", "relu")
    return recipe, out, output.getvalue()


def test_a_killed_run_goes_on_to_the_weights_of_an_unbroken_training(finished, work, tmp_path):
    recipe, out, *_ = finished
    log = (out / "paper" / "train.log").read_text()
    assert re.search(r"Loaded checkpoint .*checkpoint_last\.pt \(epoch \d+ @ \d+ updates\)", log)
    options = read_recipe(recipe).training_options("paper", 1)
    data = work / "data-bin", "--user-dir", USER_DIR
    run(tmp_path / "log", "train", *data, "--save-dir", tmp_path / "run", *options).succeeded()
    found, expected = (load_checkpoint(at / "checkpoint_last.pt")["model"] for at in (out / "paper", tmp_path / "run"))
    assert found.keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.items())


def test_the_figures_are_those_of_other_commands(finished, work, tmp_path, monkeypatch, capsys):
    _, out, printed_by_run = finished
    assert "paper: finished" in printed_by_run and "relu: finished" in printed_by_run
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in ("table.png", "training.png"))
    assert "| relu | `--activation-fn relu` |\n" in (out / "table.md").read_text()
    figures = {row["name"]: row for row in json.loads((out / "table.json").read_text())["figures"]}
    places = {name: row["trained"]["processor"] for name, row in figures.items()}
    assert places["paper"] == f"another; {places['relu']}"
    resumed, told = "updates that were done twice: paper (2 runs).", (out / "table.md").read_text()
    assert resumed in told and f"processor {places['paper']}, " in told and resumed in printed_by_run
    score = printed("score", monkeypatch, capsys)
    for name, row in figures.items():
        folder = out / name
        generated = ("--reference", work / "test.en", "--target-lang", "en", "--json")
        expected = json.loads(score(folder / "test.txt", "--baseline", out / "paper" / "test.txt", *generated))
        for metric in "sacrebleu", "chrf2":
            assert row["scores"][metric] == expected["scores"][metric]
            if name != "paper":
                assert row["bootstrap"][metric] == expected["paired_bootstrap"][metric]
        assert row["scores"]["chrf2"]["score"] > 10  # something was learned

        checkpoint = load_checkpoint(folder / "checkpoint_last.pt")
        seen = {tensor.data_ptr(): tensor.numel() for tensor in checkpoint["model"].values() if tensor.numel() > 1}
        assert row["training"]["parameters"] == sum(seen.values())
        done = run(
            tmp_path / f"{name}.log", "validate", work / "data-bin", "--user-dir", USER_DIR, "--cpu",
            "--path", folder / "checkpoint_last.pt", "--task", "translation", "--log-format", "simple",
            "--batch-size", 7, "--required-batch-size-multiple", 1,
        ).succeeded()  # fmt: skip
        perplexity = float(re.findall(r"\| ppl (\S+)", done.output)[-1])
        assert row["training"]["perplexity"] == pytest.approx(perplexity, abs=0.011)

        log = (folder / "train.log").read_text()
        speeds = re.findall(r'train_inner \| .*"wps": "(\S+)".*"num_updates": "(\d+)"', log)
        by_update = {update: float(speed) for speed, update in speeds}
        assert row["training"]["words_per_second"] == statistics.median(by_update.values())
        assert row["runs"] == ([2.5] if name == "relu" else [1.5, 2.5]) and row["processor_seconds"] == sum(row["runs"])
    assert figures["paper"]["bootstrap"] is None


def test_told_to_end_it_ends_its_trainings(work, write_recipe, tmp_path, monkeypatch):
    (tmp_path / "fairseq_cli").mkdir()  # found before fairseq's own: a training that does not end
    (tmp_path / "fairseq_cli" / "train.py").write_text(
        "import pathlib, sys, time\n"
        "pathlib.Path(sys.argv[sys.argv.index('--save-dir') + 1], 'checkpoint1.pt').touch()\n"
        "time.sleep(600)\n"
    )
    (tmp_path / "fairseq_cli" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    recipe = write_recipe(tmp_path / "recipe.yaml")
    process = subprocess.Popen(
        [sys.executable, "-m", "resmlp_mt.cli", "ablate", recipe, "--work", work, "--out", tmp_path / "out"],
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not epochs(tmp_path / "out" / "paper"):  # at most until pytest's timeout
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.terminate()
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # no process of its group is left


@pytest.mark.parametrize(
    ("languages", "arguments", "message"),
    [
        ("de-en", ["--rows", "nobody"], "nobody: no such row; there are: paper, relu, broken"),
        # scoring needs it; this is checked before the training
        ("de-ja", [], "sacreBLEU for ja needs MeCab and its dictionary: pip install 'sacrebleu[ja]'"),
        *(("de-en", [f"--out={name}"], f"{name}: fairseq misreads names") for name in ("o:x", "-o", "${o}")),
    ],
)
def test_mistakes_are_told_in_one_line(work, write_recipe, monkeypatch, tmp_path, languages, arguments, message):
    recipe = write_recipe(tmp_path / "recipe.yaml")
    recipe.write_text(recipe.read_text().replace("de-en", languages))
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(UserError, match=re.escape(message)):
        in_process("ablate", monkeypatch)(recipe, "--work", work, "--out", tmp_path / "out", *arguments)
    assert not (tmp_path / "out").exists()
