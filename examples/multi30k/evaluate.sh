#!/usr/bin/env bash
# Average the last epochs of a system trained by train.sh, translate with beam 4, score.
#
#   bash examples/multi30k/evaluate.sh resmlp|heads|gated|transformer [WORK] [SUBSET]      SUBSET: test (default) or valid
#
# AVERAGE=...  so many epochs (default: 5; gated 3, as its table); their scores replace those that are there
# LENPEN=...   fairseq-generate's length penalty (default: 1, fairseq's own)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
system=${1-}
work=${2-${at}work/multi30k}
subset=${3:-test}
lenpen=${LENPEN:-1} epochs=5
[ "$system" != gated ] || epochs=3
epochs=${AVERAGE:-$epochs}
[ $# -lt 4 ] || die "$4: one argument too many"
[ -n "$system" ] || die "give a system: resmlp, heads, gated or transformer"
check_work
check_number LENPEN "$lenpen"
check_whole AVERAGE "$epochs"
case $subset in
  test) reference=$work/test_2016_flickr.de ;;
  valid) reference=$work/val.de ;;
  *) die "no subset $subset: give test or valid" ;;
esac
[ -f "$work/$system/checkpoint_last.pt" ] || die "no checkpoint in $work/$system: run train.sh first"
[ -f "$reference" ] || die "no $reference: run examples/multi30k/prepare.py first"
check_ready examples/multi30k/prepare.py de
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

average=$work/$system/average$epochs.pt
generated=$work/$system/$subset.lenpen$lenpen.txt
python "${at}scripts/average_checkpoints.py" --inputs "$work/$system" --num-epoch-checkpoints "$epochs" --output "$average"
fairseq-generate "$work/data-bin" --user-dir "${at}resmlp_mt" --path "$average" --gen-subset "$subset" \
  --beam 4 --lenpen "$lenpen" --batch-size 64 --required-batch-size-multiple 1 > "$generated.part"
mv "$generated.part" "$generated"
python "${at}scripts/score_bleu.py" "$generated" --reference "$reference" --target-lang de
