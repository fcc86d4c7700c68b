"""fairseq warns of its own age at every configuration."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "/benchmarks/" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("ignore"))
