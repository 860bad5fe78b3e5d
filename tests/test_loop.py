import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
import strategies
from gatewise import Action, BadChoice, BadPolicy, FixedDepth, Threshold, Traces, replay

CODES = {"commit": 0, "retrieve": 1, "abstain": 2, "escalate": 3}
TWO = {
    "trace_id": ["a", "a", "b"],
    "depth": [0, 1, 0],
    "confidence": [0.4, 0.9, None],
    "correct": [False, True, None],
}


@given(strategies.tables(depths=6), st.tuples(strategies.tied, strategies.tied).map(sorted), st.integers(0, 7))
def test_the_gate_walks_as_the_oracle_walks(table, gate, budget):
    lo, hi = gate
    found = replay(strategies.traces(table), Threshold(lo=lo, hi=hi), budget=budget)
    expected = [oracles.gate(trace, lo, hi, budget) for trace in strategies.states(table)]
    assert found.action.tolist() == [CODES[action] for action, _ in expected]
    assert found.depth.tolist() == [depth for _, depth in expected]


@given(strategies.tables(depths=6), st.integers(0, 7), st.integers(0, 7))
def test_a_fixed_depth_commits_there_or_where_evidence_or_budget_ends(table, depth, budget):
    found = replay(strategies.traces(table), FixedDepth(depth), budget=budget)
    assert set(found.action.tolist()) == {Action.COMMIT}
    assert found.depth.tolist() == [min(depth, budget, len(trace) - 1) for trace in strategies.states(table)]


def test_a_policy_of_ones_own_is_any_callable():
    def hesitant(view):
        doubtful = (view.scores[:, 0] < 0.5) & (view.retrievals_left > 0)
        return np.where(doubtful, Action.RETRIEVE, Action.COMMIT)

    found = replay(Traces.from_columns(TWO), hesitant)
    assert found.depth.tolist() == [1, 0]


def test_a_policy_sees_what_it_has_paid_and_what_is_left():
    seen = []

    def nosy(view):
        seen.append(
            (view.depth, view.retrievals_left.tolist(), view.cost.tolist(), view.question.tolist(), len(view))
        )
        return np.where(view.retrievals_left > 0, Action.RETRIEVE, Action.ABSTAIN)

    columns = {**TWO, "cost": [0, 0.25, 0], "question": ["Who?", "Who?", "What?"]}
    replay(Traces.from_columns(columns), nosy, budget=2)
    assert seen == [(0, [2, 0], [0.0, 0.0], ["Who?", "What?"], 2), (1, [0], [0.25], ["Who?"], 1)]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda view: [0], "2 actions"),
        (lambda view: [0.5, 0.5], "float64"),
        (lambda view: [7, 0], "One|one Action|actions"),
        (lambda view: ["commit", "commit"], "actions"),
        (lambda view: [1, 1], "retrieves at depth 0"),
        (lambda view: 1 / 0, r"ZeroDivisionError: division by zero \(test_loop.py, line \d+\)"),
        (lambda view: sys.exit(5), r"SystemExit: 5 \(test_loop.py, line \d+\). Mend the policy"),
    ],
)
def test_an_answer_that_is_no_action_is_a_clear_error(answer, message):
    with pytest.raises(BadPolicy, match=message):
        replay(Traces.from_columns(TWO), answer)


def test_a_negative_budget_and_crossed_thresholds_are_refused():
    with pytest.raises(BadChoice, match="0 or more"):
        replay(Traces.from_columns(TWO), FixedDepth(0), budget=-1)
    with pytest.raises(BadChoice, match="lo ≤ hi"):
        Threshold(lo=0.7, hi=0.3)


def test_a_budget_beyond_all_depths_is_no_more_than_unlimited():
    walked = replay(Traces.from_columns(TWO), FixedDepth(9), budget=10**23)
    assert walked.depth.tolist() == [1, 0]


def test_a_score_cannot_change_the_record():
    def greedy(confidence, depth):
        confidence *= 2
        return confidence

    traces = Traces.from_columns(TWO)
    with pytest.raises(ValueError, match="read-only"):
        replay(traces, Threshold(), score=greedy)
    assert traces.confidence[0].tolist() == [0.4, 0.9]
