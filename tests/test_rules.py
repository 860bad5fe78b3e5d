import numpy as np
import pytest

from gatewise import BadChoice, BrokenTraces, Traces
from gatewise.errors import shown
from gatewise.replays import rules
from gatewise.replays.arrays import Coded


def test_any_sequence_is_a_column_of_one_kind():
    assert isinstance(rules.as_column(["b", None]), Coded)
    kinds = {"b": [True, None], "i": [1, None, 3], "f": [1, 2.5, None], "O": [1, "a", None]}
    for kind, values in kinds.items():
        column = rules.as_column(values)
        assert column.dtype.kind == kind
        assert rules.plain(column).tolist() == values
        assert rules.is_null(column).tolist() == [value is None for value in values]


def test_numbers_too_large_for_a_column_of_numbers_stay_what_they_are():
    assert rules.plain(rules.as_column([2**80, None])).tolist() == [2**80, None]


def test_short_floats_become_the_double_of_their_shortest_decimal_and_keep_their_nulls():
    column = np.ma.masked_array(np.array([0.1, 0.7, np.nan], np.float32), mask=[False, True, False])
    found = rules.as_column(column)
    assert found.data[0] == 0.1
    assert rules.is_null(found).tolist() == [False, True, False]
    assert np.isnan(found.data[2])


def test_names_may_be_whole_numbers_and_sort_as_text():
    found = rules.Violations(())
    column = rules.texts("dataset", rules.as_column(np.array([10, 9, 10])), found)
    assert column.texts().tolist() == ["10", "9", "10"]
    assert column.values.tolist() == ["10", "9"]
    mixed = rules.texts("dataset", rules.as_column([1, "b", None]), found)
    assert mixed.texts().tolist() == ["1", "b", None]
    rules.texts("dataset", rules.as_column([1.5, "b"]), found)
    assert found.total == 1


def test_violations_come_in_the_order_of_rows_whatever_the_order_of_rules():
    found = rules.Violations([("one", 2), ("two", 2)])
    found.add(np.array([3]), "y", lambda row: "later", "p", "r")
    found.add(np.array([2, 0]), "x", lambda row: row, "p", "r")
    with pytest.raises(BrokenTraces) as caught:
        found.raise_if_any()
    assert [(v.file, v.row, v.column) for v in caught.value.violations] == [
        ("one", 1, "x"),
        ("two", 1, "x"),
        ("two", 2, "y"),
    ]
    assert str(caught.value.violations[0]) == "one row 1, column x, value 0: p. r"


def test_values_are_shown_short_and_on_one_line():
    assert shown("x" * 99).endswith("...")
    assert "\n" not in shown("a\nb")
    assert rules._unboxed(np.ma.masked) is None


def test_a_missing_column_names_what_is_there():
    with pytest.raises(
        BadChoice, match=r"found depht \(did you mean depht\?\)|found 'depht' \(did you mean depht\?\)"
    ):
        rules.require({"depht": rules.as_column([0])}, "depth")


def test_a_list_of_numpys_own_numbers_is_read_as_one_of_pythons():
    table = {
        "trace_id": [np.str_("a"), "a"],
        "depth": [np.int64(0), np.int8(1)],
        "confidence": [np.float32(0.7), np.float64(0.9)],
        "correct": [np.bool_(False), np.bool_(True)],
    }
    traces = Traces.from_columns(table)
    assert traces.table["confidence"].tolist() == [0.7, 0.9]
    assert traces.table["correct"].tolist() == [False, True]
