#!/usr/bin/env bash
# Makes the virtual environment with torch, fairseq and this plugin; does nothing where it is ready.
#
#   bash scripts/setup.sh        makes it
#   source scripts/setup.sh      the same from a bash script, then puts the environment first on its PATH
#
# PYTHON=...                  the Python to use, 3.10 to 3.13 (default: the first one found)
# VENV=...                    the folder of the environment (default: .venv in the checkout)
# RESMLP_TORCH_PIP_ARGS=...   more arguments for the pip that installs torch, such as where to find another build

root=$(CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${VENV:-$root/.venv}
[[ $VENV == /* ]] || VENV=$PWD/$VENV
[[ ${PYTHON:-/} != */* || ${PYTHON:-/} == /* ]] || PYTHON=$PWD/$PYTHON

if [[ ${BASH_SOURCE[0]} != "$0" ]]; then # sourced
    VENV=$VENV bash "${BASH_SOURCE[0]}" || exit 1
    export VENV VIRTUAL_ENV=$VENV PATH=$VENV/bin:$PATH PYTHON=$VENV/bin/python
    unset PYTHONHOME
    return
fi

set -euo pipefail
cd "$root"
python=$VENV/bin/python
log=$VENV/setup.log
output=

say() { echo "set-up: $*" >&2; }
die() { say "error: $*"; exit 1; }
(($# == 0)) || die "takes no arguments, not $1: its settings are variables (PYTHON, VENV, ...), see its first lines"

# ---- choosing and checking

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
supported() { [[ $1 =~ ^3\.1[0-3]$ ]]; }

choose_python() { # sets base
    local candidate version found=
    if [[ -n ${PYTHON:-} ]]; then
        version=$(version_of "$PYTHON") || die "PYTHON=$PYTHON does not run: name a Python 3.10 to 3.13"
        supported "$version" || die "PYTHON=$PYTHON is Python $version, not supported: name a Python 3.10 to 3.13"
        base=$PYTHON
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11 python3.10 python; do
        version=$(version_of "$candidate") || continue # not there, or a pyenv shim that has nothing behind it
        if supported "$version"; then
            base=$candidate
            return
        fi
        found+=" $version"
    done
    die "no supported Python on PATH (found:${found:- none}): install Python 3.10 to 3.13, or name one with PYTHON=..."
}

check_environment() { # it can change neither its Python nor its place
    local version wanted
    version=$(version_of "$python") || die "$VENV has a Python that does not run: remove the folder, then run this again"
    supported "$version" || die "$VENV has Python $version, not supported: remove the folder, or set VENV=... to another"
    if [[ -n ${PYTHON:-} ]]; then
        wanted=$(version_of "$PYTHON") || die "PYTHON=$PYTHON does not run: name a Python 3.10 to 3.13"
        [[ $version == "$wanted" ]] ||
            die "$VENV has Python $version, PYTHON=$PYTHON is $wanted: remove the folder, or set VENV=... to another"
    fi
    [[ ! -e $VENV/bin/activate ]] || (set +u; source "$VENV/bin/activate"; [[ $VIRTUAL_ENV -ef $VENV ]]) ||
        die "$VENV was made in another place and moved here: remove the folder, then run this again"
}

check_compiler() { # fairseq comes as source, in C and C++
    local problem
    problem=$("$python" - <<'PY'
import os, shutil, sysconfig

header = os.path.join(sysconfig.get_path("include"), "Python.h")
for variable, language in (("CC", "C"), ("CXX", "C++")):
    command = (os.environ.get(variable) or sysconfig.get_config_var(variable) or variable.lower()).split()[0]
    if not shutil.which(command):
        print(f"no {language} compiler ({command}), which building fairseq needs: install gcc and g++ (Debian, Ubuntu:"
              " the package build-essential), or name yours with CC=... and CXX=...")
        break
else:
    if not os.path.exists(header):
        print(f"no {header}, which building fairseq needs: install Python's headers (Debian, Ubuntu: the package"
              f" python{sysconfig.get_python_version()}-dev)")
PY
    )
    [[ -z $problem ]] || die "$problem"
}

stamp() { # all that an environment that is ready was made from
    local version
    version=$(grep '^version' "$VENV/pyvenv.cfg" 2>/dev/null) || true
    { cat pyproject.toml constraints*.txt scripts/setup.sh; echo "$root $VENV $version"; } | sha256sum
}

# ---- doing

attempt() { output=$("$@" 2>&1 | tee "$log" 2>/dev/null); } # kept in memory too: on a full disk there is no log
disk_full() { df -Pk "$VENV" "${TMPDIR:-/tmp}" | awk 'NR > 1 && $4 < 20000 { full = 1 } END { exit !full }'; }

step() { # step WHAT COMMAND...
    say "$1"
    attempt "${@:2}" || die "$1: $(why)"
}

no_package='No matching distribution found for'
why() { # the cause of a failed attempt, in one line where the output tells it
    if [[ $output =~ 'No space left on device'|'Disk quota exceeded' ]] || disk_full; then
        echo "the disk is full (under $VENV or ${TMPDIR:-/tmp}): make room, then run this again"
    elif [[ $output =~ 'NewConnectionError'|'Timeout'|'Read timed out'|'NameResolutionError'|'name resolution'|'unreachable'|'Connection refused'|'Connection reset'|'ProxyError'|'SSLError'|'Max retries' && ! $output =~ 'from versions: '[0-9] ]]; then
        echo "no network, or pip's package source does not answer: check the connection and pip's settings, then run this again"
    elif [[ $output =~ $no_package\ ([^$'\n']*) ]]; then
        echo "pip finds no ${BASH_REMATCH[1]}: check the network and pip's settings, then run this again"
    elif [[ $output == *ResolutionImpossible* && $output =~ '(constraint)'\ ([^$'\n']*) ]]; then
        echo "pip's settings forbid what is asked for (${BASH_REMATCH[1]}): see PIP_CONSTRAINT and the constraint of" \
            "'pip config list', and run this again without it"
    elif [[ $output == *'Permission denied'* ]]; then
        echo "no permission to write in $VENV: make it writable, or set VENV=... to another folder"
    else
        tail -n 15 <<<"$output" >&2
        echo "failed as shown above (all of it: $log)"
    fi
}

pip_install() { "$python" -m pip install --disable-pip-version-check --no-input "$@"; }

torch_is() { # torch_is PYTHON CONDITION
    "$1" -c "import torch; from torch.torch_version import TorchVersion as V; V = V(torch.__version__); assert $2" 2>/dev/null
}

install_torch() {
    local pin version args
    pin=$(grep -oE '^torch==[0-9.]+' "$constraints")
    version=${pin#*==}
    read -ra args <<<"${RESMLP_TORCH_PIP_ARGS:-}"
    if nvidia-smi -L >/dev/null 2>&1; then
        if torch_is "$python" 'torch.version.cuda and V >= "2.6"'; then
            say "keeping the torch for CUDA that is there"
        else # not the build for CPU, which would satisfy the pin
            step "installing torch $version for CUDA (several GB)" pip_install "$pin,!=$version+cpu" "${args[@]}"
        fi
    elif torch_is "$python" "V.split('+')[0] == '$version'"; then
        say "keeping the torch $version that is there"
    elif [[ ${#args[@]} -gt 0 ]]; then
        step "installing torch $version with ${args[*]}" pip_install "$pin" "${args[@]}"
    else
        say "installing torch $version, the build for CPU"
        if ! attempt pip_install "$pin+cpu"; then
            case $(why 2>/dev/null) in
                'pip finds no'* | "pip's settings forbid"*) ;;
                *) die "$(why)" ;;
            esac
            say "pip finds no build for CPU alone, or its settings forbid it; if gigabytes of CUDA are too much, stop this (Ctrl-C), set" \
                "RESMLP_TORCH_PIP_ARGS to the pip arguments that PyTorch's installation page shows for CPU, and start again"
            step "installing torch $version, the general build (several GB)" pip_install "$pin"
        fi
    fi
}

if [[ -x $python || -L $python ]]; then
    check_environment
    if [[ $(cat "$VENV/.ready" 2>/dev/null) == "$(stamp)" ]]; then
        if grep -qs '^cuda.* = None' "$VENV"/lib/python*/site-packages/torch/version.py && nvidia-smi -L >/dev/null 2>&1; then
            say "$VENV has a torch without CUDA, but there is a GPU: to use it, remove $VENV/.ready and run this again"
        fi
        exit 0
    fi
    base=$python
else
    choose_python
    "$base" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$base lacks the modules venv and ensurepip: install them (Debian, Ubuntu: the package python$(version_of "$base")-venv)"
fi

mkdir -p "$VENV" 2>/dev/null ||
    die "$VENV cannot be made: check permissions and disk space, or set VENV=... to another folder"
if command -v flock >/dev/null; then # its pip holds the lock too, and may live on after a killed set-up
    exec 9>"$VENV/.lock"
    flock -n 9 || { say "waiting for another set-up of $VENV"; flock 9; exec bash scripts/setup.sh; } # which may be ready now
fi

if ! "$python" -m pip --version >/dev/null 2>&1; then
    site=()
    if nvidia-smi -L >/dev/null 2>&1 && torch_is "$base" 'torch.cuda.is_available() and V >= "2.6"'; then
        site=(--system-site-packages) # the torch that the machine has shows through
    fi
    step "making $VENV with Python $(version_of "$base")" "$base" -m venv "${site[@]}" "$VENV"
fi
if [[ $(version_of "$python") == 3.10 ]]; then
    # This fairseq's source lacks the files of its extensions for torch, and leaves them out where it sees no torch.
    constraints=constraints-3.10.txt fairseq=fairseq isolation=()
else
    constraints=constraints.txt fairseq=fairseq-fixed isolation=(--no-build-isolation)
fi

# A package that a killed pip left half-installed passes for installed, but has no RECORD.
"$python" - <<'PY'
import pathlib, shutil, sysconfig

for info in pathlib.Path(sysconfig.get_path("purelib")).glob("*.dist-info"):
    if not (info / "RECORD").exists():
        shutil.rmtree(info)
PY

install_torch
# Asked of pip's records: torch's own idea of its version can have a "+cu130" that the package's has not.
version=$("$python" -c 'import torch; from importlib.metadata import version; print(version("torch"))' 2>"$log") ||
    die "torch is installed but does not import: see $log, or remove $VENV and run this again"
# Nothing that follows replaces the torch that is there; an isolated build is held to the tested versions too.
{ grep -v '^torch==' "$constraints"; echo "torch==$version"; } >"$VENV/constraints.txt"
export PIP_CONSTRAINT=$VENV/constraints.txt
[[ $VENV != *" "* ]] || PIP_CONSTRAINT=file://${VENV// /%20}/constraints.txt # pip takes several, with spaces between

step "installing the tools that build fairseq" pip_install pip setuptools wheel cython numpy
if ! "$python" -c "import importlib.metadata as metadata; metadata.version('$fairseq')" 2>/dev/null; then
    check_compiler
    step "building $fairseq (some minutes)" pip_install "${isolation[@]}" "$fairseq"
fi
step "installing resmlp_mt" pip_install --no-build-isolation -e ".[train,dev]"
stamp >"$VENV/.ready"
say "ready: $VENV"
