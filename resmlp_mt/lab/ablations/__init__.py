"""Tables of variants: each row trained on the same data and batches for the same number of epochs, then scored."""
