# What train.sh does with its options: deals the batch out to the GPUs, then starts fairseq-train.
# Sourced behind recipe.sh with the variables work and system, and
#   batch      the size of an update's batch over all GPUs, in tokens or sentences
#   at_once    how much of it fits one GPU
#   unit       --max-tokens (padding counts, on the longer of the two sides) or --batch-size (sentences)
#   options    the other options of fairseq-train
#   adagrad    1 where the optimizer is Adagrad, else empty
#   "$@"       more options, the reader's own; the last one of a kind counts
gpus=${GPUS:-1} nodes=${NODES:-1} at_once=${AT_ONCE:-$at_once}
check_whole GPUS "$gpus" && check_whole NODES "$nodes" && check_whole AT_ONCE "$at_once"

# Equal batches for every number of GPUs: each takes an equal share of every update, in the fewest equal steps that fit it.
world=$((gpus * nodes))
((batch % world == 0)) || die "a batch of $batch cannot be dealt out to $world GPUs in equal shares: change GPUS or NODES"
share=$((batch / world)) update_freq=1
until ((share % update_freq == 0 && share / update_freq <= at_once)); do update_freq=$((update_freq + 1)); done
step=$((share / update_freq))
if [ "$unit" = --max-tokens ] && ((step < 256)); then
  die "$step tokens at once cannot hold the longest sentence (256): use fewer GPUs or a larger AT_ONCE"
fi

command=(fairseq-train "$work/data-bin" "${options[@]}" "$unit" "$step" --update-freq "$update_freq")
if [ "${FP16:-0}" != 0 ]; then # Adagrad's state cannot be kept as one flat tensor
  command+=(--fp16 ${adagrad:+--fp16-no-flatten-grads})
fi
command+=(--save-dir "$work/$system" "$@")

# One process a GPU. fairseq takes its place among them from the command line: left to itself it starts one process for
# every GPU that it sees, under torchrun trains one model a node where nodes have one GPU each, and up to version 0.12.2
# puts all processes of a node on its first GPU.
place='exec "$@" --distributed-no-spawn --distributed-init-method env://'
place+=' --distributed-world-size $WORLD_SIZE --distributed-rank $RANK --device-id $LOCAL_RANK'
one_a_gpu=(--nproc_per_node "$gpus" --no-python bash -c "$place" fairseq)
if ((nodes > 1)); then
  [ -n "${RENDEZVOUS:-}" ] || die "give RENDEZVOUS=host:port of one of the $nodes nodes, and run the same command on each"
  command=(
    torchrun --nnodes "$nodes" --rdzv_backend c10d --rdzv_endpoint "$RENDEZVOUS" --rdzv_id "$system"
    "${one_a_gpu[@]}" "${command[@]}"
  )
elif ((gpus > 1)); then
  command=(torchrun --standalone "${one_a_gpu[@]}" "${command[@]}")
else
  command+=(--distributed-world-size 1)
fi

if [ "${DRY_RUN:-0}" != 0 ]; then # the whole command, for a reader or for another launcher
  printf '%q ' "${command[@]}"
  echo
  exit
fi
check_ready scripts/prepare_wmt14.py en
mkdir -p "$work/$system"
"${command[@]}" 2>&1 | tee -a "$work/$system/train.log"
