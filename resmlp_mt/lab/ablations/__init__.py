"""Tables of variants: each row is trained on the same data and batches for the same number of epochs, then scored."""
