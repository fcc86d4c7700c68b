#!/usr/bin/env bash
# Set-up, then every check: ruff (lint and format), mypy, pytest. Arguments go to pytest.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}

failed=()
check() { # the others run too: one round shows all that is wrong
    echo "== $*"
    "$PYTHON" -m "$@" || failed+=("$1")
}
check ruff check
check ruff format --check
check mypy
check pytest "$@"

if [[ ${#failed[@]} -gt 0 ]]; then
    echo "FAILED: ${failed[*]}"
    exit 1
fi
echo "PASSED: ruff, mypy, pytest"
