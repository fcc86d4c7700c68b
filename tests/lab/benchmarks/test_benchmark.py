"""The command: tiny runs of each kind, read back from JSON, and what it refuses."""

import json
from dataclasses import asdict, replace

import pytest

from resmlp_mt.cli.benchmark import benchmark as parser
from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.benchmarks.command import FULL, SIZES, comparisons, section_of
from resmlp_mt.lab.benchmarks.measuring import per_second, speed_ratio
from resmlp_mt.lab.benchmarks.systems import Shape
from scripts import printed_by

TINY = (
    "--width", 8, "--mlp", 8, "--layers", 1, "--heads", 2, "--vocabulary", 24, "--threads", 1, "--rounds", 2,
    "--warmup", 1, "--no-memory", "--system", "resmlp_transformer", "--system", "transformer",
)  # fmt: skip


benchmark = printed_by("benchmark")


@pytest.fixture
def measured(benchmark, tmp_path):
    """A function that runs a benchmark; it returns the section of the JSON file, its rows, and what was printed."""

    def call(kind, *args):
        shown = benchmark(kind, *args, "--json", tmp_path / "result.json")
        run = json.loads((tmp_path / "result.json").read_text())
        assert run["command"].startswith("resmlp-mt benchmark ")
        [section] = run["sections"]
        assert section["kind"] == kind
        assert section["machine"]["torch"]
        for row in section["rows"]:
            assert all(second > 0 for pieces in row["seconds"] for second in pieces)
            assert 0 < row["rate"]["low"] <= row["rate"]["median"] <= row["rate"]["high"]
        return section, section["rows"], shown

    return call


def test_training(measured, tmp_path):
    pytest.importorskip("matplotlib")
    document, plots = tmp_path / "docs" / "result.md", tmp_path / "docs" / "plots"
    output = "--markdown", document, "--plots", plots
    section, (ours, theirs), shown = measured("training", *TINY, "--shapes", "4x3", "--padding", 0, *output)
    assert section["by"] == "sentences"
    assert (ours["system"], theirs["system"]) == ("resmlp_transformer", "transformer")
    for row in ours, theirs:
        assert row["rate"] == asdict(per_second(12, row["seconds"]))
        assert row["ratio"] == asdict(speed_ratio(row["seconds"], theirs["seconds"]))
        assert row["system"] in shown
    assert ours["flop_ratio"] > 1
    assert "![Training](plots/training.png)" in document.read_text()
    assert (plots / "training.png").stat().st_size > 5000


def test_generation(measured):
    section, rows, shown = measured("generation", *TINY, "--shapes", "5x1", "4x2", "--sentences", 2, "--beam", 2)
    assert section["by"] == "length"
    two_of_a_length = replace(FULL[0], shapes=(Shape(5, 1), Shape(5, 2), Shape(4, 1)))
    assert section_of(two_of_a_length).by == "sentences"  # a curve over lengths would leave one out
    assert section["settings"]["beam"] == "2"
    assert [len(row["seconds"][0]) for row in rows] == [2, 2, 1, 1]  # two sentences, one by one and together
    assert all(row["latency"][0] <= row["latency"][1] for row in rows[:2])
    assert [row["latency"] for row in rows[2:]] == [None, None]
    assert {row["memory"] for row in rows} == {None}
    assert "p99 ms" in shown


@pytest.mark.parametrize(("size", "other"), [("small", "base"), ("base", "small")])
def test_titles_name_the_size_that_is_measured_and_no_two_comparisons_have_one_title(size, other):
    chosen = comparisons(parser().parse_args(["all", "--size", size]))
    titles = {each.title for each in chosen}
    assert len(titles) == len(chosen) == len(FULL) and {each.size for each in chosen} == {SIZES[size]}
    assert sum(size in title for title in titles) == 4 and not any(other in title for title in titles)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["training", "--shapes", "0x0"], "no shape"),
        (["training", "--json", "/dev/null"], "/dev/null: is not a regular file"),
        (["generation", "--system", "any.pt"], "any.pt: give an architecture; benchmark translate"),
        (["training", "--baseline", "lstm"], "lstm is not among the systems: give --baseline, one of "),
        (["training", "--system", "transformer:nonsense=1"], "unrecognized arguments: --nonsense=1"),
        (["training", "--system", "resmlp_transformer:cpu-matmul=blas"], "here: write resmlp_transformer@onednn"),
    ],
)
def test_what_cannot_be_is_one_line(benchmark, monkeypatch, tmp_path, args, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        benchmark(args[0], *TINY, "--shapes", "3x1", *args[1:])
