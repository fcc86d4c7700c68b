"""An exported folder in the transformers that this environment has: the checks of folder_checks.py in this process."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import folder_checks
from reference_folders import make


@pytest.fixture(scope="module", params=["shared embeddings", "sinusoidal positions", "no mixing", "mlp"])
def folder(request, tmp_path_factory):
    return make(tmp_path_factory.mktemp("reference"), request.param)


@pytest.mark.parametrize("check", folder_checks.CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_folder(check, folder, tmp_path):
    check(folder, tmp_path)
