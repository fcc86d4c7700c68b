#!/usr/bin/env bash
# Set-up, then every check: ruff (lint and format), mypy, pytest. Arguments go to pytest.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$root"
unset PYTHONDONTWRITEBYTECODE # each of hundreds of processes would compile the package again
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # the models are tiny, and threads that wait for one another lose on a busy machine

failed=()
check() { # the others run too: one round shows all that is wrong
    echo "== $*"
    "$PYTHON" -m "$@" || failed+=("$1")
}
check ruff check
check ruff format --check
check mypy
check pytest -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder "$@"

if [[ ${#failed[@]} -gt 0 ]]; then
    echo "FAILED: ${failed[*]}"
    exit 1
fi
echo "PASSED: ruff, mypy, pytest"
