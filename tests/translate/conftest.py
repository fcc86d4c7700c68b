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
