"""Checkpoints and their copies on a disk that is full."""

import os
import resource

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from resmlp_mt.common.errors import UserError


@pytest.fixture
def small_files():
    """No file of this process can have more than that many bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 100, 1_000, 10_000, 100_000, 399_000, 400_500])
def test_what_could_not_be_written_is_gone_and_the_old_stays(tmp_path, small_files, room):
    path = str(tmp_path / "checkpoint_last.pt")
    checkpoint_utils.torch_persistent_save({"model": torch.zeros(10)}, path)
    old = (tmp_path / "checkpoint_last.pt").read_bytes()
    new = str(tmp_path / "checkpoint1.pt")
    checkpoint_utils.torch_persistent_save({"model": torch.zeros(100_000)}, new)
    small_files(room)
    message = r"checkpoint_last\.pt: cannot be written: File too large: make room .* run the same command again"
    with pytest.raises(UserError, match=message):
        checkpoint_utils.torch_persistent_save({"model": torch.zeros(100_000)}, path)
    with pytest.raises(UserError, match=message):
        PathManager.copy(new, path, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint1.pt", "checkpoint_last.pt"]
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == old


def test_ctrl_c_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint_utils.torch_persistent_save({}, str(tmp_path / "checkpoint1.pt"))
    assert os.listdir(tmp_path) == []
