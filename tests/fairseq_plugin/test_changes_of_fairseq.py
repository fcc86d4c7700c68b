"""The plugin replaces the names in fairseq that its table lists, no others, and changes no other model's training."""

import json

import torch

from resmlp_mt.fairseq_plugin import CHANGES
from scripts import ROOT, new_process

CHANGED = """
import inspect, json, sys
import fairseq_cli.train, fairseq_cli.generate, fairseq_cli.interactive, fairseq_cli.validate, fairseq_cli.preprocess
from fairseq import tasks

def names():
    modules = [sys.modules[name] for name in sorted(sys.modules) if name.split(".")[0] in ("fairseq", "fairseq_cli")]
    for module in modules:
        for name, value in list(vars(module).items()):
            yield f"{module.__name__}.{name}", value
            if inspect.isclass(value) and value.__module__ == module.__name__:
                for attribute, each in vars(value).items():
                    yield f"{module.__name__}.{name}.{attribute}", each
    for name, value in tasks.TASK_REGISTRY.items():
        yield f"fairseq.tasks.TASK_REGISTRY[{name}]", value

before, modules = dict(names()), set(sys.modules)
import resmlp_mt
new = tuple(f"{name}." for name in set(sys.modules) - modules)  # what importing them defines is no change, but for eval
changed = [name for name, value in names() if before.get(name) is not value]
changed = [name for name in changed if not name.startswith(new) or name.endswith(".eval")]
print(json.dumps(sorted(changed)))
"""


def test_no_other_name_of_fairseq_is_replaced():
    assert json.loads(new_process("-c", CHANGED).splitlines()[-1]) == sorted(CHANGES)


SPAWNED = """
import runpy, sys, types
main = types.ModuleType("__mp_main__")  # as multiprocessing makes it in a process that it starts
vars(main).update(runpy.run_module("fairseq_cli.train", run_name="__mp_main__", alter_sys=True))
sys.modules["__main__"] = sys.modules["__mp_main__"] = main
import resmlp_mt.fairseq_plugin
assert main.main.__globals__["Trainer"] is resmlp_mt.fairseq_plugin.Trainer
"""


def test_a_training_in_a_process_of_its_own_has_the_trainer_too():
    new_process("-c", SPAWNED)


def test_fairseq_s_own_transformer_trains_as_without_the_plugin(small, tmp_path):
    """The losses of all updates are the same, and the weights at the end, too."""
    losses, states = [], []
    for name, plugin in ("without", ()), ("with", ("--user-dir", ROOT / "resmlp_mt")):
        printed = new_process(
            "-m", "fairseq_cli.train", small / "bin", "--save-dir", tmp_path / name, "--arch", "transformer_tiny",
            "--optimizer", "adam", "--lr", 0.01, "--clip-norm", 1, "--batch-size", 4, "--max-update", 10, "--cpu",
            "--num-workers", 0, "--log-format", "json", "--log-interval", 1, "--no-epoch-checkpoints", *plugin,
        )  # fmt: skip
        logged = [json.loads(line.split(" | ")[-1]) for line in printed.splitlines() if '"loss"' in line]
        losses.append([each["loss"] for each in logged if "loss" in each])
        states.append(torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=False))
    assert len(losses[0]) >= 10 and losses[0] == losses[1]
    torch.testing.assert_close(states[0]["model"], states[1]["model"], rtol=0, atol=0)
    assert states[0]["optimizer_history"] == states[1]["optimizer_history"]
