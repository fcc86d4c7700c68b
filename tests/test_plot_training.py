"""resmlp-mt plot-training: curves of trainings from their logs."""

import pytest

from resmlp_mt.common.errors import UserError
from scripts import printed_by

pytest.importorskip("matplotlib")

from resmlp_mt.lab.drawing import OTHERS, SYSTEMS, colors_of
from resmlp_mt.lab.trainings.log import TrainingLog, figure_of

LINE = "2026-01-01 00:00:00 | INFO | train_inner | epoch 001: 1 / 9 loss=9, ppl=600, wps=500, num_updates={}, lr=0.1\n"
END = "2026-01-01 00:00:00 | INFO | train | epoch 001 | loss 9 | ppl 500 | wps 1 | num_updates 24 | lr 0.1\n"

plot_training = printed_by("plot-training")


def test_runs_are_drawn_by_the_names_of_their_folders_in_a_png_if_they_have_an_update(plot_training, tmp_path):
    logs = [tmp_path / run / "train.log" for run in ("one", "other")]
    for log in logs:
        log.parent.mkdir()
        log.write_text(LINE.format(10) + LINE.format(20) + END)
    out = plot_training(*logs, "--out", tmp_path / "new" / "both.png")
    assert out.splitlines()[:2] == ["one: 24 updates", "other: 24 updates"]
    assert (tmp_path / "new" / "both.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match=r"both\.pdf: pictures are PNG: give a name that ends in \.png"):
        plot_training(*logs, "--out", tmp_path / "new" / "both.pdf")
    (tmp_path / "empty.log").write_text("")
    with pytest.raises(UserError, match=r"empty\.log: no update is told in it"):
        plot_training(tmp_path / "empty.log", "--out", tmp_path / "out.png")
    assert not (tmp_path / "out.png").exists()


@pytest.mark.parametrize("number", [1, 17])
def test_every_panel_has_an_axis_with_its_unit_and_every_run_a_line_of_its_own(number):
    training = {10.0 * i: {"loss": 9.0 / i, "ppl": 2 ** (9 / i), "lr": 0.1, "wps": 500.0} for i in range(1, 5)}
    figure = figure_of({f"run {i}": TrainingLog("log", training, {}, {}, 1) for i in range(number)})
    assert all(axis.get_ylabel() for axis in figure.axes)
    assert [axis.get_xlabel() for axis in figure.axes] == [""] * 3 + ["updates"] * 3
    loss, perplexity, *_ = figure.axes
    assert perplexity.get_yscale() == "log" and "logarithmic" in perplexity.get_ylabel()
    assert list(loss.lines[0].get_ydata()) == [9.0, 4.5, 3.0, 2.25]
    assert len({(line.get_color(), line.get_linestyle()) for line in loss.lines}) == number
    assert sum("not in the log" in text.get_text() for axis in figure.axes for text in axis.texts) == 2  # validation


def test_a_system_has_one_color_whatever_it_is_beside():
    one, other = colors_of(["lstm", "mine", "transformer"]), colors_of(["Transformer", "transformer, 2 processes"])
    assert {one["transformer"], *other.values()} == {SYSTEMS["transformer"]}
    assert len({*map(SYSTEMS.get, ("transformer", "gated", "dynamicconv", "lightconv", "resmlp_transformer"))}) == 5
    assert one["mine"] == OTHERS[0] and len(set(one.values())) == 3
    seeds = colors_of(["mine, seed 1", "mine, seed 2", "other, seed 1", "paper, seed 2"])
    assert list(seeds.values()) == [OTHERS[0], OTHERS[0], OTHERS[1], SYSTEMS["paper"]]
