#!/usr/bin/env bash
# Average, translate and score a system of table 5 trained on WMT14 English-German: --help tells how.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../wmt14/evaluate.sh" en_de "$@"
