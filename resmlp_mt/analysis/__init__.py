"""A trained mixing, looked at: its matrices, their profiles and sparsity, pictures of them, and what pruning leaves."""
