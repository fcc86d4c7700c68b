# What evaluate.sh of both language pairs does: averages, translates, scores, shows the row of table 5.
# Sourced with
#   work       the folder that is taken where none is given
#   target     the target language
#   sets       by subset, test or valid, the names of the sets whose official text its references are, in order
#   compounds  --split-compounds where the table's score splits them
#   "$@"       the arguments of evaluate.sh
system=${1:?give a system: resmlp6, resmlp12, transformer, convs2s or lstm}
shift
subset=test
if [ $# -gt 0 ] && [ "$1" != -- ]; then work=$1 && shift; fi
if [ $# -gt 0 ] && [ "$1" != -- ]; then subset=$1 && shift; fi
if [ $# -gt 0 ]; then
  [ "$1" = -- ] || { echo "evaluate.sh: $1 where -- should stand, before more options of fairseq-generate" >&2; exit 2; }
  shift
fi
run=$work/$system
case $system in
  resmlp6 | resmlp12) average=${AVERAGE:-10} ;;
  transformer) average=${AVERAGE:-5} ;;
  convs2s) checkpoint=$run/checkpoint_best.pt ;;
  lstm) checkpoint=$run/checkpoint_last.pt ;;
  *) echo "evaluate.sh: no system $system: give resmlp6, resmlp12, transformer, convs2s or lstm" >&2; exit 2 ;;
esac
case $subset in
  test | valid) read -ra names <<< "${sets[$subset]}" ;;
  *) echo "evaluate.sh: no subset $subset: give test or valid" >&2; exit 2 ;;
esac
references=()
for name in "${names[@]}"; do
  references+=("$work/$name.$target")
  [ -f "$work/$name.$target" ] || { echo "evaluate.sh: no $work/$name.$target: run scripts/prepare_wmt14.py first" >&2; exit 2; }
done
[ -f "$run/checkpoint_last.pt" ] || { echo "evaluate.sh: no checkpoint in $run: run train.sh first" >&2; exit 2; }
lenpen=${LENPEN:-0.6}
name=$run/$subset${LENPEN:+.lenpen$LENPEN}

if [ -n "${average:-}" ]; then
  checkpoint=$run/average$average.pt
  python scripts/average_checkpoints.py --inputs "$run" --num-update-checkpoints "$average" --output "$checkpoint"
fi

fairseq-generate "$work/data-bin" --user-dir resmlp_mt --path "$checkpoint" --gen-subset "$subset" \
  --beam 4 --lenpen "$lenpen" --max-tokens 4096 --required-batch-size-multiple 1 "$@" > "$name.txt.part"
mv "$name.txt.part" "$name.txt"

cat "${references[@]}" > "$run/$subset.reference"
subwords=subword_nmt
if [ -f "$work/sentencepiece.bpe.model" ]; then subwords=sentencepiece; fi
normalize=()
if [ -d "$work/tokenized" ]; then normalize=(--normalize-punctuation); fi # as prepare_wmt14.py did, but for --prepared
python scripts/score_bleu.py "$name.txt" --reference "$run/$subset.reference" --target-lang "$target" --tokenizer moses \
  --subwords "$subwords" "${normalize[@]}" "${compounds[@]}" --json > "$name.json.part"
mv "$name.json.part" "$name.json"
if [ "$name" = "$run/test" ]; then python scripts/table5.py "$run"; else cat "$name.json"; fi
