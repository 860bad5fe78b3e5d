import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from gatewise import BadChoice, BrokenTraces, Traces

TWO = {
    "trace_id": ["a", "a", "b"],
    "depth": [0, 1, 0],
    "confidence": [0.4, 0.9, None],
    "correct": [False, True, None],
}


def broken(**changes):
    with pytest.raises(BrokenTraces) as caught:
        Traces.from_columns({**TWO, **changes})
    return caught.value


@given(strategies.tables(), st.integers(0, 99))
def test_rows_in_any_order_give_the_same_traces(table, seed):
    columns = strategies.columns(table)
    assert Traces.from_columns(strategies.shuffled(columns, seed)).digest() == Traces.from_columns(columns).digest()


@given(strategies.tables())
def test_blocks_hold_every_state_where_it_belongs(table):
    traces = strategies.traces(table)
    for row, trace in enumerate(sorted(table, key=lambda trace: trace["id"])):
        assert traces.lengths[row] == len(trace["states"])
        for depth, state in enumerate(trace["states"]):
            confidence = traces.confidence[row, depth]
            assert (None if math.isnan(confidence) else confidence) == state["confidence"]
            assert traces.correct[row, depth] == {True: 1, False: 0, None: -1}[state["correct"]]
            assert traces.cost[row, depth] == state["cost"]
            assert traces.new[row, depth] == (state["new"] or depth == 0)
        past = slice(len(trace["states"]), None)
        assert np.isnan(traces.confidence[row, past]).all()
        assert (traces.correct[row, past] == -1).all()
        assert not traces.cost[row, past].any()
        assert not traces.new[row, past].any()


def test_traces_stand_in_the_order_of_model_and_id():
    columns = {"trace_id": ["b", "a", "a"], "depth": [0] * 3, "confidence": [0.1] * 3, "correct": [1, 0, 1]}
    traces = Traces.from_columns({**columns, "model": ["m", "n", "m"]})
    assert list(zip(traces.models, traces.ids, strict=True)) == [("m", "a"), ("m", "b"), ("n", "a")]


def test_without_a_split_column_every_trace_is_test_and_null_columns_are_absent():
    traces = Traces.from_columns({**TWO, "split": [None] * 3, "cost": [None] * 3, "mine": [None] * 3})
    assert traces.splits.tolist() == ["test", "test"]
    assert traces.cost.tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert "mine" not in traces.table


def test_short_floats_are_read_by_their_shortest_decimal():
    columns = {**TWO, "confidence": np.array([0.7, 0.1, 0.3], np.float32)}
    assert Traces.from_columns(columns).confidence[0].tolist() == [0.7, 0.1]
    columns["confidence"] = np.array([0.7, 0.1, 0.3], np.float16)
    assert Traces.from_columns(columns).confidence[0].tolist() == [0.7, 0.1]


def test_labels_may_be_numbers_and_depths_any_whole_numbers():
    columns = {**TWO, "correct": np.array([0, 1, 1], np.uint8), "depth": np.array([0, 1, 0], np.int8)}
    assert Traces.from_columns(columns).correct.tolist() == [[0, 1], [1, -1]]
    assert Traces.from_columns({**TWO, "correct": [0.0, 1.0, None]}).correct.tolist() == [[0, 1], [-1, -1]]


def test_the_first_ten_violations_are_listed_and_all_are_counted():
    size = 30
    columns = {
        "trace_id": [str(i) for i in range(size)],
        "depth": [0] * size,
        "confidence": [2.5] * size,
        "correct": [True] * size,
        "dataset": ["x"] * size,
    }
    with pytest.raises(BrokenTraces) as caught:
        Traces.from_columns(columns, sources=[("one.csv", 4), ("two.csv", 26)])
    assert caught.value.total == 30
    places = [(violation.file, violation.row) for violation in caught.value.violations]
    assert places == [("one.csv", row) for row in (1, 2, 3, 4)] + [("two.csv", row) for row in (1, 2, 3, 4, 5, 6)]


def test_different_rules_are_reported_together_in_the_order_of_rows():
    error = broken(confidence=[0.4, "85%", 1.2], correct=[False, "yes", None])
    found = [(violation.row, violation.column) for violation in error.violations]
    assert sorted(found) == found == [(2, "confidence"), (2, "correct"), (3, "confidence")]


@pytest.mark.parametrize("value", [1.2, -0.1, math.nan, math.inf, "85%", "0.5", True, 85])
def test_a_confidence_that_is_no_number_in_range_is_refused(value):
    assert broken(confidence=[0.4, value, 0.5]).violations[0].row == 2


def test_percent_is_recognised_and_mixed_scales_are_called_so():
    assert "Divide percentages by 100." in str(broken(confidence=[40, 90, 85]))
    assert "mixes the scales" in str(broken(confidence=[0.4, 90, 85]))


def test_states_that_stand_twice_and_depths_that_are_missing_are_refused():
    assert "found this depth before" in str(broken(depth=[0, 0, 0]))
    assert "without a gap" in str(broken(depth=[0, 2, 0]))
    assert "without a gap" in str(broken(depth=[0, 1, 1]))


@pytest.mark.parametrize("column", ["dataset", "split", "plan", "question"])
def test_descriptions_are_constant_within_a_trace(column):
    error = broken(**{column: ["test", "validation", "test"]})
    assert (error.violations[0].row, error.violations[0].column) == (2, column)
    assert broken(**{column: ["test", None, "test"]}).total >= 1


def test_a_copy_that_differs_is_a_warning_and_no_transition():
    traces = Traces.from_columns({**TWO, "new_passages": [None, 0, None]})
    assert "1 of 1 states marked as copies" in traces.warnings[0]
    same = {**TWO, "confidence": [0.4, 0.4, None], "correct": [True, True, None], "new_passages": [None, 0, None]}
    assert Traces.from_columns(same).warnings == ()
    assert Traces.from_columns({**same, "answer": ["x", "y", "z"]}).warnings != ()


def test_prices_are_marginal_and_depth_zero_is_free_unless_another_column_says_so():
    assert broken(cost=[1.0, 1.0, 0.0]).violations[0].row == 1
    assert broken(cost=[0, -1, 0]).violations[0].row == 2
    assert broken(cost=[None, None, 0.5]).total == 2
    paid = Traces.from_columns({**TWO, "usd": [0.5, 0.25, 0.125]}, cost="usd")
    assert paid.cost.tolist() == [[0.5, 0.25], [0.125, 0.0]]


def test_a_signal_or_price_that_is_not_there_names_the_nearest():
    with pytest.raises(BadChoice, match="did you mean confidence"):
        Traces.from_columns(TWO, signal="confidance")
    with pytest.raises(BadChoice, match="'usd'"):
        Traces.from_columns(TWO, cost="usd")


def test_gates_may_look_at_another_signal_of_the_same_states():
    traces = Traces.from_columns({**TWO, "p_true": [0.1, 0.2, 0.3]}, signal="p_true")
    assert traces.confidence[0].tolist() == [0.1, 0.2]
    assert sorted(traces.signals) == ["confidence", "p_true"]


def test_ids_may_be_whole_numbers():
    traces = Traces.from_columns({**TWO, "trace_id": [10, 10, 9]})
    assert traces.ids.tolist() == ["10", "9"]


def test_a_subgroup_column_must_be_constant_within_traces():
    traces = Traces.from_columns({**TWO, "hops": [2, 2, 3], "answer": ["x", "y", "z"]})
    assert traces.column("hops").tolist() == [2, 3]
    with pytest.raises(BadChoice, match="changes within trace 'a'"):
        traces.column("answer")
    with pytest.raises(BadChoice, match="did you mean hops"):
        traces.column("hop")


def test_choosing_what_does_not_occur_names_the_nearest():
    traces = Traces.from_columns({**TWO, "model": ["gpt", "gpt", "qwen"], "dataset": ["x", "x", "y"]})
    assert traces.choose(["gpt"]).ids.tolist() == ["a"]
    assert traces.choose(["gpt"]).depths == 2
    assert traces.choose(["qwen"]).depths == 1
    with pytest.raises(BadChoice, match="did you mean qwen"):
        traces.choose(["qwem"])
    with pytest.raises(BadChoice, match="none that are both"):
        traces.choose(["gpt"], ["y"])


def test_a_selection_keeps_the_rows_of_the_table():
    traces = Traces.from_columns({**TWO, "answer": ["x", "y", "z"]})
    assert traces.select(traces.ids == "b").table["answer"].texts().tolist() == ["z"]


def test_columns_of_different_lengths_and_no_rows_are_refused():
    with pytest.raises(BadChoice, match="one length"):
        Traces.from_columns({**TWO, "depth": [0]})
    with pytest.raises(BadChoice, match="one length"):
        Traces.from_columns({name: [] for name in TWO})


def test_control_characters_in_bad_values_reach_no_terminal():
    assert "\x1b" not in str(broken(confidence=["\x1b[31mred", 0.5, 0.5]))


def test_blocks_are_read_only_in_whatever_selection():
    traces = Traces.from_columns({**TWO, "model": ["m"] * 3, "split": ["test"] * 3})
    for one in (traces, traces.select(traces.ids == "a"), traces.unpriced()):
        for block in (one.ids, one.models, one.lengths, one.confidence, one.correct, one.new, one.cost):
            with pytest.raises(ValueError, match="read-only"):
                block[0] = block[0]


def test_traces_without_a_model_beside_a_named_one_are_two_models():
    mixed = Traces.from_columns({**TWO, "model": ["m", "m", None]})
    with pytest.raises(BadChoice, match=r"found 2: 'm', no model. Choose one with --model"):
        mixed.require_one_model()
    assert mixed.choose(["m"]).require_one_model() == "m"
    assert Traces.from_columns(TWO).require_one_model() is None


def test_numbers_beside_texts_group_as_texts():
    one = {"trace_id": ["a", "b", "c", "d"], "depth": [0] * 4, "confidence": [0.5] * 4, "correct": [True] * 4}
    traces = Traces.from_columns({**one, "hops": [3, "3", True, None], "share": [math.inf, math.nan, 0.5, None]})
    assert traces.column("hops").tolist() == ["3", "3", "true", None]
    assert traces.column("share").tolist() == ["inf", "nan", "0.5", None]


@pytest.mark.parametrize("value", [[1], {"a": 1}])
def test_a_subgroup_column_holds_single_values(value):
    traces = Traces.from_columns({**TWO, "tags": [value, value, "x"]})
    with pytest.raises(BadChoice, match=r"single values to group by, found .* in 'tags'. Choose another"):
        traces.column("tags")


def test_numbers_that_no_double_can_hold_are_refused_where_they_stand():
    assert "no finite number" in str(broken(confidence=[0.4, 10**400, 0.5]))
    error = broken(cost=[0, 1e308, 0])
    assert (error.violations[0].row, error.violations[0].column) == (2, "cost")
    assert "larger unit" in str(error)


def test_what_cannot_be_chosen_lists_what_can_and_how():
    traces = Traces.from_columns({**TWO, "model": ["m"] * 3})
    for attempt, message in (
        (lambda: traces.choose(["n"]), r"\('m'\), found 'n'. Choose one with --model"),
        (lambda: traces.choose([], ["n"]), "Choose one with --dataset"),
        (lambda: traces.column("nope"), r"\('trace_id', 'depth', .*Choose one with --by"),
        (lambda: Traces.from_columns(TWO, cost="nope"), "found 'trace_id', .*with --cost, or add it"),
        (lambda: Traces.from_columns(TWO, signal="nope"), "found 'trace_id', .*with --signal, or add it"),
    ):
        with pytest.raises(BadChoice, match=message):
            attempt()


def test_an_id_of_another_kind_is_one_violation_and_not_two():
    with pytest.raises(BrokenTraces, match="1 place") as caught:
        Traces.from_columns({**TWO, "trace_id": ["a", "a", True]})
    assert [(one.row, one.value) for one in caught.value.violations] == [(3, "True")]
