"""Reading fairseq-train's log."""

import json

import pytest

from resmlp_mt.ablations.training_log import check_updates, read_training
from resmlp_mt.errors import UserError

HEAD = "2026-01-01 00:00:00 | INFO |"
PARAMETERS = f"{HEAD} fairseq_cli.train | num. shared model params: 1,234,567 (num. trained: 1,234,500)"


def inner(updates, speed):
    return f"{HEAD} train_inner | " + json.dumps({"epoch": 1, "wps": str(speed), "num_updates": str(updates)})


def epoch(number, perplexity, updates):
    return [
        f"{HEAD} valid | " + json.dumps({"epoch": number, "valid_ppl": str(perplexity)}),
        f"{HEAD} train | " + json.dumps({"epoch": number, "train_num_updates": str(updates), "train_wps": "1"}),
    ]


@pytest.fixture
def log(tmp_path):
    def write(*lines):
        path = tmp_path / "train.log"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def test_what_was_done_twice_counts_once_as_it_was_the_last_time(log):
    path = log(
        PARAMETERS, inner(10, 100), inner(20, 200), *epoch(1, 9.5, 20), inner(30, 1), *epoch(2, 8.8, 40),
        "Traceback: killed", PARAMETERS, inner(30, 300), inner(40, 1000), *epoch(2, 7.5, 40),
    )  # fmt: skip
    training = read_training(path, 2)
    assert (training.perplexity, training.parameters, training.words_per_second) == (7.5, 1_234_500, 250)
    check_updates(path, 20)


@pytest.mark.parametrize(
    "cut",
    [
        '{"epoch": 2, "train_num_upda',
        '{"epoch": 2, "tra2026-01-01 | INFO | fairseq_cli.train | {"_name": null}',
        "{'_name': None}",
        '{"epoch": 2}',
        '{"epoch": null, "train_num_updates": "7", "valid_ppl": "1"}',
        '{"epoch": 2, "train_num_updates": [7], "valid_ppl": [1]}',
        '{"epoch": 1e999, "train_num_updates": "7", "valid_ppl": "1"}',
        "{" + '"a": {' * 100_000 + "}" * 100_001,
    ],
)
def test_a_line_that_a_kill_has_cut_is_none(log, cut):
    lines = [f"{HEAD} {kind} | {cut}" for kind in ("train", "valid", "train_inner")]
    path = log(PARAMETERS, inner(10, 100), *epoch(1, 9.5, 20), *lines, inner(30, 300), *epoch(2, 7.5, 40))
    check_updates(path, 20)
    assert read_training(path, 2).words_per_second == 200


def test_an_unfinished_log_is_refused(log):
    with pytest.raises(UserError, match="not the log of a whole training of 3 epochs"):
        read_training(log(PARAMETERS, inner(10, 100), *epoch(2, 9.5, 20)), 3)


def test_other_batches_are_refused(log):
    with pytest.raises(UserError, match="41 updates after epoch 2, not 40"):
        check_updates(log(*epoch(1, 9.5, 20), *epoch(2, 9.5, 41)), 20)
