"""Warnings are ignored here: fairseq's old code causes many."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "/benchmarks/" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("ignore"))
