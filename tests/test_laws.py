"""The laws of the design, each kept by a test; laws 4 and 5 come with the recordings."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from gatewise import (
    Action,
    FixedDepth,
    Isotonic,
    IsotonicByDepth,
    Raw,
    Threshold,
    Traces,
    calibrate,
    replay,
)
from gatewise.files import read_map, write_map
from gatewise.replays.policies import BASELINES


def watchful(view):
    """Acts on everything that a view shows."""
    seen = np.nan_to_num(view.scores).sum(axis=1) + np.nan_to_num(view.signals["confidence"]).sum(axis=1)
    doubtful = (seen + view.cost) % 0.5 < 0.25
    return np.where((view.retrievals_left > 0) & doubtful, Action.RETRIEVE, Action.COMMIT)


POLICIES = {**BASELINES, "gate": Threshold(), "watchful": watchful}
SCORES = {
    "raw": Raw(),
    "isotonic": Isotonic((0.2, 0.9), (0.1, 0.8)),
    "by depth": IsotonicByDepth(tuple(Isotonic((0.2, 0.9), (0.1 * d, 0.8)) for d in range(4))),
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("policy", POLICIES)
@given(table=strategies.tables(most=8), seed=st.integers(0, 99))
@settings(max_examples=15)
def test_law_1_neither_the_future_nor_labels_move_an_action(policy, score, table, seed):
    traces = strategies.traces(table)
    rng = np.random.default_rng(seed)
    walked = replay(traces, POLICIES[policy], score=SCORES[score])
    for depth in range(traces.depths):
        columns = strategies.columns(table)
        for row in range(len(columns["depth"])):
            columns["correct"][row] = [True, False, None][rng.integers(3)]  # every label, of every depth
            if columns["depth"][row] > depth:
                columns["confidence"][row] = float(rng.random())
                columns["cost"][row] = float(rng.random())
            columns["split"] = ["validation"] * len(columns["split"])
        again = replay(Traces.from_columns(columns), POLICIES[policy], score=SCORES[score])
        stopped = walked.depth <= depth
        assert (again.action[stopped] == walked.action[stopped]).all()
        assert (again.depth[stopped] == walked.depth[stopped]).all()
        assert (again.depth[~stopped] > depth).all()


def test_law_1_a_view_holds_no_way_to_the_future_or_the_labels():
    columns = {"trace_id": ["a"] * 3, "depth": [0, 1, 2], "confidence": [0.1, 0.2, 0.3], "correct": [True] * 3}
    views = []

    def keep(view):
        views.append(view)
        return np.where(view.retrievals_left > 0, Action.RETRIEVE, Action.COMMIT)

    replay(Traces.from_columns(columns), keep)
    for depth, view in enumerate(views):
        assert set(vars(view)) == {
            "depth", "scores", "signals", "retrievals_left", "cost", "question", "dataset", "model",
        }  # fmt: skip
        for array in (view.scores, *view.signals.values()):
            assert array.shape == (1, depth + 1)
            assert array.base is None or array.base.size == array.size  # no window onto a wider block
            array[:] = 0.9  # and writing into a view changes nothing


# Law 2, matched or refused: test_comparisons.test_replays_of_other_states_are_refused.


def test_law_3_failure_is_not_an_answer():
    columns = {"trace_id": ["a", "b"], "depth": [0, 0], "confidence": [None, None], "correct": [None, None]}
    from gatewise import measure, summarize

    traces = Traces.from_columns(columns)
    gate = measure(replay(traces, Threshold(lo=0.0, hi=0.0)))
    assert (gate.committed, gate.abstained, gate.escalated) == (0, 0, 2)
    fixed = measure(replay(traces, FixedDepth(0)))
    assert (fixed.committed, fixed.correct, fixed.unlabelled) == (2, 0, 2)
    assert fixed.overall_accuracy is None
    assert fixed.committed_accuracy is None
    assert fixed.bounds(2) == [0.0, 1.0]
    found = summarize(traces).as_json()
    assert found["calibration_error"]["raw"] == found["auroc"]["raw"] == found["aurc"]["raw"] == [None]
    assert found["systems"]["pooled"]["raw"]["committed_accuracy"] is None
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("name", [*SCORES, *(name for name in POLICIES if name != "watchful")])
def test_law_6_policies_and_calibrators_are_frozen_callable_comparable_values(name):
    value = {**SCORES, **POLICIES}[name]
    assert callable(value)
    assert value == dataclasses.replace(value)
    assert hash(value) == hash(dataclasses.replace(value))
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.hi = 0.5


def test_law_6_a_fit_returns_a_value_that_carries_its_provenance(tmp_path):
    columns = {"trace_id": ["a"], "depth": [0], "confidence": [0.5], "correct": [True], "split": ["calibration"]}
    traces = Traces.from_columns(columns)
    fitted = calibrate(traces)
    assert fitted == calibrate(traces)
    assert fitted.fitted_on.data == traces.digest()
    write_map(fitted, tmp_path / "map.json")
    assert read_map(tmp_path / "map.json") == fitted


PROGRAM = """
import json, sys
from gatewise import calibrate, frontier, summarize
from gatewise.files import frontier_rows, reconstruction, write_csv, write_map, write_traces
traces = reconstruction("gpt-oss-120b")
fitted = calibrate(traces)
test = traces.split("test")
write_map(fitted, sys.argv[1] + "/map.json")
for kind in ("parquet", "csv", "jsonl"):
    write_traces(test, sys.argv[1] + "/traces." + kind)
write_csv(sys.argv[1] + "/frontier.csv", ["x"], frontier_rows("calibrated", frontier(test, score=fitted)))
open(sys.argv[1] + "/summary.json", "w").write(json.dumps(summarize(test, calibrated=fitted).as_json()))
"""


def test_law_7_the_same_inputs_give_the_same_bytes(tmp_path):
    for name, seed in (("one", "1"), ("two", "2")):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / name)]
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"})
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 6
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_law_7_a_digest_holds_what_was_recorded_and_no_version_or_clock():
    columns = {"trace_id": ["a"], "depth": [0], "confidence": [0.5], "correct": [True]}
    digest = Traces.from_columns(columns).digest()
    assert digest == "1f772943930c062087165e8f4aa3cd0a398db1d1fd00e0a216c449a783abe796"
    assert Traces.from_columns({**columns, "latency_s": [1.5]}).digest() == digest
    for name, value in (
        ("confidence", 0.25),
        ("correct", False),
        ("plan", "p"),
        ("question", "Who?"),
        ("trace_id", "b"),
    ):
        assert Traces.from_columns({**columns, name: [value]}).digest() != digest
