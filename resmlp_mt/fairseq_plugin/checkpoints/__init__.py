"""fairseq's checkpoints: loading them as data, averaging them."""
