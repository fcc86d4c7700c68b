#!/usr/bin/env bash
# Let the teacher translate the training sources, and make of them data-bin.distilled, and data-bin.both with the original
# translations too, for the students of train.sh; marian.sh takes the translations as they are. Run again, it keeps what is there.
#
#   bash examples/distillation/translate.sh [WORK]      WORK: as for examples/multi30k, default work/multi30k in the checkout
#
# TEACHER=...   its checkpoint (default: WORK/transformer/average5.pt, which examples/multi30k/evaluate.sh transformer leaves)
# BEAM=...      of its search (default: 5, as in Kim and Rush 2016)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
work=${1-${at}work/multi30k}
[ $# -lt 2 ] || die "$2: one argument too many"
check_work
teacher=${TEACHER:-$work/transformer/average5.pt} beam=${BEAM:-5}
check_whole BEAM "$beam"
out=$work/distillation
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
[ -f "$teacher" ] || die "no teacher $teacher: run examples/multi30k/train.sh and evaluate.sh transformer first"
[[ $teacher != *:* ]] || die "$teacher: fairseq takes a colon for the end of a file's name: choose a name without"
check_ready examples/multi30k/prepare.py de

mkdir -p "$out"
made_of="$(sha256sum < "$teacher" | cut -d' ' -f1) beam $beam" # the teacher's checksum
if [ -n "$(ls -d "$out/train.txt" "$out"/data-bin.* 2> /dev/null)" ] && [ -f "$out/teacher.txt" ] && [ "$(cat "$out/teacher.txt")" != "$made_of" ]; then
  die "$out/train.txt: is of another teacher or beam: choose another WORK, or remove $out with its students"
fi
if [ ! -f "$out/train.txt" ]; then
  fairseq-generate "$work/data-bin" --user-dir "${at}resmlp_mt" --path "$teacher" --gen-subset train \
    --beam "$beam" --lenpen 1 --max-tokens 8192 --required-batch-size-multiple 1 \
    --tokenizer space > "$out/train.txt.part" # subwords are wanted: running text would only take time
  printf '%s\n' "$made_of" > "$out/teacher.txt"
  mv "$out/train.txt.part" "$out/train.txt"
fi
make=(resmlp-mt distill "$out/train.txt" --data "$work/data-bin" --source-lang en --target-lang de)
[ -d "$out/data-bin.distilled" ] || "${make[@]}" --out "$out/data-bin.distilled"
[ -d "$out/data-bin.both" ] || "${make[@]}" --out "$out/data-bin.both" --keep-original
