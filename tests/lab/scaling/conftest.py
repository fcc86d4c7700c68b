"""A small set of binarized data, and the recipe of a small study."""

import builders
import numpy as np
import pytest
from fairseq.data import Dictionary

RECIPE = """
title: A study
languages: en-de
reference: valid.de
batches: --max-tokens 64 --required-batch-size-multiple 1
sizes:
  s: {width: 8, layers: 1, dropout: {transformer: 0.4, heads: {5: 0.2, 10: 0.1, 20: 0.1, 50: 0}, none: 0}}
  m: {width: 16, layers: 1, dropout: 0.1}
  l: {width: 16, layers: 2, dropout: {5: 0.3, 10: 0.2, 20: 0.1, 50: 0}}
pairs: [5, 10, 20]
updates: {5: 20, 10: 40, 20: 40}
validations: 4
search: --beam 4
repeated: [{families: [transformer, none], sizes: [m], pairs: [10], seeds: [2]}]
options: >-
  --share-all-embeddings --criterion cross_entropy --optimizer adam --dropout {dropout}
  --lr 0.01 --lr-scheduler polynomial_decay --total-num-update {updates}
  --encoder-embed-dim {width} --encoder-ffn-embed-dim {width} --encoder-layers {layers} --decoder-attention-heads 2
  --decoder-embed-dim {width} --decoder-ffn-embed-dim {width} --decoder-layers {layers}
  --max-source-positions 16 --max-target-positions 16
families:
  transformer: --arch transformer --encoder-attention-heads 2
  heads: --arch resmlp_transformer --mixing-heads 2 --mixing-relative
  none: --arch resmlp_transformer --token-mixing none
"""


@pytest.fixture
def write_study(tmp_path):
    """A function that writes the recipe, with some of its text replaced, and returns its path."""

    def write(*changes):
        text = RECIPE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "study.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    """A folder with ``data-bin``, of 40 pairs for training, and the running text of its validation set."""
    folder = tmp_path_factory.mktemp("work")
    data = folder / "data-bin"
    data.mkdir()
    words = Dictionary()
    for number in range(12):
        words.add_symbol(f"word{number}", 20 - number)
    random = np.random.default_rng(1)
    for lang in "en", "de":
        words.save(str(data / f"dict.{lang}.txt"))
        for subset, pairs in ("train", 40), ("valid", 6):
            sides = [random.integers(4, len(words), random.integers(2, 9)) for _ in range(pairs)]
            builders.binarize(data, subset, lang, [[*sentence, words.eos()] for sentence in sides])
    (folder / "valid.de").write_text("ein Satz aus fünf Wörtern\n" * 6)
    return folder
