import pytest
from translate.small_folder import make


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A model's folder, for tests that do not change it."""
    return make(tmp_path_factory.mktemp("model") / "folder")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The user's cache of compiled models, one for a file of tests."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(home))
        yield home / "resmlp_mt"
