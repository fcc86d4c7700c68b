"""What a model costs and what it learned: FLOPs; mixing matrices, their profiles and sparsity, pictures, pruning."""
