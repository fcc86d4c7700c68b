#!/usr/bin/env bash
# Train a system of table 5 on WMT14 English-German: --help tells how.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../wmt14/train.sh" en_de "$@"
