"""What makes PyTorch quick on a processor: which library multiplies, with how many bits, and memory that is kept."""
