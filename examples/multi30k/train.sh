#!/usr/bin/env bash
# Train ResMLP, or the Transformer that it is compared with, on Multi30k as prepare.py left it.
# Run again after a break, it goes on from the last checkpoint.
#
#   bash examples/multi30k/train.sh resmlp|heads|gated|transformer [WORK] [-- more options of fairseq-train]
#
# resmlp   the paper's model: one matrix A per layer
# heads    16 of them a layer, each for its group of channels, with a term for relative positions
# gated    the same between two projections, with a gate and a band; the row gated of examples/ablations/budget-2.yaml, which
#          has a Transformer as well tuned; the one here is the teacher of examples/distillation
# WORK     prepare.py's --out, default work/multi30k in the checkout
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
system=${1-}
# Adagrad with linear warm-up as in the paper. Its step is about lr / sqrt(updates): 0.05 after 1,000 updates is 1.4 times the
# paper's largest step (0.2 after 32,000), which clipping makes safe; few updates then need a decay to settle.
as_the_paper=(
  --max-epoch 30 --optimizer adagrad --clip-norm 1.0
  --lr 0.05 --lr-scheduler polynomial_decay --warmup-updates 1000 --total-num-update 16800 # 31.4 epochs of 535
)
case $system in
  resmlp) own=(--arch resmlp_transformer_multi30k "${as_the_paper[@]}") ;;
  heads) own=(--arch resmlp_transformer_multi30k_heads "${as_the_paper[@]}") ;;
  gated) own=(
    --arch resmlp_transformer_multi30k_gated --max-epoch 24 --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0
    --lr 1.5e-3 --lr-scheduler polynomial_decay --warmup-updates 1000 --total-num-update 12840 # 24 epochs of 535
    --attention-dropout 0.1 --amp
  ) ;;
  transformer) own=(
    --arch transformer --max-epoch 25
    --encoder-embed-dim 256 --encoder-ffn-embed-dim 512 --encoder-layers 3 --encoder-attention-heads 4
    --decoder-embed-dim 256 --decoder-ffn-embed-dim 512 --decoder-layers 3 --decoder-attention-heads 4
    --optimizer adam --adam-betas '(0.9, 0.98)' --lr 1e-3 --lr-scheduler inverse_sqrt --warmup-updates 1000
  ) ;;
  *) die "no system $system: give resmlp, heads, gated or transformer" ;;
esac
work=${at}work/multi30k
source "${at}examples/train_arguments.sh"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # one thread a system: two can train side by side on two cores

# Equal width, depth, vocabulary and dropout for all, on the same batches (same seed, same tokens a batch).
common=(
  --user-dir "${at}resmlp_mt" --source-lang en --target-lang de
  --share-all-embeddings --dropout 0.2
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1
  --max-tokens 1024 --seed 1 --num-workers 0 --distributed-world-size 1 # more GPUs would make another batch of it
  --required-batch-size-multiple 1 # no sentence is left out of validation
  --update-epoch-batch-itr True    # broken off and run again, it ends with the same weights
  --save-dir "$work/$system" --keep-last-epochs 5
  --log-format simple --log-interval 100
)
check_ready examples/multi30k/prepare.py de

mkdir -p "$work/$system"
fairseq-train "$work/data-bin" "${common[@]}" "${own[@]}" "$@" 2>&1 | tee -a "$work/$system/train.log"
