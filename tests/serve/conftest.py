import pytest
from serve.fake_server import FakeTranslator, serving

from resmlp_mt.serve.settings import Limits


@pytest.fixture(scope="module")
def client():
    with serving(FakeTranslator(), Limits(max_characters=200, max_beam=5, longest_wait=0)) as (client, _):
        yield client
