# What evaluate.sh of both language pairs does: averages, translates, scores, shows the row of table 5.
# Sourced behind recipe.sh with
#   work       the folder that is taken where none is given
#   target     the target language
#   sets       by subset, test or valid, the names of the sets whose official text its references are, in order
#   compounds  --split-compounds where the table's score splits them
#   "$@"       the arguments of evaluate.sh
system=${1-}
[ $# -eq 0 ] || shift
subset=test
if [ $# -gt 0 ] && [ "$1" != -- ]; then work=$1 && shift; fi
if [ $# -gt 0 ] && [ "$1" != -- ]; then subset=$1 && shift; fi
if [ $# -gt 0 ]; then
  [ "$1" = -- ] || die "$1 where -- should stand, before more options of fairseq-generate"
  shift
fi
check_work
run=$work/$system
case $system in
  resmlp6 | resmlp12) average=${AVERAGE:-10} ;;
  transformer) average=${AVERAGE:-5} ;;
  convs2s) checkpoint=$run/checkpoint_best.pt ;;
  lstm) checkpoint=$run/checkpoint_last.pt ;;
  *) die "no system $system: give resmlp6, resmlp12, transformer, convs2s or lstm" ;;
esac
case $subset in
  test | valid) read -ra names <<< "${sets[$subset]}" ;;
  *) die "no subset $subset: give test or valid" ;;
esac
references=()
for name in "${names[@]}"; do
  references+=("$work/$name.$target")
  [ -f "$work/$name.$target" ] || die "no $work/$name.$target: run scripts/prepare_wmt14.py first"
done
[ -f "$run/checkpoint_last.pt" ] || die "no checkpoint in $run: run train.sh first"
lenpen=${LENPEN:-0.6}
check_number LENPEN "$lenpen"
check_whole AVERAGE "${average:-1}"
check_ready scripts/prepare_wmt14.py "$target"
name=$run/$subset${LENPEN:+.lenpen$LENPEN}

if [ -n "${average:-}" ]; then
  checkpoint=$run/average$average.pt
  python "${at}scripts/average_checkpoints.py" --inputs "$run" --num-update-checkpoints "$average" --output "$checkpoint"
fi

fairseq-generate "$work/data-bin" --user-dir "${at}resmlp_mt" --path "$checkpoint" --gen-subset "$subset" \
  --beam 4 --lenpen "$lenpen" --max-tokens 4096 --required-batch-size-multiple 1 "$@" > "$name.txt.part"
mv "$name.txt.part" "$name.txt"

cat "${references[@]}" > "$run/$subset.reference"
subwords=subword_nmt
if [ -f "$work/sentencepiece.bpe.model" ]; then subwords=sentencepiece; fi
normalize=()
if [ -d "$work/tokenized" ]; then normalize=(--normalize-punctuation); fi # as prepare_wmt14.py did, but for --prepared
python "${at}scripts/score_bleu.py" "$name.txt" --reference "$run/$subset.reference" --target-lang "$target" --tokenizer moses \
  --subwords "$subwords" "${normalize[@]}" "${compounds[@]}" --json > "$name.json.part"
mv "$name.json.part" "$name.json"
if [ "$name" = "$run/test" ]; then python "${at}scripts/table5.py" "$run"; else cat "$name.json"; fi
