"""A tiny trained model and its data."""

import pytest
from builders import build, dictionary
from trained import SCATTER, save


@pytest.fixture(scope="session")
def model():
    return build(scatter=SCATTER, share_all_embeddings=True).float()


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for language in "en", "de":
        dictionary().save(str(folder / f"dict.{language}.txt"))
    return folder


@pytest.fixture(scope="session")
def checkpoint(model, tmp_path_factory):
    return save(tmp_path_factory.mktemp("trained") / "model.pt", model, share_all_embeddings=True)
