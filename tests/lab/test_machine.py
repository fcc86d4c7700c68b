"""What is told of the machine and the software."""

import re
import subprocess

from resmlp_mt.lab.machine import commit


def test_the_commit_is_that_of_a_checkout_and_not_of_a_repository_around_it(tmp_path):
    author = "-c", "user.name=a", "-c", "user.email=a@b"
    for words in ("init", "-q"), (*author, "commit", "-q", "--allow-empty", "-m", "first"):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "site-packages").mkdir()
    assert re.fullmatch("[0-9a-f]+", commit(tmp_path))
    assert commit(tmp_path / "site-packages") == commit(tmp_path / "nowhere") == "unknown"
