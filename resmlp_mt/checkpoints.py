"""Make fairseq's checkpoints loadable as data."""

from argparse import Namespace

import torch


def allow_fairseq_checkpoints() -> None:
    torch.serialization.add_safe_globals([Namespace])
