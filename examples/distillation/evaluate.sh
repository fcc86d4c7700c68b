#!/usr/bin/env bash
# Average, translate and score a student as examples/multi30k/evaluate.sh does, and compare it with the undistilled ResMLP
# where that has been scored.
#
#   bash examples/distillation/evaluate.sh STUDENT [WORK] [SUBSET]      STUDENT: as for train.sh; SUBSET: test (default) or valid
#
# AVERAGE=...  so many epochs (default: 5)
# LENPEN=...   fairseq-generate's length penalty (default: 1, fairseq's own)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
student=${1-}
work=${2-${at}work/multi30k}
subset=${3:-test}
case $student in
  distilled | both | shallow | shallow-transformer) ;;
  *) die "no student $student: give distilled, both, shallow or shallow-transformer" ;;
esac
bash "${at}examples/multi30k/evaluate.sh" "distillation/$student" "$work" "$subset" "${@:4}"

name=$subset.lenpen${LENPEN:-1}.txt
declare -A references=([test]=test_2016_flickr.de [valid]=val.de)
if [ -f "$work/resmlp/$name" ]; then
  python "${at}scripts/score_bleu.py" "$work/distillation/$student/$name" --baseline "$work/resmlp/$name" \
    --reference "$work/${references[$subset]}" --target-lang de
fi
