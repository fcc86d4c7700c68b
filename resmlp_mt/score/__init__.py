"""Score the output of fairseq-generate: BLEU and chrF2."""
