"""The living gate decides as the replayed one does, on every trace; what it cannot decide is refused."""

import itertools
import json
import math
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from gatewise import (
    Action,
    BadChoice,
    BrokenFile,
    FixedDepth,
    Gate,
    Isotonic,
    IsotonicByDepth,
    Leak,
    Raw,
    Threshold,
    calibrate,
    replay,
    require_no_leak,
)
from gatewise.files import reconstruction, write_gate

BENT = Isotonic((0.2, 0.9), (0.1, 0.8))
MAPS = {"raw": None, "isotonic": BENT, "by depth": IsotonicByDepth((BENT, Isotonic((0.5,), (0.7,)), BENT, BENT))}


def walked(gate, confidences):
    """Run an agent over one trace: ask the gate at each depth, go on while it says so."""
    for depth, confidence in enumerate(confidences):
        action = gate(confidence, depth, more=depth + 1 < len(confidences))
        if action != Action.RETRIEVE:
            return action, depth
    raise AssertionError("it retrieves where nothing is left")


@pytest.mark.parametrize("name", MAPS)
@given(
    table=strategies.tables(splits=False), cuts=st.tuples(strategies.tied, strategies.tied), budget=st.integers(0, 3)
)
def test_an_agent_that_runs_the_gate_ends_where_the_replay_ends(name, table, cuts, budget):
    policy, traces = Threshold(lo=min(cuts), hi=max(cuts)), strategies.traces(table)
    gate = Gate(policy, MAPS[name], budget=budget)
    episodes = replay(traces, policy, score=MAPS[name], budget=budget)
    for place, states in enumerate(strategies.states(table)):
        found = walked(gate, [state["confidence"] for state in states])
        assert found == (episodes.action[place], episodes.depth[place])


@pytest.mark.parametrize("model", ["mistral-small-2603", "gpt-oss-120b", "qwen3-235b-a22b-2507"])
def test_it_ends_where_the_replay_ends_on_every_reconstructed_trace(model):
    traces = reconstruction(model)
    fitted, test = calibrate(traces), traces.split("test")
    gate = Gate(Threshold(), fitted)
    episodes = replay(test, gate.policy, score=fitted)
    values = np.unique(test.confidence).tolist()
    asked = itertools.product(values, range(4), (True, False))
    decided = {(v, depth, more): gate(v, depth, more=more) for v, depth, more in asked}

    def known(confidence, depth, *, more):
        return decided[confidence, depth, more]

    rows = zip(test.confidence.tolist(), test.lengths.tolist(), strict=True)
    ends = [walked(known, states[:length]) for states, length in rows]
    assert ends == list(zip(episodes.action.tolist(), episodes.depth.tolist(), strict=True))


@given(lo=st.floats(0, 1), hi=st.floats(0, 1), depth=st.integers(0, 3), name=st.sampled_from(list(MAPS)))
def test_no_confidence_never_commits_and_a_spent_budget_never_retrieves(lo, hi, depth, name):
    gate = Gate(Threshold(lo=min(lo, hi), hi=max(lo, hi)), MAPS[name])
    expected = Action.RETRIEVE if depth < 3 else Action.ESCALATE
    assert gate(None, depth) == gate(math.nan, depth) == expected
    assert gate(None, depth, more=False) == Action.ESCALATE
    assert gate(lo, 3) != Action.RETRIEVE


def test_the_ends_are_told_apart():
    gate = Gate(Threshold(lo=0.3, hi=0.7), budget=1)
    assert [gate(v, 1) for v in (0.3, 0.30000000000000004, 0.7)] == [Action.ABSTAIN, Action.ESCALATE, Action.COMMIT]
    assert gate(0.3, 0) == Action.RETRIEVE


@pytest.mark.parametrize("depth", [4, -1, 1.0, "1", True, None])
def test_a_depth_that_the_budget_does_not_know_is_refused(depth):
    with pytest.raises(BadChoice, match=r"expected a depth from 0 to 3, as many retrievals as the budget allows"):
        Gate()(0.5, depth)


@pytest.mark.parametrize("confidence", [85, -0.1, 1.0000001, "0.5", True, math.inf, 10**400, [0.5]])
def test_what_is_no_share_is_refused(confidence):
    with pytest.raises(BadChoice, match=r"expected a confidence in \[0, 1\], or None where none could be read"):
        Gate()(confidence, 0)


def test_numbers_of_numpy_count_as_a_trace_table_reads_them():
    assert Gate()(np.float32(0.7), np.int64(0)) == Gate()(np.float64(0.7), 0) == Gate()(1, 0) == Action.COMMIT


@pytest.mark.parametrize(("lo", "hi"), [(0, math.inf), (-0.1, 0.5), (math.nan, 0.5), (0.8, 0.2)])
def test_cuts_that_are_none_are_refused(lo, hi):
    with pytest.raises(BadChoice, match=r"expected (lo|hi) (in \[0, 1\]|≤ hi)"):
        Gate(Threshold(lo=lo, hi=hi))


def test_a_gate_that_its_map_does_not_cover_is_refused():
    with pytest.raises(BadChoice, match="expected a map for each depth from 0 to 4, found one that was fitted on 4"):
        Gate(Threshold(), MAPS["by depth"], budget=4)
    with pytest.raises(BadChoice, match="expected a budget of 0 or more"):
        Gate(budget=-1)
    with pytest.raises(BadChoice, match="expected a gate on 'confidence', the signal this map was fitted on"):
        Gate(Threshold(), calibrate(reconstruction("gpt-oss-120b")), signal="p_true")


@pytest.mark.parametrize(
    "wrong", [{"policy": FixedDepth(1)}, {"policy": 0.7}, {"map": Raw()}, {"budget": 1.5}, {"budget": True}]
)
def test_what_is_no_gate_is_refused_when_it_is_made(wrong):
    with pytest.raises(BadChoice, match=r"expected a (Threshold and a map|budget)"):
        Gate(**wrong)


def test_a_gate_goes_through_pickle_and_threads():
    gate = Gate(Threshold(), BENT)
    assert pickle.loads(pickle.dumps(gate)) == gate
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda v: gate(v / 100, 1), list(range(101)) * 5))
    assert found == [gate(v / 100, 1) for v in range(101)] * 5


@pytest.mark.parametrize("by_depth", [False, True])
def test_a_gate_file_brings_back_the_gate_the_bytes_and_the_leaks(tmp_path, by_depth):
    traces = reconstruction("gpt-oss-120b")
    gate = Gate(Threshold(lo=0.25, hi=0.75), calibrate(traces, by_depth=by_depth), budget=2)
    write_gate(gate, tmp_path / "gate.json")
    back = Gate.read(tmp_path / "gate.json")
    write_gate(back, tmp_path / "again.json")
    assert back == gate
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "gate.json").read_bytes()
    with pytest.raises(Leak):
        require_no_leak(back.map, traces.split("calibration"))
    with pytest.raises(FrozenInstanceError):
        back.budget = 3


PLAIN = {"schema": "gatewise.gate/1", "lo": 0.3, "hi": 0.7, "budget": 3, "signal": "confidence", "map": None}
KNOTS = {"kind": "isotonic", "x": [0.5], "y": [0.5], "fitted_on": None}
BROKEN = {
    "another schema": {**PLAIN, "schema": "gatewise.map/1"},
    "no budget": {name: value for name, value in PLAIN.items() if name != "budget"},
    "a budget that is no number": {**PLAIN, "budget": "3"},
    "a budget that is true": {**PLAIN, "budget": True},
    "a fraction of a budget": {**PLAIN, "budget": 1.5},
    "a threshold that is a text": {**PLAIN, "hi": "0.7"},
    "a threshold beyond doubles": {**PLAIN, "hi": 10**400},
    "a threshold above 1": {**PLAIN, "hi": 70},
    "cuts that cross": {**PLAIN, "lo": 0.9},
    "a signal that is none": {**PLAIN, "signal": None},
    "a key too many": {**PLAIN, "bugdet": 3},
    "a map of no kind": {**PLAIN, "map": {"x": [0.5], "y": [0.5]}},
    "a map of another kind": {**PLAIN, "map": {**KNOTS, "kind": ["isotonic"]}},
    "a map that falls": {**PLAIN, "map": {**KNOTS, "x": [0.2, 0.5], "y": [1, 0]}},
    "knots that are no list": {**PLAIN, "map": {**KNOTS, "x": 0.5}},
    "knots that are no numbers": {**PLAIN, "map": {**KNOTS, "y": [None]}},
    "a map for too few depths": {
        **PLAIN,
        "map": {
            "kind": "isotonic-by-depth",
            "maps": [{name: KNOTS[name] for name in ("x", "y", "fitted_on")}],
            "fitted_on": None,
        },
    },
    "maps that are no list": {**PLAIN, "map": {"kind": "isotonic-by-depth", "maps": 1, "fitted_on": None}},
    "a provenance that is none": {**PLAIN, "map": {**KNOTS, "fitted_on": {"split": "calibration"}}},
    "a provenance of other kinds": {
        **PLAIN,
        "map": {
            **KNOTS,
            "fitted_on": {
                "split": 1,
                "n": 1,
                "without_confidence": 0,
                "without_verdict": 0,
                "signal": "s",
                "models": [],
                "datasets": [],
                "data": "",
                "versions": {},
                "traces": [],
                "questions": [],
            },
        },
    },
    "a list": [],
    "a number": 1,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_holds_no_gate_is_refused(tmp_path, name):
    path = tmp_path / "gate.json"
    path.write_text(json.dumps(BROKEN[name]))
    with pytest.raises(
        BrokenFile, match=r"expected a gate of schema gatewise.gate/1 in .* Write one with gatewise gate"
    ):
        Gate.read(path)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000, b'{"schema": NaN}'], ids=range(5))
def test_a_file_that_is_no_json_is_refused(tmp_path, text):
    path = tmp_path / "gate.json"
    path.write_bytes(text)
    with pytest.raises(BrokenFile, match="Write one with gatewise gate"):
        Gate.read(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BrokenFile, match="Check the path"):
        Gate.read(tmp_path / "none.json")


def test_a_service_that_runs_a_gate_loads_numpy_and_nothing_else(tmp_path):
    write_gate(Gate(Threshold(), BENT), tmp_path / "gate.json")
    program = (
        "import sys; before = set(sys.modules); from gatewise import Gate; Gate.read(sys.argv[1])(0.5, 0)\n"
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "gate.json"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['gatewise', 'numpy']"
