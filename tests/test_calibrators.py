import json
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

import oracles
import strategies
from gatewise import (
    BadChoice,
    Isotonic,
    IsotonicByDepth,
    Leak,
    Raw,
    Threshold,
    Traces,
    calibrate,
    equivalent_raw,
    fit_isotonic,
    replay,
    require_no_leak,
)
from gatewise.replays.calibrators import fittable

records = st.lists(
    st.tuples(st.one_of(strategies.tied, strategies.grid, st.floats(0, 1), st.none()), strategies.verdicts),
    max_size=60,
)


def arrays(pairs):
    confidence = np.array([math.nan if v is None else v for v, _ in pairs], np.float64)
    return confidence, np.array([-1 if y is None else int(y) for _, y in pairs], np.int8)


@given(records, st.lists(st.floats(0, 1), max_size=20))
def test_the_map_equals_exact_pooling_at_knots_and_between_them(pairs, others):
    knots = oracles.isotonic(pairs)
    if knots is None:
        with pytest.raises(BadChoice, match="found none"):
            fit_isotonic(*arrays(pairs))
        return
    phi = fit_isotonic(*arrays(pairs))
    at = [v for v, _ in knots]
    assert phi(np.array(at), 0).tolist() == [y for _, y in knots]
    between = np.array([*others, math.nan])
    expected = [oracles.phi(knots, v) for v in others]
    assert phi(between, 0)[:-1].tolist() == expected
    assert math.isnan(phi(between, 0)[-1])


@given(records)
def test_the_map_is_scikit_learns_to_rounding(pairs):
    confidence, correct = arrays(pairs)
    known = ~np.isnan(confidence) & (correct >= 0)
    assume(known.any())
    # scikit-learn merges inputs closer than an epsilon of its own; keep to values that it tells apart.
    distinct = np.unique(confidence[known])
    assume(len(distinct) < 2 or np.diff(distinct).min() > 1e-6)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(confidence[known], correct[known])
    at = np.linspace(0, 1, 101)
    np.testing.assert_allclose(fit_isotonic(confidence, correct)(at, 0), theirs.predict(at), atol=1e-9)


@given(records, st.integers(0, 99))
def test_the_map_does_not_depend_on_the_order_of_records(pairs, seed):
    assume(oracles.isotonic(pairs))
    order = np.random.default_rng(seed).permutation(len(pairs))
    assert fit_isotonic(*arrays(pairs)) == fit_isotonic(*arrays([pairs[i] for i in order]))


@given(records, st.lists(st.floats(0, 1), min_size=2, max_size=50))
def test_the_map_never_falls_in_doubles(pairs, values):
    assume(oracles.isotonic(pairs))
    phi = fit_isotonic(*arrays(pairs))
    knots = np.array(phi.x)
    near = np.concatenate([values, knots, np.nextafter(knots, 0), np.nextafter(knots, 1)])
    scores = phi(np.sort(near), 0)
    assert (np.diff(scores) >= 0).all()


cuts = st.tuples(st.one_of(strategies.tied, st.floats(0, 1)), st.one_of(strategies.tied, st.floats(0, 1))).map(sorted)


@given(strategies.tables(most=20), records, cuts, st.integers(0, 5), st.booleans())
@settings(max_examples=200)
def test_the_equivalent_raw_gate_acts_like_the_calibrated_one_row_for_row(table, pairs, gate, budget, at_block):
    assume(oracles.isotonic(pairs))
    phi = fit_isotonic(*arrays(pairs))
    lo, hi = sorted([phi.y[0], phi.y[-1]]) if at_block else gate  # thresholds that equal a block's value
    traces = strategies.traces(table)
    found = equivalent_raw(phi, lo, hi)
    v_lo = -math.inf if found[0] is None else found[0]
    v_hi = math.inf if found[1] is None else found[1]
    calibrated = replay(traces, Threshold(lo=lo, hi=hi), score=phi, budget=budget)
    # Where lo = hi lies on a flat stretch the raw cuts cross; commit is asked first either way.
    raw = replay(traces, Threshold(lo=min(v_lo, v_hi), hi=v_hi), budget=budget)
    assert calibrated.action.tolist() == raw.action.tolist()
    assert calibrated.depth.tolist() == raw.depth.tolist()


@given(records, cuts)
def test_the_equivalent_cuts_are_the_outermost_doubles(pairs, gate):
    assume(oracles.isotonic(pairs))
    phi = fit_isotonic(*arrays(pairs))
    lo, hi = gate
    v_lo, v_hi = equivalent_raw(phi, lo, hi)
    score = lambda v: phi(np.array([v]), 0)[0]  # noqa: E731
    if v_hi is None:
        assert score(1.0) < hi
    else:
        assert score(v_hi) >= hi
        assert v_hi == 0 or score(np.nextafter(v_hi, 0)) < hi
    if v_lo is None:
        assert score(0.0) > lo
    else:
        assert score(v_lo) <= lo
        assert v_lo == 1 or score(np.nextafter(v_lo, 1)) > lo


def test_a_map_by_depth_has_no_equivalent_raw_gate_and_refuses_deeper_traces():
    phi = Isotonic((0.5,), (0.5,))
    by_depth = IsotonicByDepth((phi, phi))
    assert equivalent_raw(by_depth, 0.3, 0.7) is None
    with pytest.raises(BadChoice, match="at most 2 depths"):
        by_depth(np.array([0.5]), 2)


def test_the_raw_score_is_its_own_equivalent():
    assert equivalent_raw(Raw(), 0.3, 0.7) == (0.3, 0.7)


TWO = {
    "trace_id": ["a", "b", "c"],
    "depth": [0, 0, 0],
    "confidence": [0.2, 0.8, 0.9],
    "correct": [False, True, True],
    "split": ["calibration", "calibration", "test"],
    "question": ["Who is A?", "Who is B?", "Who is C?"],
}


def test_a_fit_on_the_test_split_is_refused():
    with pytest.raises(Leak, match="not the test split"):
        calibrate(Traces.from_columns(TWO), split="test")
    unsplit = {name: values for name, values in TWO.items() if name != "split"}
    with pytest.raises(BadChoice, match="found only test"):
        calibrate(Traces.from_columns(unsplit))


def test_a_fit_says_what_it_was_made_of():
    columns = {**TWO, "confidence": [None, 0.8, 0.9], "model": ["m"] * 3, "dataset": ["d"] * 3}
    on = calibrate(Traces.from_columns(columns)).fitted_on
    assert (on.split, on.n, on.without_confidence, on.without_verdict) == ("calibration", 1, 1, 0)
    assert (on.signal, on.models, on.datasets) == ("confidence", ("m",), ("d",))
    assert set(on.versions) == {"gatewise", "numpy"}
    assert len(on.traces) == len(on.questions) == 1  # the unread record took no part
    assert "Who is" not in json.dumps(on.__dict__)


def leak(fit, test, **changes):
    fitted = calibrate(Traces.from_columns({**TWO, **fit}))
    require_no_leak(fitted, Traces.from_columns({**TWO, **test, **changes}).split("test"))


def test_traces_that_took_part_in_the_fit_are_refused_by_id_within_data_set_and_model():
    fit = {"split": ["calibration", "calibration", "calibration"]}
    test = {"split": ["test"] * 3, "question": ["x", "y", "z"]}
    with pytest.raises(Leak, match="3 traces stand on both sides"):
        leak(fit, test)
    leak(fit, test, dataset=["d"] * 3)
    leak(fit, test, model=["m"] * 3)


def test_traces_that_took_part_in_the_fit_are_refused_by_question_text():
    with pytest.raises(Leak, match="1 question text stands on both sides"):
        leak({}, {"question": ["p", "q", "who  is, B"]})
    leak({}, {"question": ["p", "q", "¿?"]})  # nothing but marks is blank, and a blank question never matches
    leak({"question": ["", "", ""]}, {"question": ["", "", ""]})


def test_an_unread_record_took_no_part_and_so_does_not_leak():
    leak({"confidence": [0.2, None, 0.9]}, {"question": ["p", "q", "Who is B?"]})


def test_a_map_is_refused_on_another_signal():
    columns = {**TWO, "p_true": [0.1, 0.2, 0.3]}
    fitted = calibrate(Traces.from_columns(columns, signal="p_true"))
    with pytest.raises(BadChoice, match="gated on 'p_true'"):
        require_no_leak(fitted, Traces.from_columns(columns).split("test"))


def test_a_map_by_depth_needs_records_at_every_depth():
    columns = {
        "trace_id": ["a", "a"],
        "depth": [0, 1],
        "confidence": [0.5, None],
        "correct": [True, True],
        "split": ["calibration"] * 2,
    }
    with pytest.raises(BadChoice, match="none at depth 1"):
        calibrate(Traces.from_columns(columns), by_depth=True)
    assert calibrate(Traces.from_columns(columns)).y == (1.0,)


@pytest.mark.parametrize(
    ("x", "y"), [((), ()), ((0.5,), (0.5, 0.6)), ((0.5, 0.5), (0.1, 0.2)), ((0.1, 0.2), (0.9, 0.1)), ((0.1,), (2.0,))]
)
def test_knots_that_are_no_monotone_map_are_refused(x, y):
    with pytest.raises(BadChoice, match="Fit the map again"):
        Isotonic(x, y)


def test_a_fit_looks_at_no_price():
    columns = {**TWO, "usd": [0.5, 0.25, 0.125], "split": ["calibration"] * 3}
    assert calibrate(Traces.from_columns(columns, cost="usd")) == calibrate(Traces.from_columns(columns))


def test_one_record_with_confidence_and_verdict_can_be_fitted():
    assert fittable(Traces.from_columns(TWO))
    assert not fittable(Traces.from_columns({**TWO, "confidence": [None] * 3}))
    assert not fittable(Traces.from_columns({**TWO, "correct": [None] * 3}))
    assert not fittable(Traces.from_columns(TWO).split("validation"))
