import pytest

from gatewise import calibrate, summarize
from gatewise.files import reconstruction
from gatewise.reports.overviews import report_tables
from gatewise.reports.writing import names_of
from test_results import COLUMNS


@pytest.fixture(scope="module")
def summaries():
    found = []
    for model in ("gpt-oss-120b", "mistral-small-2603"):
        traces = reconstruction(model)
        found.append(summarize(traces.split("test"), calibrated=calibrate(traces), by="dataset"))
    return found


def records(table):
    return [dict(zip(names_of(table), row, strict=True)) for row in table.rows]


def test_every_table_is_rectangular_and_its_best_cells_are_in_it(summaries):
    tables = report_tables(summaries)
    assert list(tables) == [
        "main", "actions", "calibration", "transitions", "top-bin", "thresholds", "budgets", "comparison",
        "by", "by-actions", "by-calibration", "by-transitions",
    ]  # fmt: skip
    for table in tables.values():
        assert len(set(names_of(table))) == len(table.columns)
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert all(row < len(table.rows) and column < len(table.columns) for row, column in table.best)


def test_the_main_table_holds_the_summary_digit_for_digit(summaries):
    points = {(s.model, name): group.systems for s in summaries for name, group in s.datasets.items()}
    rows = [row for row in records(report_tables(summaries)["main"]) if row["dataset"] != "pooled"]
    assert len(rows) == 2 * 2 * 7
    for (key, systems), place in zip(points.items(), range(0, len(rows), 7), strict=True):
        for row, point in zip(rows[place : place + 7], systems.values(), strict=True):
            assert (row["model"], row["dataset"]) == key
            for name in ("overall_accuracy", "committed_accuracy", "coverage", "mean_cost"):
                assert row[name] == getattr(point, name)


def test_the_highest_accuracies_of_each_group_are_best(summaries):
    table = report_tables(summaries)["main"]
    for column in (3, 4):
        best = {table.rows[row][:3] for row, place in table.best if place == column}
        for model in {row[0] for row in table.rows}:
            for dataset in ("hotpotqa", "musique"):
                rows = [row for row in table.rows if row[:2] == (model, dataset)]
                assert {row[:3] for row in rows if row[column] == max(r[column] for r in rows)} == {
                    key for key in best if key[:2] == (model, dataset)
                }


def test_the_better_score_of_each_pair_is_best_and_less_error_is_better(summaries):
    table = report_tables(summaries)["calibration"]
    for place, row in enumerate(table.rows):
        raw, calibrated = row[2], row[3]
        assert ((place, 2) in table.best) == (raw < calibrated)
        assert ((place, 3) in table.best) == (calibrated < raw)
        auroc_raw, auroc_calibrated = row[6], row[7]
        assert ((place, 6) in table.best) == (auroc_raw > auroc_calibrated)


def test_the_mean_of_models_is_the_published_average(summaries):
    row = records(report_tables(summaries)["transitions"])[-1]
    each = [s.pooled.transitions for s in summaries]
    assert row["model"] == "mean of models"
    assert row["helpful_rate"] == sum(one.helpful / one.n for one in each) / 2


def test_without_a_map_no_calibrated_column_is_shown():
    from gatewise import Traces

    tables = report_tables([summarize(Traces.from_columns(COLUMNS))])
    assert "comparison" not in tables
    assert not [name for name in names_of(tables["calibration"]) if "calibrated" in name]
    assert {row["model"] for row in records(tables["main"])} == {None}
