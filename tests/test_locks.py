import threading
import time

import pytest

from resmlp_mt.errors import UserError
from resmlp_mt.locks import lock


def test_one_at_a_time(tmp_path):
    with open(tmp_path / "lock", "w") as first, open(tmp_path / "lock", "w") as second:
        lock(first, "")
        with pytest.raises(UserError, match="taken"):
            lock(second, "taken")
        first.close()
        lock(second, "taken")


def test_patience(tmp_path):
    """A lock that is given back soon is waited for."""
    with open(tmp_path / "lock", "w") as first, open(tmp_path / "lock", "w") as second:
        lock(first, "")
        begun = time.monotonic()
        threading.Timer(0.2, first.close).start()
        lock(second, "taken", patience=60)
        assert 0.2 <= time.monotonic() - begun < 60
