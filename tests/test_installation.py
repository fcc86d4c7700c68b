"""setup.sh: its errors and its fast path, without installing anything; the versions in the project file."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts import ROOT, stub


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the files that setup.sh reads, so that a test that fails does no harm."""
    root = tmp_path / "a checkout"
    (root / "scripts").mkdir(parents=True)
    for name in ("scripts/setup.sh", "pyproject.toml", "constraints.txt", "constraints-3.10.txt"):
        shutil.copy(ROOT / name, root / name)
    return root


def set_up(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    own = "PYTHON", "VENV", "RESMLP_TORCH_PIP_ARGS"
    kept = {name: value for name, value in os.environ.items() if name not in own}
    command = ["/bin/bash", str(checkout / "scripts" / "setup.sh")]
    return subprocess.run(command, env={**kept, **environment}, cwd="/", capture_output=True, text=True)


def the_error(result: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of stderr, the error."""
    assert result.returncode == 1, result.stderr
    line = result.stderr.splitlines()[-1]
    assert line.startswith("set-up: error: "), result.stderr
    return line


FAKE_PYTHON = r"""
# Answers the set-up's questions as an empty Python 3.11 would; its pip notes what it is asked and does nothing.
case "$*" in
    *"print("*"sys.version_info"*) echo "${FAKE_VERSION:-3.11}" ;;
    *"import ensurepip, venv"*) [[ -z ${FAKE_NO_VENV:-} ]] ;;
    *"-m venv"*) mkdir -p "${@: -1}/bin" && cp "$0" "${@: -1}/bin/python" ;;
    *"-m pip --version"*) [[ $0 == */bin/python ]] ;;
    *"-m pip install"*"${FAKE_PIP_FAILS_AT:-nowhere}"*) echo "$FAKE_PIP_SAYS"; exit 1 ;;
    *"-m pip install"*) [[ ${PIP_CONSTRAINT:-} != *" "* ]] && echo "$*" >>"$FAKE_CALLS" ;;
    *'version("torch")'*) echo "2.13.0+cpu" ;;
    *"import torch"* | *"importlib.metadata"*) false ;;
    -) script=$(cat); [[ $script == *RECORD* ]] || "$REAL_PYTHON" -c "$script" ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path) -> dict[str, str]:
    """The environment for setup.sh with a fake Python, pip and compiler, and without a graphics card."""
    stub(tmp_path / "bin" / "nvidia-smi", "exit 1")
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


def test_set_up_installs_in_order_then_does_nothing(checkout: Path, fake: dict[str, str], tmp_path: Path) -> None:
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

    torch = checkout / ".venv" / "lib" / "python3.11" / "site-packages" / "torch"
    torch.mkdir(parents=True)
    (torch / "version.py").write_text("cuda: Optional[str] = None\n")
    assert set_up(checkout, **fake).stderr == ""
    stub(tmp_path / "bin" / "nvidia-smi", "")
    assert "a torch without CUDA, but there is a GPU" in set_up(checkout, **fake).stderr


@pytest.mark.parametrize(
    ("gpu", "more", "asked"),
    [
        ("", {}, "torch==2.13.0,!=2.13.0+cpu"),
        ("exit 1", {"RESMLP_TORCH_PIP_ARGS": "--index-url x"}, "torch==2.13.0 --index-url x"),
    ],
)
def test_torch_for_a_gpu_or_from_elsewhere_in_another_folder(checkout, fake, tmp_path, gpu, more, asked):
    stub(tmp_path / "bin" / "nvidia-smi", gpu)
    environment = tmp_path / "my env"
    assert set_up(checkout, **fake, **more, VENV=str(environment)).returncode == 0
    assert calls(fake)[0].endswith(f" {asked}") and (environment / ".ready").exists()


def test_a_set_up_that_failed_goes_on(checkout: Path, fake: dict[str, str]) -> None:
    broken = set_up(checkout, **fake, FAKE_PIP_FAILS_AT="fairseq-fixed", FAKE_PIP_SAYS="error: something")
    assert "building fairseq-fixed" in the_error(broken)
    assert "error: something" not in the_error(broken)
    result = set_up(checkout, **fake)
    assert result.returncode == 0 and "making" not in result.stderr


def test_torch_without_a_build_for_cpu(checkout: Path, fake: dict[str, str]) -> None:
    says = "NewConnectionError\nERROR: ... (from versions: 2.13.0)"
    says += "\nERROR: No matching distribution found for torch==2.13.0+cpu"
    result = set_up(checkout, **fake, FAKE_PIP_FAILS_AT="+cpu", FAKE_PIP_SAYS=says)
    assert result.returncode == 0, result.stderr
    assert "RESMLP_TORCH_PIP_ARGS" in result.stderr and "several GB" in result.stderr
    assert calls(fake)[0].endswith("torch==2.13.0")
    says = says.replace("2.13.0)", "none)").replace("torch==2.13.0+cpu", "torch==2.13.0")
    offline = {**fake, "VENV": f"{checkout}/other", "FAKE_PIP_FAILS_AT": "torch", "FAKE_PIP_SAYS": says}
    assert "no network, or pip's package source does not answer" in the_error(set_up(checkout, **offline))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"FAKE_VERSION": "3.9"}, "is Python 3.9, not supported: name a Python 3.10 to 3.13"),
        ({"FAKE_NO_VENV": "1"}, "lacks the modules venv and ensurepip: install them"),
        ({"CC": "/nowhere/gcc"}, "no C compiler (/nowhere/gcc), which building fairseq needs: install gcc and g++"),
    ],
)
def test_refusals(checkout: Path, fake: dict[str, str], environment: dict[str, str], expected: str) -> None:
    assert expected in the_error(set_up(checkout, **{**fake, **environment}))
    assert not (checkout / ".venv" / ".ready").exists()


def test_an_environment_keeps_its_python_and_its_place(checkout: Path, fake: dict[str, str], tmp_path: Path) -> None:
    assert set_up(checkout, **fake).returncode == 0
    message = the_error(set_up(checkout, **{**fake, "PYTHON": str(stub(tmp_path / "other-python", "echo 3.12"))}))
    assert "has Python 3.11" in message and "is 3.12: remove the folder" in message
    (checkout / ".venv" / "bin" / "activate").write_text("VIRTUAL_ENV=/some/other/place\n")
    assert "was made in another place and moved here: remove the folder" in the_error(set_up(checkout, **fake))
    (checkout / ".venv" / "bin" / "python").unlink()
    (checkout / ".venv" / "bin" / "python").symlink_to("/a/python/that/is/gone")
    assert "has a Python that does not run: remove the folder" in the_error(set_up(checkout, **fake))


def test_every_python_is_tested_and_its_result_told(tmp_path: Path) -> None:
    stub(tmp_path / "scripts" / "test.sh", 'echo "$PYTHON $*"\n[[ $VENV != */.venvs/3.11 ]]')
    shutil.copy(ROOT / "scripts" / "test_pythons.sh", tmp_path / "scripts")
    for name, version in ("python3.10", "3.10"), ("python3.11", "3.11"), ("python3.12", "3.9"):
        stub(tmp_path / "bin" / name, f"echo {version}")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYENV_ROOT": "/nowhere", "VERSIONS": "3.10 3.11 3.12"}
    command = ["bash", tmp_path / "scripts" / "test_pythons.sh", "-x"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    told = ["Python 3.10: PASSED", "Python 3.11: FAILED", "Python 3.12: not on this machine"]
    assert (done.returncode, done.stdout.splitlines()) == (1, ["python3.10 -x", "python3.11 -x", *told])


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
