"""A tiny model, and a checkpoint of it as fairseq-train writes one."""

from argparse import Namespace

import torch

from resmlp_mt.fairseq_plugin.options import apply_preset

SCATTER = 0.03
"""Scores of a size that a trained model's have."""
HISTORY = {"criterion_name": "Loss", "optimizer_name": "Adagrad", "lr_scheduler_state": {}, "num_updates": 5}


def save(path, model, languages=("en", "de"), **options):
    """A checkpoint as fairseq-train writes it, of a model of ``build``."""
    args = Namespace(arch="resmlp_transformer_tiny", _name="resmlp_transformer_tiny", **options)
    apply_preset(args, "resmlp_transformer_tiny")
    task = {"_name": "translation", "data": "/gone", "source_lang": languages[0], "target_lang": languages[1]}
    state = {"args": None, "cfg": {"model": args, "task": task}, "model": model.state_dict()}
    torch.save({**state, "optimizer_history": [HISTORY], "extra_state": {}, "last_optimizer_state": None}, path)
    return path
