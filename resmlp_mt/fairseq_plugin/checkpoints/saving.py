"""Checkpoints written to a stream."""

from typing import IO, Any

import torch


def save(checkpoint: Any, stream: IO[bytes]) -> None:
    """``torch.save``, with what is wrong with the file as it is.

    Raises:
        OSError: the disk is full, ..., which PyTorch hides behind an error of its own
    """
    try:
        torch.save(checkpoint, stream)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
