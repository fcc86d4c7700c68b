#!/usr/bin/env bash
# Train one system of table 5 on WMT14 as prepare_wmt14.py left it. The pair's README.md says where each setting is from.
# Run again after a break, it goes on from the last checkpoint, to the weights of an unbroken run.
#
#   bash examples/wmt14_en_de/train.sh SYSTEM [WORK] [-- more options of fairseq-train]
#   bash examples/wmt14_en_fr/train.sh SYSTEM [WORK] [-- more options of fairseq-train]
#
# SYSTEM    resmlp6, resmlp12, transformer, convs2s, lstm; gated6, gated12 (beyond the paper)
# WORK      prepare_wmt14.py's --out (default: work/wmt14_en_de or work/wmt14_en_fr in the checkout); checkpoints and
#           train.log go to WORK/SYSTEM
#
# GPUS=...      GPUs of this machine (default: 1). The batch of an update stays the same for any number
# NODES=...     machines with that many GPUs each (default: 1), with RENDEZVOUS=host:port; WORK on a disk that they share
# AT_ONCE=...   the most tokens (lstm: sentences) for one GPU at once; the rest of a batch is accumulated
# FP16=1        half precision with loss scaling
# DRY_RUN=1     print the whole command instead
set -euo pipefail
pair=${1-}
case $pair in en_de | en_fr) shift ;; esac
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
case $pair in
  en_de) resmlp_dropout=0.15 convs2s_dropout=0.2 convs2s_batch=32000 ;;
  en_fr) resmlp_dropout=0.1 convs2s_dropout=0.1 convs2s_batch=24000 ;;
  *) die "no pair $pair: start train.sh of examples/wmt14_en_de or examples/wmt14_en_fr" ;;
esac
system=${1-}
declare -A arch=(
  [resmlp6]=resmlp_transformer_wmt_$pair [resmlp12]=resmlp_transformer_12_wmt_$pair
  [gated6]=resmlp_transformer_gated_wmt_$pair [gated12]=resmlp_transformer_gated_12_wmt_$pair
  [transformer]=transformer_wmt_en_de [convs2s]=fconv_wmt_$pair [lstm]=lstm_luong_wmt_en_de
)
batch=28672 at_once=3584 unit=--max-tokens adagrad= # 8 GPUs with 3,584 tokens each
case $system in
  resmlp6 | resmlp12)
    adagrad=1
    own=(
      --share-all-embeddings --dropout "$resmlp_dropout" --layerscale-init 0.2
      --optimizer adagrad --lr 0.2 --lr-scheduler fixed --warmup-updates 32000 --clip-norm 0.0
      --criterion label_smoothed_cross_entropy --label-smoothing 0.1
      --max-update 300000 --save-interval-updates 5000 --keep-interval-updates 10
    ) ;;
  transformer | gated6 | gated12)
    case $system in
      transformer) own=(--lr 7e-4 --clip-norm 0.0 --dropout 0.1) ;;
      gated*) own=(--lr 3.5e-4 --clip-norm 1.0 --dropout "$resmlp_dropout" --attention-dropout 0.1) ;;
    esac
    own+=(
      --share-all-embeddings --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9
      --lr-scheduler inverse_sqrt --warmup-updates 4000 --warmup-init-lr 1e-7
      --criterion label_smoothed_cross_entropy --label-smoothing 0.1
      --max-update 100000 --save-interval-updates 1250 --keep-interval-updates 5
    ) ;;
  convs2s)
    batch=$convs2s_batch at_once=$((convs2s_batch / 8))
    own=(
      --dropout "$convs2s_dropout"
      --optimizer nag --momentum 0.99 --clip-norm 0.1
      --lr 0.5 --lr-scheduler fixed --force-anneal 50 --lr-shrink 0.1 # epoch 53 would be below 1e-4, where it ends
      --criterion label_smoothed_cross_entropy --label-smoothing 0.1
      --max-epoch 52 --save-interval-updates 5000 --keep-interval-updates 1
    ) ;;
  lstm)
    batch=128 at_once=128 unit=--batch-size
    own=(
      --dropout 0.2 --encoder-dropout-out 0.2 --decoder-dropout-out 0.2
      --optimizer sgd --clip-norm 5
      --lr 1.0 --lr-scheduler fixed --force-anneal 9 --lr-shrink 0.5
      --criterion cross_entropy --sentence-avg
      --max-epoch 12 --save-interval-updates 5000 --keep-interval-updates 1
    ) ;;
  *) die "no system $system: give resmlp6, resmlp12, gated6, gated12, transformer, convs2s or lstm" ;;
esac
work=${at}work/wmt14_$pair
source "${at}examples/train_arguments.sh"

options=(
  --user-dir "${at}resmlp_mt" --source-lang en --target-lang "${pair#en_}" --arch "${arch[$system]}" "${own[@]}"
  --no-epoch-checkpoints --update-epoch-batch-itr True # batches anew for every epoch, also the one that a run goes on in
  --seed 1 --log-format simple --log-interval 100
)
source "${at}examples/wmt14/launch.sh"
