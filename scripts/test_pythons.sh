#!/usr/bin/env bash
# Every check of scripts/test.sh on every supported Python of this machine, on PATH or among pyenv's, each in its own environment
# in .venvs. Arguments go to pytest. At the end it tells the result of each; the exit status is 1 if one failed or none was found.
#
# VERSIONS="3.10 3.13"   these alone (default: 3.10 to 3.13)
set -euo pipefail
root=$(CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
results=()

for version in ${VERSIONS:-3.10 3.11 3.12 3.13}; do
    python=
    for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python "python$version"; do # the last one that runs
        found=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        [[ $found != "$version" ]] || python=$candidate # a shim of pyenv's may start another one
    done
    if [[ -z $python ]]; then
        results+=("Python $version: not on this machine")
    elif PYTHON=$python VENV=$root/.venvs/$version bash "$root/scripts/test.sh" "$@"; then
        results+=("Python $version: PASSED")
    else
        results+=("Python $version: FAILED")
    fi
done

printf '%s\n' "${results[@]}"
[[ ${results[*]} == *PASSED* && ${results[*]} != *FAILED* ]]
