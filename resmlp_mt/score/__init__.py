"""From what fairseq-generate printed to BLEU."""
