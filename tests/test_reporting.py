from gatewise import Traces
from gatewise.studies import reporting
from gatewise.studies.reporting import Choices, find_all, subjects, write_report
from test_results import COLUMNS


def test_every_table_and_figure_that_can_be_written_is_explained():
    from gatewise.reports.plots import figures

    found, _ = find_all(subjects(Traces.from_columns(COLUMNS)), Choices(by="dataset"))
    assert set(figures(found)) <= set(reporting.FIGURES)
    tables = reporting.report_tables([one.summary for one in found])
    assert set(tables) <= set(reporting.TABLES)


def test_a_model_without_traces_of_the_split_is_left_out_and_said_so():
    columns = {**COLUMNS, "model": ["m", "m", "m", "k", "k"]}
    found, warnings = find_all(subjects(Traces.from_columns(columns)))
    assert [one.model for one in found] == ["m"]
    assert any(text.startswith("k: no traces of split test") for text in warnings)
    assert any("m: no calibration split" in text for text in warnings)
    assert find_all(subjects(Traces.from_columns(columns)), Choices(split="validation"))[0] == []


def test_progress_counts_the_files(tmp_path):
    seen = []
    found, warnings = find_all(subjects(Traces.from_columns(COLUMNS)))
    numbers = write_report(
        tmp_path / "r",
        found,
        warnings=warnings,
        figures=False,
        progress=lambda what, done, total: seen.append((done, total)),
    )
    assert seen == [(at, len(numbers["files"])) for at in range(len(numbers["files"]))]


def test_more_traces_than_a_page_holds_are_reported_without_one(monkeypatch):
    monkeypatch.setattr(reporting, "MOST", 1)
    traces = Traces.from_columns(COLUMNS)
    found, _ = find_all(subjects(traces))
    page, why = reporting.page_of(traces, found, Choices(), origin=reporting.Origin())
    assert page is None
    assert "gatewise explore" in why
    monkeypatch.setattr(reporting, "MOST", 2)
    page, why = reporting.page_of(traces, found, Choices(), origin=reporting.Origin())
    assert (page().startswith("<!doctype html>"), why) == (True, "")


def test_a_figure_no_wider_than_a_column_is_drawn_once_for_both(tmp_path, monkeypatch):
    assert reporting.KINDS == ("pdf", "svg", "png")
    monkeypatch.setattr(reporting, "KINDS", ("svg", "png"))
    found, _ = find_all(subjects(Traces.from_columns(COLUMNS)))
    paths = reporting.write_figures(tmp_path, found)
    for path in paths:
        if path.stem.endswith("-column"):
            whole = path.with_name(path.name.replace("-column", ""))
            assert path.read_bytes() == whole.read_bytes()
