import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import oracles
import strategies
from gatewise import BadChoice, Raw, Traces, aurc, auroc, brier, ece, reliability, top_bin, transitions
from gatewise.replays.metrics import bin_of

records = st.lists(
    st.tuples(st.one_of(strategies.tied, strategies.grid, st.floats(0, 1), st.none()), strategies.verdicts),
    max_size=30,
)
few = st.lists(st.tuples(st.one_of(st.sampled_from([0.3, 0.7, 0.9]), st.none()), strategies.verdicts), max_size=7)


def arrays(pairs):
    score = np.array([math.nan if s is None else s for s, _ in pairs], np.float64)
    return score, np.array([-1 if y is None else int(y) for _, y in pairs], np.int8)


@given(records)
def test_ece_brier_and_auroc_equal_their_oracles(pairs):
    for metric, oracle in ((ece, oracles.ece), (brier, oracles.brier), (auroc, oracles.auroc)):
        found, expected = metric(*arrays(pairs)), oracle(pairs)
        assert found == expected or found == pytest.approx(expected, abs=1e-12)


@given(few)
def test_aurc_is_the_mean_over_every_order_of_tied_states(pairs):
    found, expected = aurc(*arrays(pairs)), oracles.aurc(pairs)
    assert found == expected or found == pytest.approx(expected, abs=1e-12)


@given(records, st.integers(0, 99))
def test_no_metric_depends_on_the_order_of_rows(pairs, seed):
    order = np.random.default_rng(seed).permutation(len(pairs))
    mixed = [pairs[i] for i in order]
    for metric in (ece, brier, auroc, aurc, reliability):
        assert metric(*arrays(pairs)) == metric(*arrays(mixed))


@given(records)
def test_auroc_is_scikit_learns(pairs):
    known = [(s, y) for s, y in pairs if s is not None and y is not None]
    if len({y for _, y in known}) == 2:
        theirs = roc_auc_score([y for _, y in known], [s for s, _ in known])
        assert auroc(*arrays(pairs)) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("k", range(10))
def test_a_tenth_opens_its_bin_and_the_double_below_closes_the_one_before(k):
    assert bin_of(np.array([k / 10]))[0] == k
    assert bin_of(np.array([1.0]))[0] == 9
    if k:
        assert bin_of(np.array([np.nextafter(k / 10, 0)]))[0] == min(int(10 * np.nextafter(k / 10, 0)), 9)


def test_metrics_of_nothing_are_none():
    nothing = np.array([]), np.array([], np.int8)
    assert [metric(*nothing) for metric in (ece, brier, auroc, aurc)] == [None] * 4
    assert auroc(np.array([0.5, 0.6]), np.array([1, 1])) is None
    assert [b.accuracy for b in reliability(*nothing)] == [None] * 10


def test_scores_outside_the_unit_interval_are_refused():
    with pytest.raises(BadChoice, match=r"in \[0, 1\]"):
        ece(np.array([85.0]), np.array([1]))


@given(strategies.tables(depths=5))
def test_transitions_equal_the_oracle_and_add_up_over_depths(table):
    traces = strategies.traces(table)
    found = transitions(traces)
    assert vars(found) == oracles.transitions(strategies.states(table))
    into = [transitions(traces, depth=depth) for depth in range(1, traces.depths)]
    for name in ("n", "helpful", "harmful"):
        assert sum(getattr(one, name) for one in into) == getattr(found, name)


def test_the_top_bin_counts_unjudged_states_and_leaves_them_out_of_accuracy():
    columns = {
        "trace_id": list("abcd"),
        "depth": [0] * 4,
        "confidence": [0.9, 1.0, 0.89, None],
        "correct": [True, None, True, True],
    }
    found = top_bin(Traces.from_columns(columns), score=Raw())
    assert (found.depth, found.n, found.unlabelled) == (0, 2, 1)
    assert (found.raw, found.accuracy, found.calibrated) == (0.95, 1.0, 0.95)
