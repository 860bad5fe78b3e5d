import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from gatewise import Action, BadChoice, Isotonic, IsotonicByDepth, Threshold, Traces, measure, replay
from gatewise.replays.lookups import lookup
from gatewise.replays.policies import BASELINES

ONE_MAP = Isotonic((0.1, 0.5, 0.9), (0.05, 0.3, 0.8))
MAPS = [None, ONE_MAP, IsotonicByDepth(tuple(Isotonic((0.2, 0.8), (0.1 * depth, 0.7)) for depth in range(4)))]
units = st.one_of(st.sampled_from(strategies.EDGES), st.floats(0, 1))


def walked(book, name, lo, hi, budget):
    """Where every episode stops, by comparing ranks alone."""
    scored = book.scores[name]
    commits = int(np.searchsorted(scored.thresholds, hi)) + 1
    abstains = int(np.searchsorted(scored.thresholds, lo, side="right"))
    stops = []
    for row, length in enumerate(book.traces.lengths.tolist()):
        last = min(budget, length - 1)
        ranks = [int(scored.ranks[depth, book.codes[row, depth]]) for depth in range(last + 1)]
        at = next((depth for depth, rank in enumerate(ranks) if rank >= commits), last)
        commit = ranks[at] >= commits
        stops.append(
            (at, Action.COMMIT if commit else Action.ABSTAIN if 0 < ranks[at] <= abstains else Action.ESCALATE)
        )
    return stops


@settings(max_examples=60)
@given(strategies.tables(), st.sampled_from(MAPS), units, units, st.integers(0, 4))
def test_ranks_and_frontiers_say_what_a_replay_says(table, score, one, other, budget):
    traces = strategies.traces(table)
    gate = Threshold(lo=min(one, other), hi=max(one, other))
    book = lookup(traces, calibrated=score)
    for name, of_name in book.maps.items():
        episodes = replay(traces, gate, score=of_name, budget=budget)
        stops = walked(book, name, gate.lo, gate.hi, budget)
        assert stops == list(zip(episodes.depth.tolist(), episodes.action.tolist(), strict=True))
        everyone = np.ones(len(traces), np.bool_)
        parts = [(book.everything, everyone)]
        for grouping in book.groupings:
            assert grouping.column in ("dataset", "split", "question")
            assert [grouping.values[at] for at in grouping.places] == traces.column(grouping.column).tolist()
            parts += [(subset, grouping.places == at) for at, subset in enumerate(grouping.subsets)]
        for subset, among in parts:
            surface, expected = subset.surfaces[name], measure(episodes, among=among)
            row, place = min(budget, len(surface.cost) - 1), np.searchsorted(surface.thresholds, gate.hi)
            assert subset.n == expected.n
            for what in ("committed", "correct", "unlabelled", "cost"):
                assert getattr(surface, what)[row, place] == getattr(expected, what)
            for system, point in subset.baselines.items():
                assert point == measure(replay(traces, BASELINES[system], budget=9), among=among)


def test_a_trace_set_without_one_confidence_has_one_place_where_nothing_is_committed():
    columns = {"trace_id": ["a", "a"], "depth": [0, 1], "confidence": [None, None], "correct": [True, False]}
    book = lookup(Traces.from_columns(columns), calibrated=ONE_MAP)
    for name in ("raw", "calibrated"):
        assert book.everything.surfaces[name].cost.tolist() == [[0.0], [1.0]]
        assert book.everything.surfaces[name].committed.tolist() == [[0], [0]]
        assert walked(book, name, 0.3, 0.7, 3) == [(1, Action.ESCALATE)]


def test_groups_are_columns_that_are_constant_within_traces_and_have_a_few_values():
    columns = {
        "trace_id": ["a", "a", "b", "c"],
        "depth": [0, 1, 0, 0],
        "confidence": [0.5, 0.6, 0.7, 0.8],
        "correct": [True, True, False, None],
        "hops": [2, 2, 10, None],
        "easy": [True, True, False, False],
        "varies": ["x", "y", "x", "x"],
        "tags": [["x"], ["x"], ["y"], ["z"]],
        "same": ["s"] * 4,
        "kind": ["late", "late", None, "early"],
        "cost": [0, 1, 0, 0],
    }
    book = lookup(Traces.from_columns(columns))
    assert {one.column: one.values for one in book.groupings} == {
        "hops": (2, 10, None),
        "easy": (False, True),
        "kind": ("early", "late", None),
    }
    assert [one.places.tolist() for one in book.groupings] == [[0, 1, 2], [1, 0, 0], [1, 2, 0]]
    assert lookup(Traces.from_columns(columns), most=2).groupings[0].column == "easy"


def test_several_models_or_no_trace_at_all_have_no_lookup():
    columns = {"trace_id": ["a", "b"], "depth": [0, 0], "confidence": [0.5, 0.6], "correct": [True, True]}
    with pytest.raises(BadChoice, match="one model"):
        lookup(Traces.from_columns({**columns, "model": ["m", "n"]}))
    with pytest.raises(BadChoice, match="found none"):
        lookup(Traces.from_columns(columns).split("calibration"))
