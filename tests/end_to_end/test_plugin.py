"""The package as ``--user-dir``: in a bare fairseq environment, and light."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from fairseq import options, tasks
from fairseq_commands import ROOT, USER_DIR, training
from made_up_language import VALID

from resmlp_mt.fairseq_plugin.options import PRESETS


def test_a_copy_elsewhere_is_what_user_dir_imports(fairseq, data_bin, tmp_path):
    copy = tmp_path / "plugins" / "resmlp_mt"
    shutil.copytree(USER_DIR, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "__init__.py").open("a") as stream:
        stream.write('print("imported from the copy")\n')
    train = training(data_bin, "checkpoints")
    train[train.index(USER_DIR)] = copy
    generate = [data_bin, "--user-dir", copy, "--path", "checkpoints/checkpoint_last.pt", "--gen-subset", "valid"]
    for command, *arguments in ["train", *train, "--max-update", 2], ["generate", *generate, "--cpu", "--beam", 2]:
        done = fairseq(command, *arguments, cwd=tmp_path)
        assert done.status == 0, done.output
        assert "imported from the copy" in done.output
    assert len(done.lines("H")) == VALID


def test_importing_the_plugin_imports_nothing_beyond_fairseq():
    program = """
import json, sys
import fairseq.models.transformer, fairseq.tasks.translation, fairseq.trainer
before = set(sys.modules)
import resmlp_mt
print("\\n" + json.dumps(sorted({name.split(".")[0] for name in set(sys.modules) - before})))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    added = json.loads(done.stdout.strip().split("\n")[-1])
    assert "resmlp_mt" in added
    assert set(added) - set(sys.stdlib_module_names) == {"resmlp_mt"}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_gradient_reaches_every_parameter_of_every_preset(data_bin, tmp_path, preset):
    arguments = [str(argument) for argument in training(data_bin, tmp_path)]
    arguments[arguments.index("resmlp_transformer_tiny")] = preset
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    task = tasks.setup_task(args)
    task.load_dataset("valid")
    model = task.build_model(args)
    dataset = task.dataset("valid")
    sample = dataset.collater([dataset[number] for number in range(2)])
    loss, _, _ = task.build_criterion(args)(model, sample)
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if "mixing.weight" in name:
            assert parameter.grad.count_nonzero() > 0, name
