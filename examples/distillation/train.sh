#!/usr/bin/env bash
# Train a student on the data that translate.sh made, as examples/multi30k/train.sh trains the undistilled ResMLP.
# Run again after a break, it goes on from the last checkpoint.
#
#   bash examples/distillation/train.sh distilled|both|shallow|shallow-transformer [WORK] [-- more options of fairseq-train]
#
# distilled             the teacher's translations alone
# both                  the teacher's translations and the original ones: twice the pairs, half the epochs
# shallow               the teacher's translations alone, for fast translation: six gated layers that encode, one that decodes
# shallow-transformer   the same of fairseq's Transformer, to compare with
# WORK                  as for translate.sh, default work/multi30k in the checkout; checkpoints and train.log go to
#                       WORK/distillation/STUDENT
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
student=${1-}
undistilled=(--arch resmlp_transformer_multi30k --optimizer adagrad --lr 0.05 --total-num-update 16800)
text=distilled
shallow=(
  --encoder-layers 6 --decoder-layers 1
  --optimizer adam --adam-betas '(0.9, 0.98)' --lr 1.5e-3 --max-epoch 12 --total-num-update 6036 # about 503 an epoch
  --amp
)
case $student in
  distilled) own=("${undistilled[@]}" --max-epoch 30) ;;
  both) text=both own=("${undistilled[@]}" --max-epoch 15) ;;
  shallow) own=(--arch resmlp_transformer_multi30k_gated "${shallow[@]}") ;;
  shallow-transformer) own=(
    --arch transformer "${shallow[@]}"
    --encoder-embed-dim 256 --encoder-ffn-embed-dim 512 # the decoder's follow them
    --encoder-attention-heads 4 --decoder-attention-heads 4
    --encoder-normalize-before --decoder-normalize-before # with its norms behind the branches it does not learn at this rate
  ) ;;
  *) die "no student $student: give distilled, both, shallow or shallow-transformer" ;;
esac
work=${at}work/multi30k
source "${at}examples/train_arguments.sh"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
data=$work/distillation/data-bin.$text run=$work/distillation/$student
[ -d "$data" ] || die "no $data: run examples/distillation/translate.sh first"
check_commands

mkdir -p "$run"
fairseq-train "$data" --user-dir "${at}resmlp_mt" --source-lang en --target-lang de \
  "${own[@]}" --clip-norm 1.0 --share-all-embeddings --dropout 0.2 \
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
  --lr-scheduler polynomial_decay --warmup-updates 1000 \
  --max-tokens 1024 --seed 1 --num-workers 0 --required-batch-size-multiple 1 --distributed-world-size 1 \
  --update-epoch-batch-itr True --save-dir "$run" --keep-last-epochs 5 --log-format simple --log-interval 100 \
  "$@" 2>&1 | tee -a "$run/train.log"
