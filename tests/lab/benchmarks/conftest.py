"""Five sentences as fairseq-preprocess writes them; fairseq's warnings of its own age, left out."""

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_builder


def pytest_collection_modifyitems(items):
    for item in items:
        if "/benchmarks/" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture
def data_bin(tmp_path):
    dictionary = Dictionary()
    for n in range(30):
        dictionary.add_symbol(f"w{n}")
    for language in "en", "de":
        dictionary.save(str(tmp_path / f"dict.{language}.txt"))
        builder = make_builder(str(tmp_path / f"test.en-de.{language}.bin"), "mmap", len(dictionary))
        for length in 3, 7, 4, 6, 5:
            builder.add_item(torch.tensor([*[4 + length] * (length + (language == "de")), dictionary.eos()]))
        builder.finalize(str(tmp_path / f"test.en-de.{language}.idx"))
    return tmp_path
