"""Binarized data of a made-up language, with a test set, and the recipe of a small table."""

import pytest
from fairseq_commands import TRAIN, VALID, prepare

RECIPE = """
title: A table
baseline: paper
max_epoch: {max_epoch}
updates_per_epoch: 5
languages: de-en
reference: test.en
seed: 1
average: 2
batches: --batch-size 24 --required-batch-size-multiple 1
search: --beam 4 --lenpen 1 --batch-size 64 --cpu
options: >-
  --arch resmlp_transformer_tiny --share-all-embeddings --dropout 0.1 --cpu
  --optimizer adam --lr 0.01 --lr-scheduler polynomial_decay --total-num-update ${{updates}}
rows:
  paper:
  relu: --activation-fn relu
  broken: --dropout 2
"""


@pytest.fixture(scope="session")
def write_recipe():
    def write(path, max_epoch=24):
        path.write_text(RECIPE.format(max_epoch=max_epoch))
        return path

    return write


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    prepare(folder, "de", "en", train=("train", TRAIN, 1), valid=("valid", VALID, 2), test=("test", 40, 3))
    return folder
