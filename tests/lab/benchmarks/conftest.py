"""fairseq's warnings of its own age, left out."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "/benchmarks/" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("ignore"))
