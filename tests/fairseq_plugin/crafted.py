"""Checkpoints as an attacker could write them."""

import zipfile
from argparse import Namespace

import torch

HISTORY = {"criterion_name": "C", "optimizer_name": "Adagrad", "lr_scheduler_state": {}, "num_updates": 5}

BY_SUBSCRIPT = "[nn.Module['touch owned'] for nn.Module.__class_getitem__ in [torch.os.system]]"
"""Python that calls a function without a call in its syntax tree."""


class Call:
    """An object whose pickle is a call of a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def state(model=None, options=None, **more):
    """Return a small checkpoint of the form that fairseq's trainer saves."""
    return {
        "args": None,
        "cfg": {"model": Namespace(arch="tiny"), "task": {"_name": "translation"}, **(options or {})},
        "model": {"w": torch.ones(4)} if model is None else model,
        "optimizer_history": [dict(HISTORY)],
        "extra_state": {"train_iterator": {"epoch": 1}},
        **more,
    }


def save(path, *args, legacy=False, **more):
    torch.save(state(*args, **more), path, _use_new_zipfile_serialization=not legacy)
    return path


def rewrite(path, change, compression=zipfile.ZIP_STORED, named=str):
    """Write a checkpoint again with its pickle changed, or its parts compressed or renamed."""
    with zipfile.ZipFile(path) as archive:
        parts = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts:
            archive.writestr(named(name), change(data) if name.endswith("data.pkl") else data)
