import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import strategies
from gatewise import BadChoice, Isotonic, Threshold, Traces, calibrate, summarize


def oracle_of(table, lo, hi, budget):
    by_id = sorted(table, key=lambda trace: trace["id"])
    fitted = [trace["states"][0] for trace in by_id if trace["split"] == "calibration"]
    knots = oracles.isotonic([(s["confidence"], s["correct"]) for s in fitted])
    test = [trace for trace in by_id if trace["split"] == "test"]
    return knots, oracles.summary(
        [t["states"] for t in test],
        [t["question"] for t in test],
        [t["dataset"] for t in test],
        knots,
        lo,
        hi,
        budget,
    )


@given(
    strategies.tables(most=25, depths=6),
    st.tuples(strategies.tied, strategies.tied).map(sorted),
    st.integers(0, 7),
    st.integers(0, 99),
)
@settings(max_examples=150)
def test_every_number_equals_the_slow_oracle_whatever_the_order_of_rows(table, gate, budget, seed):
    if not any(trace["split"] == "test" for trace in table):
        table[0]["split"] = "test"
    lo, hi = gate
    knots, expected = oracle_of(table, lo, hi, budget)
    traces = Traces.from_columns(strategies.shuffled(strategies.columns(table), seed))
    fitted = calibrate(traces) if knots else None
    found = summarize(traces.split("test"), calibrated=fitted, gate=Threshold(lo=lo, hi=hi), budget=budget)
    oracles.close(found.as_json(), expected)
    json.dumps(found.as_json(), allow_nan=False)


@given(strategies.tables(most=20, confidences=st.floats(0, 1), depths=33))
@settings(max_examples=25)
def test_traces_of_up_to_33_depths_with_continuous_scores_equal_the_oracle(table):
    table[0]["split"] = "test"
    knots, expected = oracle_of(table, 0.3, 0.7, 3)
    traces = strategies.traces(table)
    found = summarize(traces.split("test"), calibrated=calibrate(traces) if knots else None)
    oracles.close(found.as_json(), expected)


@given(strategies.tables(most=15, splits=False))
@settings(max_examples=40)
def test_subgroups_by_any_column_are_the_same_as_replaying_them_alone(table):
    traces = strategies.traces(table)
    whole = summarize(traces, by="dataset").as_json()
    for group in whole["by"]["groups"]:
        alone = summarize(traces.choose(datasets=[group["value"]])).as_json()
        assert group["systems"] == whole["systems"][group["value"]] == alone["systems"]["pooled"]
        for part in ("calibration_error", "brier", "auroc", "aurc", "transitions", "top_bin"):
            assert group[part] == alone[part]


TWO = {"trace_id": ["a", "b"], "depth": [0, 0], "confidence": [0.5, 0.8], "correct": [True, None]}


def test_without_question_text_there_is_no_adaptive_system():
    systems = summarize(Traces.from_columns(TWO)).as_json()["systems"]
    assert list(systems) == ["pooled"]
    assert list(systems["pooled"]) == ["parametric", "rag@1", "rag@2", "rag@3", "raw", "calibrated"]


def test_the_adaptive_proxy_is_absent_where_one_question_of_the_group_is_missing():
    columns = {**TWO, "question": ["Who?", " "], "dataset": ["x", "y"]}
    systems = summarize(Traces.from_columns(columns)).as_json()["systems"]
    assert ["adaptive" in systems[name] for name in ("pooled", "x", "y")] == [False, True, False]


def test_without_a_map_every_calibrated_part_is_null():
    found = summarize(Traces.from_columns(TWO)).as_json()
    assert found["map"] is None
    assert found["equivalent_raw"] is None
    for part in ("thresholds", "budgets", "calibration_error", "brier", "auroc", "aurc"):
        assert found[part]["calibrated"] is None
        assert found[part]["raw"] is not None
    assert found["systems"]["pooled"]["calibrated"] is None
    assert found["top_bin"]["calibrated"] is None


def test_a_missing_verdict_leaves_the_denominators_and_sets_bounds():
    point = summarize(Traces.from_columns(TWO)).as_json()["systems"]["pooled"]["parametric"]
    assert (point["n"], point["committed"], point["correct"], point["unlabelled"]) == (2, 2, 1, 1)
    assert point["overall_accuracy"] == point["committed_accuracy"] == 1.0
    assert point["bounds"] == {"overall_accuracy": [0.5, 1.0], "committed_accuracy": [0.5, 1.0]}


def test_several_models_and_a_data_set_called_pooled_are_refused():
    with pytest.raises(BadChoice, match="one model, found 2"):
        summarize(Traces.from_columns({**TWO, "model": ["m", "n"]}))
    with pytest.raises(BadChoice, match="not called 'pooled'"):
        summarize(Traces.from_columns({**TWO, "dataset": ["pooled", "x"]}))


def test_a_map_of_another_model_is_said():
    columns = {**TWO, "model": ["m", "m"], "split": ["calibration", "test"]}
    fitted = calibrate(Traces.from_columns(columns))
    other = Traces.from_columns({**TWO, "model": ["n", "n"]})
    assert "fitted on m; these traces are of n" in summarize(other, calibrated=fitted).warnings[0]


def test_progress_counts_every_replay_up_to_the_announced_number():
    calls = []
    traces = Traces.from_columns({**TWO, "split": ["calibration", "test"], "question": ["Who?", "What?"]})
    summarize(traces.split("test"), calibrated=calibrate(traces), progress=lambda *call: calls.append(call))
    assert [done for _, done, _ in calls] == list(range(len(calls)))
    assert {total for _, _, total in calls} == {len(calls)}


def test_a_map_is_refused_on_another_signal_even_where_leaks_are_allowed():
    columns = {**TWO, "p_true": [0.1, 0.2], "split": ["calibration", "test"]}
    fitted = calibrate(Traces.from_columns(columns, signal="p_true"))
    with pytest.raises(BadChoice, match="gated on 'p_true'"):
        summarize(Traces.from_columns(columns).split("test"), calibrated=fitted, allow_leak=True)


def test_a_map_of_unknown_origin_and_traces_without_a_model_are_said():
    fitted = calibrate(Traces.from_columns({**TWO, "model": ["m", "m"], "split": ["calibration", "test"]}))
    (warning,) = summarize(Traces.from_columns(TWO), calibrated=fitted).warnings
    assert warning == "the map was fitted on m; these traces name no model."
    (warning,) = summarize(Traces.from_columns(TWO), calibrated=Isotonic((0.5,), (0.5,))).warnings
    assert "leaks cannot be recognised" in warning


def test_groups_are_strict_json_whatever_they_are_called():
    columns = {**TWO, "share": [float("inf"), float("nan")]}
    found = summarize(Traces.from_columns(columns), by="share").as_json()
    assert [group["value"] for group in found["by"]["groups"]] == ["inf", "nan"]
    json.dumps(found, allow_nan=False)
