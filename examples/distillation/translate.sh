#!/usr/bin/env bash
# Let the teacher translate the training sources, and make the data of both students of it. Run again, it keeps what is there.
#
#   bash examples/distillation/translate.sh [WORK]      WORK: as for examples/multi30k, default work/multi30k
#
# TEACHER=...   its checkpoint (default: WORK/transformer/average5.pt, which examples/multi30k/evaluate.sh transformer leaves)
# BEAM=...      of its search (default: 5, as in Kim and Rush 2016)
set -euo pipefail
work=${1:-work/multi30k}
teacher=${TEACHER:-$work/transformer/average5.pt}
out=$work/distillation
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
[ -f "$teacher" ] || {
  echo "translate.sh: no teacher $teacher: run examples/multi30k/train.sh and evaluate.sh transformer first" >&2; exit 2
}

mkdir -p "$out"
if [ ! -f "$out/train.txt" ]; then
  fairseq-generate "$work/data-bin" --user-dir resmlp_mt --path "$teacher" --gen-subset train \
    --beam "${BEAM:-5}" --lenpen 1 --max-tokens 8192 --required-batch-size-multiple 1 \
    --tokenizer space > "$out/train.txt.part" # subwords are wanted: running text would only take time
  mv "$out/train.txt.part" "$out/train.txt"
fi
make=(python scripts/distill.py "$out/train.txt" --data "$work/data-bin" --source-lang en --target-lang de)
[ -d "$out/data-bin.distilled" ] || "${make[@]}" --out "$out/data-bin.distilled"
[ -d "$out/data-bin.both" ] || "${make[@]}" --out "$out/data-bin.both" --keep-original
