#!/usr/bin/env python3
"""Run the test suite on every supported Python that this machine has, and print a table.

Each Python gets its own environment in .venvs/, made by scripts/setup.sh. Pythons are searched on PATH and among
pyenv's. The script needs nothing but Python: ``python3 scripts/test_pythons.py [--only 3.12] [arguments for pytest]``.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
COLUMNS = ("Python", "fairseq", "torch", "numpy", "passed", "failed", "skipped", "seconds")
VERSIONS = """
import platform
from importlib.metadata import PackageNotFoundError, version
def find(*names):
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            pass
print(platform.python_version(), find("fairseq-fixed", "fairseq"), find("torch"), find("numpy"))
"""


def find_python(version: str) -> str | None:
    """Return the interpreter of a version like ``3.12``, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in (f"python{version}", *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")), reverse=True)):
        # run it, since a file is not enough: a pyenv shim on PATH may start no Python
        command = [candidate, "-c", "import sys; print(sys.executable, '%d.%d' % sys.version_info[:2])"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True).stdout.split()
        except OSError:
            continue
        if answer[-1:] == [version]:
            return " ".join(answer[:-1])
    return None


def count(report: Path) -> tuple[int, int, int]:
    """Return the numbers of passed, failed and skipped tests in a JUnit report."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in suites:
        for name in total:
            total[name] += int(suite.get(name, 0))
    failed = total["failures"] + total["errors"]
    return total["tests"] - failed - total["skipped"], failed, total["skipped"]


def test(version: str, python: str, pytest_arguments: list[str]) -> tuple[list[str], bool]:
    """Run the tests on one Python; return its row of the table, and whether they passed."""
    print(f"== Python {version}", flush=True)
    venv = ROOT / ".venvs" / version
    environment = {**os.environ, "PYTHON": python, "VENV": str(venv)}
    environment.setdefault("OMP_NUM_THREADS", "2")
    if subprocess.run(["bash", str(ROOT / "scripts" / "setup.sh")], env=environment).returncode != 0:
        return [version, "set-up failed"], False
    environment.update(VIRTUAL_ENV=str(venv), PATH=f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}")
    own = str(venv / "bin" / "python")
    versions = subprocess.run([own, "-c", VERSIONS], capture_output=True, text=True, check=True).stdout.split()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        start = time.monotonic()
        command = [own, "-m", "pytest", f"--junitxml={report}", *pytest_arguments]
        status = subprocess.run(command, cwd=ROOT, env=environment).returncode
        seconds = time.monotonic() - start
        counts = [str(number) for number in count(report)] if report.exists() else ["?", "?", "?"]
    return [*versions, *counts, f"{seconds:.0f}"], status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0], epilog="Other arguments go to pytest.")
    parser.add_argument("--only", action="append", choices=PYTHONS, help="this Python only (can be given again)")
    arguments, pytest_arguments = parser.parse_known_args()

    rows, good, ran = [list(COLUMNS)], True, False
    for version in arguments.only or PYTHONS:
        python = find_python(version)
        if python is None:
            rows.append([version, "missing on this machine"])
            continue
        row, passed = test(version, python, pytest_arguments)
        rows.append(row)
        good, ran = good and passed, True

    widths = [max(len(row[column]) for row in rows if len(row) == len(COLUMNS)) for column in range(len(COLUMNS))]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip())
    if not ran:
        print("no supported Python found: install one of " + ", ".join(PYTHONS))
    return 0 if good and ran else 1


if __name__ == "__main__":
    sys.exit(main())
