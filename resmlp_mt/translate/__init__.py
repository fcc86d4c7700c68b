"""Translation without fairseq: a model's folder, beam search, and text to text. Nothing here imports fairseq."""
