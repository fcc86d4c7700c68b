"""A trained checkpoint and the command as fixtures."""

import pytest
import torch
from small_models import checkpoint, train, untrained

from scripts import printed_by


@pytest.fixture(scope="session")
def before_training():
    """The state dict of ``trained`` before its training."""
    return {key: tensor.clone() for key, tensor in untrained().state_dict().items()}


@pytest.fixture(scope="session")
def trained():
    """A checkpoint trained on sources of 6 and targets of 8 positions often, of 11 and 13 once."""
    model = untrained()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    train(model, optimizer, [*[(6, 8)] * 100, (11, 13)])
    return checkpoint(model, optimizer.state_dict())


plot_mixing = printed_by("plot")
