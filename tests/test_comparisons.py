import math

import pytest
from hypothesis import given

import strategies
from gatewise import FixedDepth, Threshold, Traces, Unmatched, compare, measure, replay

TWO = {
    "trace_id": ["a", "a", "b"],
    "depth": [0, 1, 0],
    "confidence": [0.4, 0.9, None],
    "correct": [False, True, None],
}


@given(strategies.tables(), strategies.tied)
def test_paired_differences_are_exact_and_complete(table, hi):
    traces = strategies.traces(table)
    one, two = replay(traces, FixedDepth(1)), replay(traces, Threshold(lo=0.0, hi=hi))
    both = compare(one, two)
    assert (both.first, both.second) == (measure(one), measure(two))
    assert both.both_right + both.first_right == both.first.correct
    assert both.both_right + both.second_right == both.second.correct
    paid = [
        (traces.cost[row, d], two.paid[row, d], one.paid[row, d])
        for row in range(len(traces))
        for d in range(traces.depths)
    ]
    assert both.cost == math.fsum(price * (int(there) - int(here)) for price, there, here in paid)
    assert both.moved == sum(
        (a, d) != (b, e)
        for a, d, b, e in zip(
            one.action.tolist(), one.depth.tolist(), two.action.tolist(), two.depth.tolist(), strict=True
        )
    )
    backwards = compare(two, one)
    assert (backwards.cost, backwards.correct, backwards.committed) == (-both.cost, -both.correct, -both.committed)


@pytest.mark.parametrize(
    "change",
    [
        {"trace_id": ["a", "a", "c"]},
        {"correct": [False, False, None]},
        {"plan": ["p", "p", "q"]},
        {"dataset": ["x", "x", "x"]},
        {"cost": [0, 2, 0]},
        {"trace_id": ["a", "a", "a"], "depth": [0, 1, 2]},
    ],
)
def test_replays_of_other_states_are_refused(change):
    one = replay(Traces.from_columns(TWO), FixedDepth(0))
    two = replay(Traces.from_columns({**TWO, **change}), FixedDepth(0))
    with pytest.raises(Unmatched, match="same states"):
        compare(one, two)


def test_two_readings_of_the_same_states_are_matched_even_on_different_signals():
    columns = {**TWO, "p_true": [0.9, 0.9, 0.1]}
    one = replay(Traces.from_columns(columns), Threshold())
    two = replay(Traces.from_columns(columns, signal="p_true"), Threshold())
    assert compare(one, two).moved == 2


def test_differences_of_accuracy_are_none_where_verdicts_are_missing():
    traces = Traces.from_columns(TWO)
    both = compare(replay(traces, FixedDepth(0)), replay(traces, FixedDepth(1)))
    assert both.overall_accuracy is None
    assert both.coverage == 0
    assert both.mean_cost == 0.5
