#!/usr/bin/env bash
# Installs the package alone (no extra, no fairseq, no compiler) in a fresh environment, and runs the translator's tests there.
#
# PYTHON=...                  the Python to use (default: python3)
# RESMLP_TORCH_PIP_ARGS=...   more arguments for pip, such as where to find torch

set -euo pipefail
root=$(CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH

git -C "$root" ls-files -z resmlp_mt pyproject.toml README.md LICENSE | tar -C "$root" --null -T - -c | tar -x -C "$folder"
"${PYTHON:-python3}" -m venv "$folder/venv"
read -ra args <<<"${RESMLP_TORCH_PIP_ARGS:-}"
"$folder/venv/bin/python" -m pip install -q "${args[@]}" "$folder" pytest pytest-timeout hypothesis
rm -r "$folder/resmlp_mt" # what is tested is what was installed
cd "$folder"
if venv/bin/python -c 'import fairseq' 2>/dev/null; then
    echo "fairseq is there: what was installed needs it" >&2
    exit 1
fi
venv/bin/resmlp-mt translate --help >/dev/null
venv/bin/python -m pytest -q -p no:cacheprovider "$root"/tests/translate/test_{translator,compiled}.py
