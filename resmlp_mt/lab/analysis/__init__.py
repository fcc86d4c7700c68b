"""A model's cost and what it has learned: FLOPs; mixing matrices, their profiles and sparsity, pictures, pruning."""
