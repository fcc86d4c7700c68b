import io
import sys

import pytest


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The user's cache of compiled models, one for each file of tests."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(home))
        yield home / "resmlp_mt"


@pytest.fixture(scope="module")
def trained():
    from translate.test_search import ready

    return ready()


@pytest.fixture
def run(folder, monkeypatch):
    """A function that runs the command with ``given`` as standard input, and returns its standard output."""
    from resmlp_mt.cli import main

    def run(*arguments, given=b"", model=folder, stream=io.BytesIO):
        out = io.BytesIO()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream(given)))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
        monkeypatch.setattr(sys, "argv", ["resmlp-mt", "translate", str(model), *map(str, arguments)])
        main()
        return out.getvalue()

    return run
