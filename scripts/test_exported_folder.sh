#!/usr/bin/env bash
# Makes folders of tiny models with fairseq, and checks them in fresh environments that have transformers but no fairseq.
#
#   bash scripts/test_exported_folder.sh              with each version of transformers that is said to work
#   bash scripts/test_exported_folder.sh 4.57.6       with these
#
# RESMLP_TORCH_PIP_ARGS=... as for scripts/setup.sh, which makes the environment with fairseq.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
versions=("$@")
(($#)) || versions=(4.57.6 5.23.0)
read -ra args <<<"${RESMLP_TORCH_PIP_ARGS:-}"
torch=$(grep -oE '^torch==[0-9.]+' "$root/constraints.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

PYTHONPATH=$root "$PYTHON" "$root/tests/export/reference_folders.py" "$work/folders"
unset PYTHONPATH # pip would take what is there for installed; and the checkout must not be found
cd "$work"
failed=0
for version in "${versions[@]}"; do
    "$PYTHON" -m venv "$work/$version"
    pip=("$work/$version/bin/python" -m pip install --quiet --disable-pip-version-check)
    # sentencepiece is left out: a model with BPE does without
    "${pip[@]}" "$torch+cpu" "${args[@]}" 2>/dev/null || "${pip[@]}" "$torch" "${args[@]}"
    "${pip[@]}" "transformers==$version" accelerate sacremoses subword-nmt
    HF_HOME=$work/$version/hub "$work/$version/bin/python" "$root/tests/export/folder_checks.py" \
        "$work"/folders/*/model || failed=1
done
exit "$failed"
