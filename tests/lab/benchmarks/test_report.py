"""Measurements as a table and as pictures."""

from dataclasses import replace

import pytest

from resmlp_mt.lab.benchmarks import report
from resmlp_mt.lab.benchmarks.measuring import Measurement, Quartiles
from resmlp_mt.lab.benchmarks.report import Section

SHORT, LONG = ("8x1", 8, 1, 8), ("16x4", 16, 4, 60)
ROWS = [
    Measurement("new", *SHORT, Quartiles(200, 150, 250), Quartiles(2, 1.5, 2.5), 1.4, 10, 3e6, (0.04, 0.05), [[0.04]]),
    Measurement("old", *SHORT, Quartiles(100, 90, 110), Quartiles(1, 1, 1), 1.0, 14, 4e6, (0.08, 0.09), [[0.08]]),
    Measurement("new", *LONG, Quartiles(900, 800, 1000), Quartiles(3, 2, 4), seconds=[[0.07]]),
    Measurement("old", *LONG, Quartiles(300, 290, 310), Quartiles(1, 1, 1), seconds=[[0.21]]),
]
SECTION = Section("A title", "generation", "length", "old", {"width": "8"}, {"torch": "2"}, ["A note."], ROWS)


def test_a_table_has_a_column_for_what_was_measured():
    header, first, second, third, _ = report.table(SECTION)
    assert dict(zip(header, first, strict=True)) == {
        "length x sentences": "8x1",
        "system": "new",
        "tokens/s": "200 [150 - 250]",
        "times as fast as old": "2.00 [1.50 - 2.50]",
        "FLOPs alone": "1.40",
        "sentences/s": "25.00",
        "p50 ms": "40.0",
        "p99 ms": "50.0",
        "peak MB": "3",
        "of old's": "0.75",
        "kB a token": "375",
    }
    assert second[-2:] == ["1.00", "500"]
    assert third[header.index("FLOPs alone") :] == ["", "56.25", "", "", "", "", ""]
    header, *_ = report.table(replace(SECTION, kind="training", rows=ROWS[2:]))
    assert header == ["length x sentences", "system", "tokens/s", "times as fast as old"]


def test_pictures_hold_every_measurement():
    pytest.importorskip("matplotlib")
    speed, *_ = report.by_length(SECTION).axes
    assert [list(line.get_ydata()) for line in speed.lines if line.get_marker() in "os"] == [[2, 3], [1, 1]]
    ratios, rates = report.by_sentences(SECTION).axes
    assert [bar.get_height() for bar in ratios.patches] == [2, 3, 1, 1]
    assert [bar.get_height() for bar in rates.patches] == [200, 900, 100, 300]
