"""A tiny trained model and its data."""

from argparse import Namespace

import pytest
import torch
from builders import build, dictionary

from resmlp_mt.fairseq_plugin.options import apply_preset


@pytest.fixture(scope="session")
def model():
    return build(scatter=0.03, share_all_embeddings=True).float()  # scores of a size that a trained model's have


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for language in "en", "de":
        dictionary().save(str(folder / f"dict.{language}.txt"))
    return folder


@pytest.fixture(scope="session")
def checkpoint(model, tmp_path_factory):
    """As fairseq-train writes it."""
    args = Namespace(arch="resmlp_transformer_tiny", _name="resmlp_transformer_tiny", share_all_embeddings=True)
    apply_preset(args, "resmlp_transformer_tiny")
    task = {"_name": "translation", "data": "/gone", "source_lang": "en", "target_lang": "de"}
    history = {"criterion_name": "Loss", "optimizer_name": "Adagrad", "lr_scheduler_state": {}, "num_updates": 5}
    state = {"args": None, "cfg": {"model": args, "task": task}, "model": model.state_dict()}
    path = tmp_path_factory.mktemp("trained") / "model.pt"
    torch.save({**state, "optimizer_history": [history], "extra_state": {}, "last_optimizer_state": None}, path)
    return path
