import pytest

from gatewise import Isotonic, Traces, calibrate, frontier, read, summarize
from gatewise.reports.results import frontier_table, readings_table, summary_tables
from gatewise.reports.tables import text

COLUMNS = {
    "trace_id": ["a", "a", "b", "c", "c"],
    "depth": [0, 1, 0, 0, 1],
    "confidence": [0.4, 0.9, None, 0.2, 0.8],
    "correct": [False, True, None, False, True],
    "split": ["test", "test", "test", "calibration", "calibration"],
    "dataset": ["x"] * 5,
    "question": ["Who?", "Who?", "What?", "Where?", "Where?"],
}


@pytest.fixture
def summary():
    traces = Traces.from_columns(COLUMNS)
    return summarize(traces.split("test"), calibrated=calibrate(traces), by="dataset")


def test_every_table_is_rectangular_and_aligned(summary):
    tables = list(summary_tables(summary))
    assert len(tables) > 10
    for table in tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
        lines = text(table).splitlines()
        assert lines[0] == table.title
        if table.columns[-1].kind != "text":
            assert len({len(line) for line in lines[1 : 2 + len(table.rows)]}) == 1


def test_ratios_of_nothing_show_as_a_dash_and_missing_verdicts_are_noted(summary):
    shown = "\n".join(map(text, summary_tables(summary)))
    assert "–" in shown
    assert "1 commits of a system have no verdict" in shown
    assert "None" not in shown
    assert "nan" not in shown


def test_a_frontier_shows_its_best_points_and_its_readings():
    surface = frontier(Traces.from_columns(COLUMNS))
    assert "0.8" in text(frontier_table("raw", surface))
    rows = [("raw", budget, reading) for budget, reading in enumerate(read(surface, "coverage", 0.9))]
    assert text(readings_table("At", rows)).count("not attainable") == 2


def test_the_raw_thresholds_of_a_sweep_are_shown_to_the_last_digit():
    score = Isotonic((0.1, 0.9), (0.25, 1.0))  # 0.33 lies between the knots, at no short decimal
    traces = Traces.from_columns(COLUMNS).split("test")
    summary = summarize(traces, calibrated=score)
    shown = "\n".join(map(text, summary_tables(summary)))
    steps = summary.thresholds["calibrated"]
    assert steps
    assert len(repr(steps[1].equivalent[1])) > 10
    for step in steps:
        assert not step.point.committed or repr(step.equivalent[1]) in shown
    assert steps[0].equivalent[0] is None  # every score lies above .2
    assert "raw lo –: never abstains" in shown
