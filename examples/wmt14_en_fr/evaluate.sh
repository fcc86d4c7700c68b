#!/usr/bin/env bash
# Average the last checkpoints of a system trained by train.sh, translate with beam 4, score, show the row of table 5.
#
#   bash examples/wmt14_en_fr/evaluate.sh SYSTEM [WORK] [SUBSET] [-- more options of fairseq-generate]
#
# SYSTEM    resmlp6, resmlp12, transformer, convs2s or lstm
# WORK      as for train.sh (default: work/wmt14_en_fr); all results go to WORK/SYSTEM
# SUBSET    test, which is newstest2014 (default), or valid
#
# AVERAGE=...   how many checkpoints to average (default: 10 for ResMLP, 5 for the Transformer)
# LENPEN=...    the length penalty (default: 0.6); another than the default goes to files of its own
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
work=${at}work/wmt14_en_fr target=fr
declare -A sets=([test]=newstest2014 [valid]="newstest2012 newstest2013") # whose official text are the references
compounds=() # split for German alone
source "${at}examples/wmt14/translate_and_score.sh"
