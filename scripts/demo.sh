#!/usr/bin/env bash
# A ResMLP translator from nothing, in minutes: a toy English-German corpus, subwords, training, averaging, beam search,
# scores beside a word-for-word baseline, and a sentence of your own. Run again, it reuses what is there or goes on where it
# was stopped; without the folder of its results it starts anew.
#
#   bash scripts/demo.sh ["An English sentence."]
#
# WORK=...   the folder of everything that it makes (default: work/toy_en_de in the checkout)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../examples/recipe.sh"
[ $# -lt 2 ] || die "$2: give one sentence, in quotes"
sentence=${1-} work=${WORK:-${at}work/toy_en_de}
check_work
[[ $work == /* || -z $at ]] || work=$PWD/$work # WORK as it is from here
check_work
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} PYTHONWARNINGS=ignore
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE} # where another program has a core, threads that wait busily take 20 times as long
started=$SECONDS
say() { printf '\n== %s\n' "$*"; }

say "A corpus: English and German sentences of a bilingual grammar"
python examples/toy_en_de/make_corpus.py --out "$work/raw"

say "Words, joint subwords, binary files: prepare_text.py"
splits=()
for split in train valid test; do splits+=("--$split" "$work/raw/$split.en" "$work/raw/$split.de"); done
python scripts/prepare_text.py "${splits[@]}" --source-lang en --target-lang de --keep-punctuation --symbols 1500 --out "$work"

say "Training: fairseq-train"
train=(
  fairseq-train "$work/data-bin" --user-dir resmlp_mt --arch resmlp_transformer_tiny
  --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --share-all-embeddings --dropout 0.1
  --optimizer adagrad --lr 0.1 --lr-scheduler fixed --warmup-updates 300 --clip-norm 1.0
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 2048 --max-epoch 7 --seed 1
  --required-batch-size-multiple 1 # no sentence is left out of validation
  --distributed-world-size 1       # of several GPUs one: the others would make another batch of it
  --update-epoch-batch-itr True    # broken off and run again, it ends with the same weights
  --save-dir "$work/checkpoints" --keep-last-epochs 3
)
if [ -t 2 ]; then # fairseq's log goes to stdout, its progress bar to stderr
  "${train[@]}" --log-format tqdm >> "$work/train.log"
else
  "${train[@]}" --log-format simple --log-interval 50 2>&1 | tee -a "$work/train.log" |
    sed -unE 's/.*(train_inner|valid) \| (epoch.*(ppl=[^,]*, wps=[^,]*|ppl [^ ]*)).*/\1 \2/p' || { tail -n 15 "$work/train.log" >&2; exit 1; }
fi

say "Averaging the last checkpoints"
python scripts/average_checkpoints.py --inputs "$work/checkpoints" --num-epoch-checkpoints 3 --output "$work/averaged.pt"

say "Translating combinations of words that training never saw: fairseq-generate, beam 4"
fairseq-generate "$work/data-bin" --user-dir resmlp_mt --path "$work/averaged.pt" --beam 4 --batch-size 100 \
  --required-batch-size-multiple 1 > "$work/generated.part" 2> "$work/generate.log" || { cat "$work/generate.log" >&2; exit 1; }
mv "$work/generated.part" "$work/generated.txt"
python examples/toy_en_de/word_for_word.py --train "$work/raw/train" --input "$work/raw/test.en" --output "$work/word_for_word.de"

say "Scores on the test set, word for word"
python scripts/score_bleu.py --hypotheses "$work/word_for_word.de" --reference "$work/raw/test.de" --target-lang de
say "Scores on the test set, ResMLP"
python scripts/score_bleu.py "$work/generated.txt" --reference "$work/raw/test.de" --target-lang de --output "$work/test.hyp.de"

say "Some of the translations"
for line in 1 2 3 4 5; do
  for row in "English $work/raw/test.en" "German $work/raw/test.de" "ResMLP $work/test.hyp.de" "words $work/word_for_word.de"; do
    printf '%-8s %s\n' "${row%% *}" "$(sed -n "${line}p" "${row#* }")"
  done
  echo
done
say "Done in $((SECONDS - started)) s after set-up"

if [ -z "$sentence" ] && [ -t 0 ]; then
  read -r -p "An English sentence of the same kind (Enter for none): " sentence || true
fi
[ -n "$sentence" ] || sentence="Can some strong guests dance?"
echo "English  $sentence"
printf 'ResMLP   '
printf '%s\n' "$sentence" | fairseq-interactive "$work/data-bin" --user-dir resmlp_mt --path "$work/averaged.pt" --beam 4 \
  2> "$work/interactive.log" | sed -n 's/^D-0\t[^\t]*\t//p' || { cat "$work/interactive.log" >&2; exit 1; }
