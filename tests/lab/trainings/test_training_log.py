"""Reading fairseq-train's log."""

import json

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.trainings.log import read_log

HEAD = "2026-01-01 00:00:00 | INFO |"
PARAMETERS = f"{HEAD} fairseq_cli.train | num. shared model params: 1,234,567 (num. trained: 1,234,500)"


def inner(updates, speed):
    return f"{HEAD} train_inner | " + json.dumps({"epoch": 1, "wps": str(speed), "num_updates": str(updates)})


def epoch(number, perplexity, updates):
    return [
        f"{HEAD} valid | "
        + json.dumps({"epoch": number, "valid_ppl": str(perplexity), "valid_num_updates": str(updates)}),
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
        "Traceback: killed", PARAMETERS, inner(30, 300), inner(40, 1000), epoch(2, "inf", 30)[0], *epoch(2, 7.5, 40),
    )  # fmt: skip
    training = read_log(path).figures(2)
    assert (training.perplexity, training.parameters, training.words_per_second) == (7.5, 1_234_500, 250)
    assert read_log(path).check_updates(20) == 2


@pytest.mark.parametrize(
    "cut", ['{"epoch": 2, "train_num_upda', '{"epoch": 2, "tra2026-01-01 | INFO | fairseq_cli.train | {"_name": null}']
)
def test_a_line_that_a_kill_has_cut_is_none(log, cut):
    lines = [f"{HEAD} {kind} | {cut}" for kind in ("train", "valid", "train_inner")]
    found = read_log(log(PARAMETERS, inner(10, 100), *epoch(1, 9.5, 20), *lines, inner(30, 300), *epoch(2, 7.5, 40)))
    assert found.check_updates(20) == 2 and found.figures(2).words_per_second == 200


def test_an_unfinished_log_and_other_batches_are_refused(log):
    with pytest.raises(UserError, match="not the log of a whole training of 3 epochs"):
        read_log(log(PARAMETERS, inner(10, 100), *epoch(2, 9.5, 20))).figures(3)
    with pytest.raises(UserError, match="perplexity after epoch 2 is not finite: train with a lower --lr"):
        read_log(log(PARAMETERS, inner(10, 100), *epoch(1, 9.5, 20), *epoch(2, "inf", 20))).figures(2)
    with pytest.raises(UserError, match="41 updates after epoch 2, but the recipe's updates_per_epoch makes 40"):
        read_log(log(*epoch(1, 9.5, 20), *epoch(2, 9.5, 41))).check_updates(20)
    in_fp16 = [line.replace('"train_wps"', '"train_loss_scale": "4", "train_wps"') for line in epoch(2, 9.5, 37)]
    assert read_log(log(*in_fp16)).check_updates(20) == 2  # three updates overflowed in fp16


SIMPLE = [
    f"{HEAD} train_inner | epoch 001:     10 / 273 loss=9.366, nll_loss=9.24, ppl=619.1, wps=608.1, ups=1.5, wpb=386, "
    "bsz=21.4, num_updates=10, lr=0.0088, gnorm=9.898, clip=100, train_wall=6, wall=11",
    f"{HEAD} valid | epoch 001 | valid on 'valid' subset | loss 8.5 | ppl 270.2 | wps 100 | num_updates 20",
    f"{HEAD} train | epoch 001 | loss 9.1 | ppl 500 | wps 1 | num_updates 20 | lr 0.01",
    f"{HEAD} train_inner | epoch 002: 10 / 273 loss=7.5, nll_loss=nan, ppl=81, wps=0, num_updates=30, lr=2e-05, gno",
]


def has(found, expected):
    return found.keys() == expected.keys() and all(found[at].items() >= expected[at].items() for at in expected)


def test_curves_are_read_from_both_formats(log):
    again = SIMPLE[0].replace("loss=9.366", "loss=9.1")
    curves = read_log(log(*SIMPLE, again, f'{HEAD} train_inner | {{"num_updates": "40", "lo'))
    first = {"loss": 9.1, "ppl": 619.1, "lr": 0.0088, "wps": 608.1}
    assert has(curves.training, {10: first, 30: {"loss": 7.5, "ppl": 81, "lr": 2e-05, "wps": 0}})
    assert "nll_loss" not in curves.training[30]  # nan
    assert has(curves.validation, {20: {"loss": 8.5, "ppl": 270.2}})

    told = {"update": 0.5, "loss": "5.5", "ppl": "45.3", "lr": "0.1", "wps": "700", "num_updates": "10"}
    valid = {"valid_loss": "4.5", "valid_nll_loss": "4.1", "valid_ppl": "22.6", "valid_num_updates": "10"}
    curves = read_log(log(f"{HEAD} train_inner | {json.dumps(told)}", f"{HEAD} valid | {json.dumps(valid)}"))
    assert has(curves.training, {10: {"update": 0.5, "loss": 5.5, "ppl": 45.3, "lr": 0.1, "wps": 700}})
    assert has(curves.validation, {10: {"loss": 4.5, "nll_loss": 4.1, "ppl": 22.6}})
