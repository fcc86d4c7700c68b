"""The machine and the software of a measurement."""

import contextlib
import datetime
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from resmlp_mt.common.workers import cores, cpuinfo


def version_of(*packages: str) -> str:
    """The version of the first of these packages that is installed, or ``none``."""
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return "none"


def processor() -> str:
    return cpuinfo("model name").partition(": ")[2] or platform.machine()


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def commit(checkout: Path = Path(__file__).parents[2]) -> str:
    """Return the commit of a checkout, by default of this one; ``unknown`` without a checkout or without git."""
    command = ["git", "--git-dir=.git", "describe", "--always", "--dirty"]  # not of a repository that is around it
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def made_by(command: str) -> dict[str, str]:
    """Return how figures were made: ``command`` with this process's arguments, the commit, the date."""
    return {"command": shlex.join([*command.split(), *sys.argv[1:]]), "commit": commit(), "date": now()}


def describe(
    device: str = "cpu", threads: int | None = None, packages: Sequence[str] = ("ctranslate2", "pymarian")
) -> dict[str, str]:
    """Return versions, GPU if used, processor, threads of a process (default: PyTorch's), and the machine's load."""
    import torch

    gpu = {"GPU": torch.cuda.get_device_name(), "CUDA": str(torch.version.cuda)} if device == "cuda" else {}
    return {
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "fairseq": version_of("fairseq", "fairseq-fixed"),
        **{package: version_of(package) for package in packages},
        **gpu,
        "processor": processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),  # with AVX2 alone --amp trains in fp32
        "cores": str(cores()),
        "threads": str(threads or torch.get_num_threads()),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def facts(mapping: Mapping[str, str]) -> str:
    """Return names and values in one line: ``name value, name value``."""
    return ", ".join(f"{name} {value}" for name, value in mapping.items())
