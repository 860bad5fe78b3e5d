"""gatewise gate: a gate written, and what it would have done; the same numbers as gatewise replay."""

import json

import pytest

from gatewise import Gate, Isotonic, IsotonicByDepth, Threshold
from gatewise.files import reconstruction, write_map, write_traces


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    path = tmp_path_factory.mktemp("gates") / "traces.parquet"
    write_traces(reconstruction("gpt-oss-120b"), path)
    return path


@pytest.fixture
def fitted(gatewise, traces, tmp_path):
    gatewise("calibrate", traces, "-o", tmp_path / "map.json")
    return tmp_path / "map.json"


def test_the_gate_that_is_written_is_the_one_that_was_replayed(gatewise, traces, fitted, tmp_path):
    cuts = ("--lo", ".2", "--hi", ".8", "--budget", "2")
    code, out, _ = gatewise("gate", traces, "--map", fitted, *cuts, "-o", tmp_path / "gate.json", "--json")
    assert code == 0
    found = json.loads(out)
    _, out, _ = gatewise("replay", traces, "--map", fitted, *cuts, "--json")
    replayed = json.loads(out)
    assert found["schema"] == "gatewise.gate-written/1"
    assert found["point"] == replayed["systems"]["pooled"]["calibrated"]
    assert found["equivalent_raw"] == replayed["equivalent_raw"]
    assert found["gate"]["map"] == replayed["map"]
    gate = Gate.read(tmp_path / "gate.json")
    assert (gate.policy, gate.budget, gate.signal) == (Threshold(lo=0.2, hi=0.8), 2, "confidence")
    assert gate.map.fitted_on.n == 4910


def test_without_a_map_it_is_the_raw_gate(gatewise, traces, tmp_path):
    _, out, _ = gatewise("gate", traces, "-o", tmp_path / "gate.json", "--json")
    found = json.loads(out)
    _, out, _ = gatewise("replay", traces, "--json")
    assert found["point"] == json.loads(out)["systems"]["pooled"]["raw"]
    assert (found["gate"]["map"], found["equivalent_raw"]) == (None, None)


def test_without_traces_it_is_written_all_the_same(gatewise, tmp_path):
    code, out, _ = gatewise("gate", "--hi", ".2", "--signal", "p_true", "-o", tmp_path / "gate.json")
    assert (code, out.splitlines()[0]) == (0, "gate lo 0.2, hi 0.2, budget 3 on p_true")
    assert Gate.read(tmp_path / "gate.json") == Gate(Threshold(lo=0.2, hi=0.2), signal="p_true")


def test_its_table_shows_the_numbers_of_its_json(gatewise, traces, fitted, tmp_path):
    command = ("gate", traces, "--map", fitted, "-o", tmp_path / "gate.json")
    point = json.loads(gatewise(*command, "--json")[1])["point"]
    lines = gatewise(*command)[1].splitlines()
    assert lines[0].endswith("through a map of 4,910 records of split calibration")
    assert lines[4].split()[:2] == [f"{100 * point[name]:.1f}" for name in ("overall_accuracy", "committed_accuracy")]


def test_traces_that_the_map_has_seen_are_refused_and_nothing_is_written(gatewise, traces, fitted, tmp_path):
    command = ("gate", traces, "--map", fitted, "--split", "calibration", "-o", tmp_path / "gate.json")
    code, _, err = gatewise(*command)
    assert (code, "took no part in fitting the map" in err) == (2, True)
    assert not (tmp_path / "gate.json").exists()
    assert gatewise(*command, "--allow-leak")[0] == 0


def test_a_budget_beyond_what_was_recorded_is_said(gatewise, traces, tmp_path):
    code, _, err = gatewise("gate", traces, "--budget", "5", "-o", tmp_path / "gate.json")
    assert code == 0
    assert "the gate may retrieve 5 times, these traces 3 times at most" in err


def test_what_is_no_gate_is_refused(gatewise, traces, fitted, tmp_path):
    shallow = tmp_path / "shallow.json"
    write_map(IsotonicByDepth((Isotonic((0.5,), (0.5,)),)), shallow)
    for arguments, said in (
        (("--map", shallow), "expected a map for each depth from 0 to 3"),
        (("--map", fitted, "--signal", "p_true"), "the signal this map was fitted on"),
        (("--lo", ".8"), "expected lo ≤ hi"),
        ((traces, "--split", "tset"), "did you mean test?"),
    ):
        code, _, err = gatewise("gate", *arguments, "-o", tmp_path / "gate.json")
        assert (code, said in err) == (2, True), err
    code, _, err = gatewise("gate", traces, "-o", traces)
    assert (code, "Choose another -o" in err) == (2, True)
