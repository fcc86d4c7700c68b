"""The set-up's refusals and its fast path, without installing anything; the project file's promises."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from resmlp_mt.common.files import PathLike

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the set-up reads, in a folder of its own, so that a test that goes wrong harms nothing."""
    root = tmp_path / "a checkout"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup.sh", root / "scripts")
    for name in ("pyproject.toml", "constraints.txt", "constraints-3.10.txt"):
        shutil.copy(ROOT / name, root)
    return root


def stub(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)
    return path


def set_up(checkout: Path, here: PathLike = "/", **environment: str) -> subprocess.CompletedProcess[str]:
    own = "PYTHON", "VENV", "RESMLP_TORCH_PIP_ARGS"
    kept = {name: value for name, value in os.environ.items() if name not in own}
    command = ["/bin/bash", str(checkout / "scripts" / "setup.sh")]
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 250}
    return subprocess.run(command, env={**kept, **environment}, cwd=here, **options)


def the_error(result: subprocess.CompletedProcess[str]) -> str:
    """The error line, which must be the last line and the only one of its kind."""
    assert result.returncode == 1, result.stderr
    lines = result.stderr.splitlines()
    assert [line for line in lines if line.startswith("set-up: error: ")] == lines[-1:], result.stderr
    return lines[-1]


FAKE_PYTHON = r"""
# Answers the set-up's questions as an empty Python 3.11 would; its pip notes what it is asked and does nothing.
case "$*" in
    *"print("*"sys.version_info"*) echo "${FAKE_VERSION:-3.11}" ;;
    *"import ensurepip, venv"*) [[ -z ${FAKE_NO_VENV:-} ]] ;;
    *"-m venv"*) mkdir -p "${@: -1}/bin" && cp "$0" "${@: -1}/bin/python" ;;
    *"-m pip --version"*) [[ $0 == */bin/python ]] ;;
    *"-m pip install"*"${FAKE_PIP_FAILS_AT:-nowhere}"*) echo "$FAKE_PIP_SAYS"; exit 1 ;;
    *"-m pip install"*) echo "$*" >>"$FAKE_CALLS" ;;
    *'version("torch")'*) echo "2.13.0+cpu" ;;
    *"import torch"* | *"importlib.metadata"*) false ;;
    -) script=$(cat); [[ $script == *RECORD* ]] || "$REAL_PYTHON" -c "$script" ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path) -> dict[str, str]:
    """The environment of a set-up whose Python, pip and graphics card only pretend."""
    stub(tmp_path / "bin" / "nvidia-smi", "exit ${FAKE_GPU:-1}")
    stub(tmp_path / "bin" / "cc", "")
    return {
        "PYTHON": str(stub(tmp_path / "fake-python", FAKE_PYTHON)),
        "REAL_PYTHON": sys.executable,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "CC": str(tmp_path / "bin" / "cc"),
        "CXX": str(tmp_path / "bin" / "cc"),
        "FAKE_CALLS": str(tmp_path / "calls"),
    }


def calls(fake: dict[str, str]) -> list[str]:
    return Path(fake["FAKE_CALLS"]).read_text().splitlines()


def test_set_up_installs_in_order_then_does_nothing(checkout: Path, fake: dict[str, str]) -> None:
    first = set_up(checkout, **fake)
    assert first.returncode == 0, first.stderr
    asked = calls(fake)
    assert [call.split()[5:] for call in asked] == [
        ["torch==2.13.0+cpu"],
        ["pip", "setuptools", "wheel", "cython", "numpy"],
        ["--no-build-isolation", "fairseq-fixed"],
        ["--no-build-isolation", "-e", ".[train,dev]"],
    ]
    assert "torch==2.13.0+cpu" in (checkout / ".venv" / "constraints.txt").read_text().splitlines()

    second = set_up(checkout, **fake)
    assert (second.returncode, second.stderr) == (0, "")
    assert calls(fake) == asked

    with open(checkout / "pyproject.toml", "a") as stream:
        stream.write("\n")
    assert set_up(checkout, **fake).returncode == 0
    assert len(calls(fake)) > len(asked), "a changed project file must be installed"


def test_python_310_gets_its_own_fairseq_and_versions(checkout: Path, fake: dict[str, str]) -> None:
    assert set_up(checkout, **fake, FAKE_VERSION="3.10").returncode == 0
    assert any(call.endswith(" fairseq") and "isolation" not in call for call in calls(fake))
    assert "numpy==1.23.5" in (checkout / ".venv" / "constraints.txt").read_text().splitlines()


def test_killed_set_up_goes_on(checkout: Path, fake: dict[str, str]) -> None:
    broken = set_up(checkout, **fake, FAKE_PIP_FAILS_AT="fairseq-fixed", FAKE_PIP_SAYS="error: something")
    assert "building fairseq-fixed" in the_error(broken)
    assert "error: something" not in the_error(broken)
    result = set_up(checkout, **fake)
    assert result.returncode == 0 and "making" not in result.stderr


NO_BUILD = "ERROR: No matching distribution found for torch==2.13.0+cpu"
CONFLICT = """\
The conflict is caused by:
    The user requested torch==2.13.0+cpu
    The user requested (constraint) torch==2.13.0+cu130
ERROR: ResolutionImpossible: for help visit pip's documentation"""


@pytest.mark.parametrize("says", [NO_BUILD, CONFLICT])
def test_torch_without_a_build_for_cpu(checkout: Path, fake: dict[str, str], says: str) -> None:
    result = set_up(checkout, **fake, FAKE_PIP_FAILS_AT="+cpu", FAKE_PIP_SAYS=says)
    assert result.returncode == 0, result.stderr
    assert "RESMLP_TORCH_PIP_ARGS" in result.stderr and "several GB" in result.stderr
    assert calls(fake)[0].endswith("torch==2.13.0")


def test_torch_with_the_users_arguments_and_with_a_gpu(checkout: Path, fake: dict[str, str]) -> None:
    assert set_up(checkout, **fake, RESMLP_TORCH_PIP_ARGS="--find-links some/folder").returncode == 0
    assert calls(fake)[0].endswith("torch==2.13.0 --find-links some/folder")
    shutil.rmtree(checkout / ".venv")
    Path(fake["FAKE_CALLS"]).unlink()
    assert set_up(checkout, **fake, FAKE_GPU="0").returncode == 0
    assert calls(fake)[0].endswith("torch==2.13.0,!=2.13.0+cpu")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"FAKE_VERSION": "3.9"}, "is Python 3.9, not supported: name a Python 3.10 to 3.13"),
        ({"PYTHON": "/nowhere/python"}, "PYTHON=/nowhere/python does not run: name a Python 3.10 to 3.13"),
        ({"FAKE_NO_VENV": "1"}, "lacks the modules venv and ensurepip: install them"),
        ({"CC": "/nowhere/gcc"}, "no C compiler (/nowhere/gcc), which building fairseq needs: install gcc and g++"),
        ({"VENV": "/proc/no/folder"}, "/proc/no/folder cannot be made: check permissions and disk space"),
    ],
)
def test_refusals(checkout: Path, fake: dict[str, str], environment: dict[str, str], expected: str) -> None:
    assert expected in the_error(set_up(checkout, **{**fake, **environment}))
    assert not (checkout / ".venv" / ".ready").exists()


def test_what_pip_says_is_told_in_a_line(checkout: Path, fake: dict[str, str]) -> None:
    says = "OSError: [Errno 28] No space left on device"
    assert "the disk is full" in the_error(set_up(checkout, **fake, FAKE_PIP_FAILS_AT="fairseq", FAKE_PIP_SAYS=says))
    assert not (checkout / ".venv" / ".ready").exists()


def test_no_python_on_the_path(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "dirname"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    stub(tmp_path / "bin" / "python3", "echo 3.8")
    assert "no supported Python on PATH (found: 3.8)" in the_error(set_up(checkout, PATH=str(tmp_path / "bin")))


def test_an_environment_keeps_its_python_and_its_place(checkout: Path, fake: dict[str, str], tmp_path: Path) -> None:
    assert set_up(checkout, **fake).returncode == 0
    other = stub(tmp_path / "other-python", "echo 3.12")
    message = the_error(set_up(checkout, **{**fake, "PYTHON": str(other)}))
    assert "has Python 3.11" in message and "is 3.12: remove the folder" in message
    (checkout / ".venv" / "bin" / "activate").write_text("VIRTUAL_ENV=/some/other/place\n")
    assert "was made in another place and moved here: remove the folder" in the_error(set_up(checkout, **fake))


def test_an_environment_is_known_by_any_name(checkout: Path, fake: dict[str, str], tmp_path: Path) -> None:
    """As python -m venv has noted it; an interpreter too may be named from here, where cd's CDPATH changes nothing."""
    (tmp_path / "an environment").mkdir()
    fake = {**fake, "PYTHON": "./fake-python", "VENV": "an environment/../it's one", "CDPATH": "."}
    assert set_up(checkout.relative_to(tmp_path), here=tmp_path, **fake).returncode == 0
    place = tmp_path / "it's one"
    (place / "bin" / "activate").write_text(f"VIRTUAL_ENV={shlex.quote(str(place))}\n")
    again = set_up(checkout, here=tmp_path, **fake)
    assert (again.returncode, again.stderr) == (0, "")


def test_sourced_set_up_puts_the_environment_first(checkout: Path, fake: dict[str, str]) -> None:
    script = f'set -eu; source "{checkout}/scripts/setup.sh"; echo "$VIRTUAL_ENV|$PYTHON|${{PATH%%:*}}"'
    kept = {name: value for name, value in os.environ.items() if name != "VENV"}
    result = subprocess.run(["bash", "-c", script], env={**kept, **fake}, capture_output=True, text=True)
    venv = checkout / ".venv"
    assert result.stdout.split("|") == [str(venv), f"{venv}/bin/python", f"{venv}/bin\n"], result.stderr


def test_project_file_and_tested_versions_agree() -> None:
    tomllib = pytest.importorskip("tomllib")  # in Python from 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.10,<3.14"
    extras = project["optional-dependencies"]
    for python in "3.10", "3.11", "3.12", "3.13":
        file = "constraints-3.10.txt" if python == "3.10" else "constraints.txt"
        lines = (line for line in (ROOT / file).read_text().splitlines() if not line.startswith("#"))
        tested = {line.split("==")[0].lower(): line.split("==")[1] for line in lines}
        wanted = [Requirement(text) for text in project["dependencies"] + extras["train"] + extras["dev"]]
        wanted = [each for each in wanted if each.marker is None or each.marker.evaluate({"python_version": python})]
        for each in wanted:
            assert tested[each.name] in each.specifier, f"{each} in {file}"
        names = {each.name for each in wanted}
        assert ("fairseq" in names, "fairseq-fixed" in names) == (python == "3.10", python != "3.10")
        assert python in SpecifierSet(project["requires-python"])
