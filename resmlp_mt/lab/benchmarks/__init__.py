"""Architectures side by side on the same work: how fast they train and translate, and in how much memory."""
