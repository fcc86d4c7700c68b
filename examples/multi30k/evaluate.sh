#!/usr/bin/env bash
# Average the last epochs of a system trained by train.sh, translate with beam 4, score.
#
#   bash examples/multi30k/evaluate.sh resmlp|heads|transformer [WORK] [SUBSET]      SUBSET: test (default) or valid
#
# AVERAGE=...  so many epochs (default: 5)
# LENPEN=...   fairseq-generate's length penalty (default: 1, fairseq's own)
set -euo pipefail
system=${1:?give a system: resmlp, heads or transformer}
work=${2:-work/multi30k}
subset=${3:-test}
lenpen=${LENPEN:-1} epochs=${AVERAGE:-5}
case $subset in
  test) reference=$work/test_2016_flickr.de ;;
  valid) reference=$work/val.de ;;
  *) echo "evaluate.sh: no subset $subset: give test or valid" >&2; exit 2 ;;
esac
[ -f "$work/$system/checkpoint_last.pt" ] || { echo "evaluate.sh: no checkpoint in $work/$system: run train.sh first" >&2; exit 2; }
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

average=$work/$system/average$epochs.pt
generated=$work/$system/$subset.lenpen$lenpen.txt
python scripts/average_checkpoints.py --inputs "$work/$system" --num-epoch-checkpoints "$epochs" --output "$average"
fairseq-generate "$work/data-bin" --user-dir resmlp_mt --path "$average" --gen-subset "$subset" \
  --beam 4 --lenpen "$lenpen" --batch-size 64 --required-batch-size-multiple 1 > "$generated.part"
mv "$generated.part" "$generated"
python scripts/score_bleu.py "$generated" --reference "$reference" --target-lang de
