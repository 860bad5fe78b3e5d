import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import strategies
from gatewise import (
    BadChoice,
    Isotonic,
    IsotonicByDepth,
    Raw,
    Threshold,
    Traces,
    fit_isotonic,
    frontier,
    measure,
    read,
    replay,
)
from gatewise.replays import frontier as module


def check_against_replay(traces, surface, score, lo, points=None):
    assert surface.budgets == traces.depths
    places = range(len(surface.thresholds)) if points is None else points
    for budget in range(traces.depths):
        for place in places:
            tau = surface.thresholds[place]
            gate = Threshold(lo=min(lo, tau), hi=tau)
            assert surface.point(budget, place) == measure(replay(traces, gate, score=score, budget=budget))


def all_scores(traces, score):
    values = [score(traces.confidence[:, d], d)[traces.present[:, d]] for d in range(traces.depths)]
    return sorted({v + 0.0 for column in values for v in column.tolist() if not math.isnan(v)})


monotone = st.lists(
    st.tuples(strategies.grid, strategies.grid), min_size=1, max_size=5, unique_by=lambda k: k[0]
).map(lambda knots: Isotonic(tuple(sorted(x for x, _ in knots)), tuple(sorted(y for _, y in knots))))
scores = st.one_of(
    st.just(Raw()),
    monotone,
    st.lists(monotone, min_size=4, max_size=4).map(lambda maps: IsotonicByDepth(tuple(maps))),
    st.just(lambda v, depth: 1 - v),  # a score of one's own need not rise with confidence
)


@given(strategies.tables(most=14), scores, strategies.tied)
@settings(max_examples=200)
def test_every_threshold_and_budget_equals_replaying_the_gate(table, score, lo):
    traces = strategies.traces(table)
    surface = frontier(traces, score=score, lo=lo)
    assert surface.thresholds.tolist() == all_scores(traces, score)
    check_against_replay(traces, surface, score, lo)


@given(strategies.tables(most=10))
@settings(max_examples=60)
def test_it_equals_the_oracle_that_walks_trace_by_trace(table):
    states = strategies.states(table)
    surface = frontier(strategies.traces(table))
    for budget in range(surface.budgets):
        for place, tau in enumerate(surface.thresholds.tolist()):
            walks = [oracles.gate(trace, min(0.3, tau), tau, budget) for trace in states]
            expected = oracles.point(states, walks)
            found = surface.point(budget, place).as_json()
            assert {name: found[name] for name in expected} == expected


@given(strategies.tables(most=10), strategies.tables(most=10, depths=6), strategies.tied)
@settings(max_examples=60)
def test_tallies_of_parts_add_up_to_the_tally_of_the_whole(one, two, lo):
    for trace in two:
        trace["id"] = f"u{trace['id']}"
    parts = [module.tally_traces(strategies.traces(part), score=Raw(), lo=lo) for part in (one, two)]
    whole = frontier(strategies.traces([*one, *two]), lo=lo)
    for total in (parts[0] + parts[1], parts[1] + parts[0]):
        merged = module.Frontier.of(total)
        assert merged.n == whole.n
        for name in ("thresholds", "committed", "correct", "unlabelled", "abstained", "cost"):
            assert getattr(merged, name).tolist() == getattr(whole, name).tolist()


@pytest.mark.parametrize("levels", [255, 256, 1000])
def test_joint_and_marginal_histograms_agree_on_both_sides_of_their_border(levels, monkeypatch):
    codes, labels = strategies.coded(3000, levels)
    axis = np.arange(1, levels + 1) / levels
    found = module.tally_codes(codes, labels, levels=axis, low=levels // 3)
    monkeypatch.setattr(module, "JOINT", 0)
    marginal = module.tally_codes(codes, labels, levels=axis, low=levels // 3)
    for name in ("reached", "correct", "unlabelled", "low"):
        assert (getattr(found, name) == getattr(marginal, name)).all()


def test_many_continuous_scores_equal_replay_at_sampled_thresholds():
    rng = np.random.default_rng(3)
    n = 4000
    columns = {
        "trace_id": [f"t{i}" for i in range(n) for _ in range(4)],
        "depth": [d for _ in range(n) for d in range(4)],
        "confidence": rng.random(4 * n),
        "correct": rng.random(4 * n) < 0.6,
        "cost": np.where(np.arange(4 * n) % 4 == 0, 0, rng.random(4 * n) * 0.01),
    }
    traces = Traces.from_columns(columns)
    phi = fit_isotonic(traces.confidence[:, 0], traces.correct[:, 0])
    for score in (Raw(), phi):
        surface = frontier(traces, score=score)
        places = rng.integers(0, len(surface.thresholds), 6).tolist()
        check_against_replay(traces, surface, score, 0.3, places)


def test_traces_without_any_readable_confidence_have_no_threshold():
    columns = {"trace_id": ["a", "a"], "depth": [0, 1], "confidence": [None, None], "correct": [True, None]}
    surface = frontier(Traces.from_columns(columns))
    assert surface.thresholds.tolist() == []
    assert surface.committed.shape == (2, 0)


SIX = {
    "trace_id": list("abcdef"),
    "depth": [0] * 6,
    "confidence": [0.9, 0.9, 0.8, 0.6, 0.4, None],
    "correct": [True, True, True, False, True, True],
}


def test_a_frontier_is_read_at_a_coverage_a_risk_and_a_cost():
    surface = frontier(Traces.from_columns(SIX))
    assert read(surface, "coverage", 0.5)[0].threshold == 0.8
    assert read(surface, "coverage", 0.9) == [None]
    assert read(surface, "risk", 0.0)[0].threshold == 0.8
    assert read(surface, "risk", 0.2)[0].threshold == 0.4
    assert read(surface, "cost", 0)[0].threshold == 0.9
    with pytest.raises(BadChoice, match="coverage, risk, cost"):
        read(surface, "accuracy", 0.5)


def test_the_compiled_kernel_is_asked_for_by_the_name_of_its_extra(monkeypatch):
    monkeypatch.setattr(module, "HAS_NUMBA", False)
    codes, labels = strategies.coded(10, 5)
    with pytest.raises(BadChoice, match=r"gatewise\[fast\]"):
        module.tally_codes(codes, labels, levels=np.arange(5.0), low=1, compiled=True)
