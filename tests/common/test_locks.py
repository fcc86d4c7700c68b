import errno

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.locks import lock


def test_one_at_a_time(tmp_path):
    with open(tmp_path / "lock", "w") as first, open(tmp_path / "lock", "w") as second:
        lock(first, "")
        with pytest.raises(UserError, match="taken"):
            lock(second, "taken")
        first.close()
        lock(second, "taken")


def test_a_disk_without_locks(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("portalocker.portalocker.LOCKER", flock)
    with open(tmp_path / "lock", "w") as file, pytest.raises(UserError, match="lock: cannot be locked: Function not"):
        lock(file, "taken", patience=60)


def test_patience(tmp_path, monkeypatch):
    """A lock that is given back while it is waited for is taken."""
    with open(tmp_path / "lock", "w") as first, open(tmp_path / "lock", "w") as second:
        lock(first, "")
        monkeypatch.setattr("resmlp_mt.common.locks.time.sleep", lambda seconds: first.close())
        lock(second, "taken", patience=60)
        assert first.closed
