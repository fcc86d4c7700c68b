"""Checkpoints that fairseq-train wrote with this plugin at commit 30dd792, and the scores that they had there."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from builders import batch, shifted

from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from resmlp_mt.fairseq_plugin.trained import model_of

FOLDER = Path(__file__).parent / "old_checkpoints"


@pytest.mark.parametrize("kind", ["linear", "gated"])
@torch.no_grad()
def test_old_checkpoints_load_as_data_and_score_as_they_did(kind):
    path = FOLDER / f"{kind}.pt"
    with torch.serialization.safe_globals([Namespace]):  # holds its options; all else PyTorch allows
        torch.load(path, weights_only=True)
    model = model_of(path, load_checkpoint(path))
    recorded = json.loads((FOLDER / "scores.json").read_text())
    sources, targets = recorded["sources"], recorded["targets"]
    scores = model(batch(sources), None, batch(shifted(targets)))[0].log_softmax(-1)
    for row, target, expected in zip(scores, targets, recorded[kind], strict=True):
        found = row[torch.arange(len(target)), target]
        torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-5)
