#!/usr/bin/env bash
# Train a student by Marian (pip install pymarian, 600 MB) on the teacher's translations, as Marian trains its own.
# Run again after a break, it goes on from the last checkpoint.
#
#   bash examples/distillation/marian.sh tiny|tiny-6-1|transformer [WORK] [-- options of marian that are not given here]
#
# tiny          six layers that encode and two with SSRU that decode, 1,536 channels between: Marian's tiny11
# tiny-6-1      six and one, 512 channels between
# transformer   three and three layers with self-attention, which CTranslate2 takes too
# EPOCHS=...    (default: 12)
# WORK          as for translate.sh; the model goes to WORK/distillation/marian/STUDENT/model.npz
#
# Compare them by: resmlp-mt benchmark translate --rival marian/WORK/distillation/marian/tiny/model.npz ...
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
student=${1-}
ssru=(
  --transformer-decoder-autoreg rnn --dec-cell ssru --transformer-heads 8
  --transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n # behind the layers it learns worse
)
case $student in
  tiny) own=("${ssru[@]}" --enc-depth 6 --dec-depth 2 --transformer-dim-ffn 1536) ;;
  tiny-6-1) own=("${ssru[@]}" --enc-depth 6 --dec-depth 1 --transformer-dim-ffn 512) ;;
  transformer) own=(--enc-depth 3 --dec-depth 3 --transformer-dim-ffn 512 --transformer-heads 4) ;;
  *) die "no student $student: give tiny, tiny-6-1 or transformer" ;;
esac
work=${at}work/multi30k
source "${at}examples/train_arguments.sh"
epochs=${EPOCHS:-12} && check_whole EPOCHS "$epochs"
out=$work/distillation/marian run=$work/distillation/marian/$student
[ -f "$work/distillation/train.txt" ] || die "no $work/distillation/train.txt: run examples/distillation/translate.sh first"
check_commands python
python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("_pymarian") is None)' ||
  die "no pymarian for this Python (it has 3.10 to 3.12): pip install pymarian"

mkdir -p "$run"
# Another student may be in training and reads these files: each appears whole, in the place of an equal one.
sed -n 's/^H-\([0-9]*\)\t[^\t]*\t/\1\t/p' "$work/distillation/train.txt" | sort -n | cut -f2 > "$out/train.de.$$"
{ printf '%s: 0\n%s: 1\n' '"</s>"' '"<unk>"'
  cut -d' ' -f1 "$work/data-bin/dict.de.txt" | sed 's/[\\"]/\\&/g' | awk '{print "\"" $0 "\": " NR + 1}'; } > "$out/vocab.yml.$$"
for file in train.de vocab.yml; do mv "$out/$file.$$" "$out/$file"; done
code='import sys, _pymarian; sys.exit(_pymarian.main(["train", *sys.argv[1:]]))' # pymarian's own commands need more packages
OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} MKL_NUM_THREADS=${MKL_NUM_THREADS:-1} python -c "$code" \
  --type transformer --model "$run/model.npz" --overwrite --seed 1 --cpu-threads 1 --workspace 2000 --data-threads 1 \
  --train-sets "$work/subwords/train.en" "$out/train.de" --vocabs "$out/vocab.yml" "$out/vocab.yml" \
  --valid-sets "$work/subwords/valid.en" "$work/subwords/valid.de" --valid-metrics perplexity bleu-segmented --valid-freq 1000u --valid-mini-batch 16 \
  --dim-emb 256 --tied-embeddings-all --transformer-ffn-activation relu --transformer-dropout 0.1 --label-smoothing 0.1 \
  --mini-batch-words 1024 --mini-batch 500 --maxi-batch 100 --max-length 120 --optimizer adam --optimizer-params 0.9 0.98 1e-9 \
  --learn-rate 0.0015 --lr-warmup 1000 --lr-decay-inv-sqrt 1000 --clip-norm 1 --exponential-smoothing 5e-4 \
  --after "${epochs}e" --save-freq 1000u --disp-freq 50u --beam-size 4 --normalize 1 --quiet-validation --log "$run/train.log" "${own[@]}" "$@"
