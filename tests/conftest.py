"""Settings for all tests."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # oracle.py, builders.py and others
from forked import Commands

ROOT = Path(__file__).resolve().parents[1]
# Background jobs of a shell, and their children, ignore SIGINT: undo that.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)  # so that trainings of different tests end with the same weights
torch.set_default_device(os.environ.get("RESMLP_TEST_DEVICE"))  # "cuda": the promises on a GPU (CONTRIBUTING)
os.environ["OMP_NUM_THREADS"] = "1"  # like set_num_threads, for commands that tests start
os.fsync = os.fstat  # tests kill processes but never cut the power: do not wait for the disk
hypothesis.settings.register_profile("unhurried", deadline=None)  # slow examples on a busy machine are no failure
hypothesis.settings.load_profile("unhurried")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their length: compressed bytes hold the time, but every worker needs the same names."""
    return f"{argname}-{len(val)}" if isinstance(val, bytes) else None


def fill_unfilled(self: pytest.ExceptionInfo, raised: tuple, fill=pytest.ExceptionInfo.fill_unfilled) -> None:
    """Check, wherever ``pytest.raises`` catches a ``UserError``, that its message is one line."""
    from resmlp_mt.common.errors import UserError

    assert not isinstance(raised[1], UserError) or "\n" not in str(raised[1]), raised[1]
    fill(self, raised)


pytest.ExceptionInfo.fill_unfilled = fill_unfilled


FIRST = (
    *("test_compiled.py", "test_compiled_int8.py", "test_workers.py"),
    *("end_to_end", "data", "fairseq_plugin", "ablations", "examples"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files and folders first, so that at the end no process has a long one left (test.sh)."""
    items.sort(key=lambda item: item.path.name, reverse=True)  # else two that need the trained model start together
    order = {name: number for number, name in enumerate(FIRST)}
    for item in items:
        if "benchmarks" in item.path.parts:  # fairseq's old code causes many warnings
            item.add_marker(pytest.mark.filterwarnings("ignore"))
    items.sort(key=lambda item: min(order.get(name, len(FIRST)) for name in item.path.parts[-2:]))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A model's folder, for tests that do not change it."""
    from translate.small_folder import make

    return make(tmp_path_factory.mktemp("model") / "folder")


@pytest.fixture(scope="module")
def translator(folder):
    from resmlp_mt import Translator

    return Translator(folder)


@pytest.fixture(scope="session")
def commands_on_path(tmp_path_factory):
    """A function that returns the environment of shell scripts, with commands that skip imports (``Commands``)."""
    commands = Commands(tmp_path_factory.mktemp("commands"))
    yield commands.environment
    commands.close()


@pytest.fixture(scope="session")
def run_script(commands_on_path):
    """A function that runs ``bash examples/SCRIPT.sh ARGUMENTS`` with these environment variables, to this status."""

    def run(script, *arguments, status=0, **variables):
        command = ["bash", ROOT / f"examples/{script}.sh", *map(str, arguments)]
        done = subprocess.run(command, env=commands_on_path(**variables), capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run
