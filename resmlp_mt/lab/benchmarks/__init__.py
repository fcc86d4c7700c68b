"""Benchmarks of architectures on the same work: how fast they train and translate, and how much memory they use."""
