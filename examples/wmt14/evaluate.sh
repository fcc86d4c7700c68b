#!/usr/bin/env bash
# Average the last checkpoints of a system trained by train.sh, translate with beam 4, score, show the row of table 5.
#
#   bash examples/wmt14_en_de/evaluate.sh SYSTEM [WORK] [SUBSET] [-- more options of fairseq-generate]
#   bash examples/wmt14_en_fr/evaluate.sh SYSTEM [WORK] [SUBSET] [-- more options of fairseq-generate]
#
# SYSTEM    resmlp6, resmlp12, transformer, convs2s, lstm; gated6, gated12 (beyond the paper)
# WORK      as for train.sh (default: work/wmt14_en_de or work/wmt14_en_fr); all results go to WORK/SYSTEM
# SUBSET    test, which is newstest2014 (default), or valid
#
# AVERAGE=...   how many checkpoints to average (default: 10 for ResMLP, 5 for the Transformer and the gated)
# LENPEN=...    the length penalty (default: 0.6); another than the default goes to files of its own
# Scores with another AVERAGE, or with options behind --, replace those that are there.
set -euo pipefail
pair=${1-}
case $pair in en_de | en_fr) shift ;; esac
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
compounds=()
case $pair in # valid: the sets whose official text are the references, in order
  en_de) valid=newstest2013 compounds=(--split-compounds) ;; # as the paper's table scores German
  en_fr) valid="newstest2012 newstest2013" ;;
  *) die "no pair $pair: start evaluate.sh of examples/wmt14_en_de or examples/wmt14_en_fr" ;;
esac
work=${at}work/wmt14_$pair target=${pair#en_}
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
run=$work/$system average=
case $system in
  resmlp6 | resmlp12) average=${AVERAGE:-10} ;;
  transformer | gated6 | gated12) average=${AVERAGE:-5} ;;
  convs2s) checkpoint=$run/checkpoint_best.pt ;;
  lstm) checkpoint=$run/checkpoint_last.pt ;;
  *) die "no system $system: give resmlp6, resmlp12, gated6, gated12, transformer, convs2s or lstm" ;;
esac
case $subset in
  test) names=(newstest2014) ;;
  valid) read -ra names <<< "$valid" ;;
  *) die "no subset $subset: give test or valid" ;;
esac
references=()
for name in "${names[@]}"; do
  references+=("$work/$name.$target")
  [ -f "$work/$name.$target" ] || die "no $work/$name.$target, the official text: run scripts/prepare_wmt14.py, or copy its file beside text of your own"
done
[ -f "$work/tokenized/$subset.1.$target" ] || die "no $work/tokenized/$subset.1.$target: run scripts/prepare_wmt14.py again"
[ -f "$run/checkpoint_last.pt" ] || die "no checkpoint in $run: run train.sh first"
lenpen=${LENPEN:-0.6}
check_number LENPEN "$lenpen"
check_whole AVERAGE "${AVERAGE:-1}"
[ -n "$average" ] || [ -z "${AVERAGE:-}" ] || die "$system is one checkpoint: leave AVERAGE out"
check_ready scripts/prepare_wmt14.py "$target"
name=$run/$subset
[ "$lenpen" = 0.6 ] || name+=.lenpen$lenpen

if [ -n "$average" ]; then
  checkpoint=$run/average$average.pt
  python "${at}scripts/average_checkpoints.py" --inputs "$run" --num-update-checkpoints "$average" --output "$checkpoint"
fi

fairseq-generate "$work/data-bin" --user-dir "${at}resmlp_mt" --path "$checkpoint" --gen-subset "$subset" \
  --beam 4 --lenpen "$lenpen" --max-tokens 4096 --required-batch-size-multiple 1 "$@" > "$name.txt.part"
mv "$name.txt.part" "$name.txt"

# Another LENPEN may be evaluated at the same time, and reads these files: each appears whole, in the place of an equal one.
cat "${references[@]}" > "$run/$subset.reference.$$"
cat "$work/tokenized/$subset".?."$target" > "$run/$subset.tokens.$$" # entities (&amp;) resolved, punctuation normalized
for file in reference tokens; do mv "$run/$subset.$file.$$" "$run/$subset.$file"; done
subwords=subword_nmt
if [ -f "$work/sentencepiece.bpe.model" ]; then subwords=sentencepiece; fi
python "${at}scripts/score_bleu.py" "$name.txt" --reference "$run/$subset.reference" --target-lang "$target" --tokenizer moses \
  --subwords "$subwords" --tokenized-reference "$run/$subset.tokens" "${compounds[@]}" --json > "$name.json.part"
mv "$name.json.part" "$name.json"
if [ "$name" = "$run/test" ]; then resmlp-mt table5 "$run"; else cat "$name.json"; fi
