from pathlib import Path

import pytest
from translate.small_folder import make


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder, for tests that do not change it."""
    return make(tmp_path_factory.mktemp("model") / "folder")
