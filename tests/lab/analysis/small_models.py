"""Checkpoints of small models, trained or made up."""

from argparse import Namespace

import builders
import torch
from fairseq_plugin.crafted import state

from resmlp_mt.fairseq_plugin.options import PRESETS, apply_preset


def checkpoint(model, optimizer=None, arch="resmlp_transformer_tiny", options=None):
    """Return a small checkpoint of the form that fairseq's trainer saves; ``options`` replace those of the preset."""
    args = Namespace(arch=arch, share_all_embeddings=True, **(options or {}))
    if arch in PRESETS:
        apply_preset(args, arch)
    parameters = model if isinstance(model, dict) else model.state_dict()
    return state(parameters, {"model": args}, criterion=None, task_state={}, last_optimizer_state=optimizer)


def untrained(seed=0, **options):
    """Return a model before training: A uniform, b zero."""
    return builders.build(seed=seed, scatter=0, share_all_embeddings=True, **options).float()


def train(model, optimizer, lengths, seed=0):
    """Make an update for each pair of lengths (source, target), on random sentences, some of them padded."""
    for number, pair in enumerate(lengths):
        sources, targets = builders.pairs(pair, pair, (2, 2), seed=seed + number)
        target = builders.batch(targets)
        optimizer.zero_grad()
        out, _ = model(builders.batch(sources, left_pad=True), None, builders.batch(builders.shifted(targets)))
        torch.nn.functional.cross_entropy(out.transpose(1, 2), target, ignore_index=builders.PAD).backward()
        optimizer.step()
