"""The command line as a user meets it: one JSON object or tables, and for every mistake one message and exit 2."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings

import oracles
import strategies

ROWS = [
    ("a", 0, 0.2, False, "calibration", "Who was A?"),
    ("a", 1, 0.6, True, "calibration", "Who was A?"),
    ("b", 0, 0.8, True, "calibration", "Who was B?"),
    ("b", 1, 0.9, True, "calibration", "Who was B?"),
    ("c", 0, 0.5, False, "test", "Who was C?"),
    ("c", 1, 0.95, True, "test", "Who was C?"),
    ("d", 0, None, None, "test", "Who was D?"),
    ("d", 1, 0.75, None, "test", "Who was D?"),
]
NAMES = ["trace_id", "depth", "confidence", "correct", "split", "question"]
GOOD = {name: [row[place] for row in ROWS] for place, name in enumerate(NAMES)}


@pytest.fixture
def traces(tmp_path):
    path = tmp_path / "traces.parquet"
    pa.parquet.write_table(pa.table(GOOD), path)
    return path


def write(folder, columns):
    path = folder / "traces.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    return path


def as_json(result):
    code, out, _ = result
    assert code == 0
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no strict JSON"))


def test_replay_prints_one_object_that_keeps_the_contract(gatewise, traces):
    found = as_json(gatewise("replay", traces, "--json"))
    assert found["schema"] == "gatewise.replay/1"
    assert found["map"]["kind"] == "isotonic"
    assert (found["map"]["x"], found["map"]["y"]) == ([0.2, 0.8], [0.0, 1.0])
    assert found["map"]["fitted_on"]["n"] == 2
    assert set(found["equivalent_raw"]) == {"lo", "hi"}
    assert [row["tau"] for row in found["thresholds"]["raw"]] == list(oracles.TAUS)
    assert [row["budget"] for row in found["budgets"]["calibrated"]] == [0, 1]
    assert {"n", "helpful", "harmful"} <= set(found["transitions"])
    assert {"depth", "n", "raw", "accuracy", "calibrated"} <= set(found["top_bin"])
    point = found["systems"]["pooled"]["raw"]
    assert set(point["actions"]) == {"commit", "abstain", "escalate"}
    assert set(point["bounds"]) == {"overall_accuracy", "committed_accuracy"}


@given(table=strategies.tables(most=15, depths=5))
@settings(max_examples=15)
def test_replay_of_a_file_equals_the_oracle(tmp_path_factory, table):
    table[0]["split"] = "test"
    path = tmp_path_factory.mktemp("cli") / "t.csv"
    pa.csv.write_csv(pa.table(strategies.columns(table)), path)
    ordered = sorted(table, key=lambda trace: trace["id"])
    heads = [t["states"][0] for t in ordered if t["split"] == "calibration"]
    knots = oracles.isotonic([(s["confidence"], s["correct"]) for s in heads])
    test = [trace for trace in ordered if trace["split"] == "test"]
    expected = oracles.summary(
        [t["states"] for t in test], [t["question"] for t in test], [t["dataset"] for t in test], knots, 0.2, 0.8, 2
    )
    command = ["-m", "gatewise", "replay", str(path), "--json", "--lo", ".2", "--hi", ".8", "--budget", "2"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    oracles.close(json.loads(done.stdout), expected)


def test_tables_and_json_show_the_same_numbers(gatewise, traces):
    point = as_json(gatewise("replay", traces, "--json"))["systems"]["pooled"]["raw"]
    _, out, _ = gatewise("replay", traces)
    row = next(line for line in out.splitlines() if line.strip().startswith("raw-gated"))
    assert row.split()[1:] == [
        f"{100 * point['overall_accuracy']:.1f}",
        f"{100 * point['committed_accuracy']:.1f}",
        f"{100 * point['coverage']:.1f}",
        f"{point['mean_cost']:.2f}",
        *(str(point[name]) for name in ("committed", "correct")),
        *(str(point["actions"][name]) for name in ("abstain", "escalate")),
    ]
    assert "\x1b" not in out


def test_check_counts_what_a_file_holds(gatewise, traces, tmp_path):
    found = as_json(gatewise("check", traces, "--json", "-o", tmp_path / "copy.csv"))
    assert (found["schema"], found["traces"], found["states"]) == ("gatewise.check/1", 4, 8)
    assert found["splits"] == {"calibration": 2, "test": 2}
    assert found["without_confidence"] == [1, 0]
    assert found["without_verdict"] == [1, 1]
    assert found["distinct"] == [3, 4]
    again = as_json(gatewise("check", tmp_path / "copy.csv", "--json"))
    assert again["digest"] == found["digest"]
    _, out, _ = gatewise("check", traces)
    assert "4 traces, 8 states" in out


def test_calibrate_writes_a_map_that_replay_uses(gatewise, traces, tmp_path):
    fitted = as_json(gatewise("calibrate", traces, "-o", tmp_path / "map.json", "--json"))
    own = as_json(gatewise("replay", traces, "--json"))
    given_map = as_json(gatewise("replay", traces, "--map", tmp_path / "map.json", "--json"))
    assert given_map == own
    assert fitted["map"] == own["map"]
    first = (tmp_path / "map.json").read_bytes()
    gatewise("calibrate", traces, "-o", tmp_path / "map.json")
    assert (tmp_path / "map.json").read_bytes() == first


def test_a_map_by_depth_has_no_equivalent_and_says_so(gatewise, traces, tmp_path):
    gatewise("calibrate", traces, "-o", tmp_path / "map.json", "--by-depth")
    found = as_json(gatewise("replay", traces, "--map", tmp_path / "map.json", "--json"))
    assert found["map"]["kind"] == "isotonic-by-depth"
    assert found["equivalent_raw"] is None
    _, out, _ = gatewise("replay", traces, "--map", tmp_path / "map.json")
    assert "no raw gate acts alike, because the map depends on depth" in out


def test_the_equivalent_raw_gate_is_printed_beside_the_calibrated_one(gatewise, traces):
    cuts = as_json(gatewise("replay", traces, "--json"))["equivalent_raw"]
    _, out, _ = gatewise("replay", traces)
    assert f"acts as the raw gate lo {cuts['lo']!r}, hi {cuts['hi']!r}" in out


def test_without_calibration_split_or_map_the_raw_score_is_replayed_alone(gatewise, tmp_path):
    path = write(tmp_path, {name: GOOD[name] for name in NAMES[:4]})
    code, out, err = gatewise("replay", path, "--json")
    assert code == 0
    assert "no calibration split and no --map" in err
    assert json.loads(out)["map"] is None


def test_the_frontier_csv_holds_every_threshold_and_budget_of_both_scores(gatewise, traces, tmp_path):
    found = as_json(gatewise("frontier", traces, "-o", tmp_path / "f.csv", "--json"))
    lines = (tmp_path / "f.csv").read_text().splitlines()
    assert lines[0] == (
        "score,budget,threshold,committed,correct,unlabelled,cost,"
        "overall_accuracy,committed_accuracy,coverage,mean_cost,selective_risk"
    )
    raw = found["scores"]["raw"]
    assert raw["thresholds"] == [0.5, 0.75, 0.95]
    assert len(lines) == 1 + 2 * (3 + len(found["scores"]["calibrated"]["thresholds"]))
    assert lines[1] == "raw,0,0.5,1,0,0,0.0,0.0,0.0,0.5,0.0,1.0"
    assert lines[6] == "raw,1,0.95,1,1,0,2.0,0.5,1.0,0.5,1.0,0.0"
    assert [raw["committed"][1], raw["cost"][1]] == [[2, 2, 1], [1.0, 2.0, 2.0]]


def test_both_scores_are_read_at_the_same_coverage_risk_or_cost(gatewise, traces):
    found = as_json(
        gatewise("frontier", traces, "--at", "coverage=.9", "--at", "risk=0", "--at", "cost=.5", "--json")
    )
    rows = [(row["target"], row["score"], row["budget"], row["threshold"]) for row in found["at"]]
    assert ("coverage", "raw", 0, None) in rows
    assert ("coverage", "raw", 1, 0.75) in rows
    assert ("cost", "raw", 1, 0.5) in rows
    code, out, _ = gatewise("frontier", traces, "--at", "coverage=.9")
    assert code == 0
    assert "not attainable" in out


def test_a_signal_is_compared_on_the_same_states(gatewise, tmp_path):
    path = write(tmp_path, {**GOOD, "p_true": [0.1, 0.2, 0.9, 0.9, 0.8, 0.9, 0.1, 0.2]})
    one = as_json(gatewise("replay", path, "--json"))
    two = as_json(gatewise("replay", path, "--json", "--signal", "p_true"))
    assert two["settings"]["signal"] == "p_true"
    assert one["systems"]["pooled"]["rag@1"] == two["systems"]["pooled"]["rag@1"]
    assert one["systems"]["pooled"]["raw"] != two["systems"]["pooled"]["raw"]


def test_policies_of_ones_own_are_replayed_by_name(gatewise, traces, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nfrom gatewise import Action\n\n\n"
        "def eager(view):\n    return np.full(len(view), Action.COMMIT)\n\n\nclass Policy:\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    found = as_json(gatewise("replay", traces, "--policy", "mine:eager", "--policy", "rag@7", "--json"))
    systems = found["systems"]["pooled"]
    assert found["policies"]["mine:eager"]["raw"] == systems["parametric"]
    assert found["policies"]["rag@7"]["calibrated"]["committed"] == 2
    _, out, _ = gatewise("replay", traces, "--policy", "mine:eager")
    assert "mine:eager (raw score)" in out
    for name, message in (
        ("mine:lazy", "AttributeError"),
        ("mine:Policy", "found type"),
        ("missing_module:x", "ModuleNotFoundError"),
        ("adaptiv", "did you mean adaptive"),
    ):
        code, _, err = gatewise("replay", traces, "--policy", name)
        assert code == 2
        assert message in err


def test_everything_is_broken_down_by_a_column(gatewise, tmp_path):
    path = write(tmp_path, {**GOOD, "hops": [2, 2, 2, 2, 3, 3, None, None]})
    found = as_json(gatewise("replay", path, "--by", "hops", "--json"))["by"]
    assert [group["value"] for group in found["groups"]] == [3, None]
    _, out, _ = gatewise("replay", path, "--by", "hops")
    assert "hops = 3" in out
    assert "hops = (none)" in out


def test_leaks_are_refused_unless_allowed(gatewise, traces, tmp_path):
    code, _, err = gatewise("replay", traces, "--split", "calibration")
    assert code == 2
    assert "--allow-leak" in err
    assert gatewise("replay", traces, "--split", "calibration", "--allow-leak")[0] == 0
    assert gatewise("frontier", traces, "--split", "calibration")[0] == 2
    assert gatewise("frontier", traces, "--split", "calibration", "--allow-leak")[0] == 0


def test_help_and_version_answer_without_loading_numbers(gatewise):
    code, out, _ = gatewise("--version")
    assert (code, out.split()[0]) == (0, "gatewise")
    program = (
        "import sys; from gatewise.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy', 'pyarrow', 'msgspec', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "Replay the gate" in done.stdout


def test_a_reader_that_leaves_early_is_no_error(traces):
    command = f"{sys.executable} -m gatewise paper | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def changed(**changes):
    return {**GOOD, **changes}


def without(*names):
    return {name: values for name, values in GOOD.items() if name not in names}


def at(row, column, value):
    values = list(GOOD[column])
    values[row] = value
    return {**GOOD, column: values}


HEAD = "trace_id,depth,confidence,correct\n"
LINE = '{"trace_id": "a", "depth": 0, "confidence": 0.5, "correct": true}'

# name of the file, its content (columns are written as Parquet), the command, and what the error must say
BROKEN = {
    "no confidence column": ("t.parquet", without("confidence"), "check", "a column named 'confidence'"),
    "no correct column": ("t.parquet", without("correct"), "check", "a column named 'correct'"),
    "no id column": ("t.parquet", without("trace_id"), "check", "a column named 'trace_id'"),
    "no depth column": ("t.parquet", without("depth"), "check", "a column named 'depth'"),
    "misspelt column": (
        "t.csv",
        "trace_id,depth,confidance,correct\na,0,0.5,1\n",
        "check",
        "did you mean confidance",
    ),
    "gap in depths": ("t.parquet", at(1, "depth", 2), "check", "without a gap"),
    "no depth 0": ("t.csv", HEAD + "a,1,0.5,1\n", "check", "without a gap"),
    "negative depth": ("t.csv", HEAD + "a,-1,0.5,1\n", "check", "whole number from 0"),
    "half a depth": ("t.csv", HEAD + "a,0.5,0.5,1\n", "check", "whole number from 0"),
    "null depth": ("t.csv", HEAD + "a,,0.5,1\nb,0,0.5,1\n", "check", "expected a depth"),
    "depth in words": ("t.csv", HEAD + "a,zero,0.5,1\n", "check", "'zero'"),
    "duplicate state": ("t.parquet", at(1, "depth", 0), "check", "found this depth before"),
    "null id": ("t.parquet", at(0, "trace_id", None), "check", "expected an id"),
    "blank id": ("t.csv", HEAD + '" ",0,0.5,1\n', "check", "expected an id"),
    "confidence 1.2": ("t.parquet", at(0, "confidence", 1.2), "check", "value 1.2: expected a number in [0, 1]"),
    "confidence below 0": ("t.parquet", at(0, "confidence", -0.1), "check", "value -0.1"),
    "confidence 85%": ("t.csv", HEAD + "a,0,85%,1\n", "check", "value '85%'"),
    "confidence NaN": ("t.parquet", at(0, "confidence", float("nan")), "check", "value nan"),
    "confidence NaN in CSV": ("t.csv", HEAD + "a,0,NaN,1\n", "check", "no finite number"),
    "confidence inf": ("t.parquet", at(0, "confidence", float("inf")), "check", "value inf"),
    "confidence true": ("t.jsonl", LINE.replace("0.5", "true"), "check", "found no number"),
    "confidence as text": ("t.jsonl", LINE.replace("0.5", '"0.5"'), "check", "found no number"),
    "percent": ("t.csv", HEAD + "a,0,85,1\nb,0,40,1\n", "check", "Divide percentages by 100"),
    "mixed scales": ("t.csv", HEAD + "a,0,85,1\nb,0,0.4,1\n", "check", "mixes the scales"),
    "labels as words": ("t.csv", HEAD + "a,0,0.5,yes\n", "check", "expected true, false or null"),
    "labels as strings": ("t.jsonl", LINE.replace("true", '"true"'), "check", "expected true, false or null"),
    "label 2": ("t.csv", HEAD + "a,0,0.5,2\n", "check", "expected true, false or null"),
    "label 0.5": ("t.csv", HEAD + "a,0,0.5,0.5\n", "check", "expected true, false or null"),
    "unknown split": ("t.parquet", at(0, "split", "train"), "check", "calibration, validation, test"),
    "null split": ("t.parquet", at(0, "split", None), "check", "calibration, validation, test"),
    "split that changes": ("t.parquet", at(1, "split", "test"), "check", "one value within a trace"),
    "question that changes": ("t.parquet", at(1, "question", "Else?"), "check", "one value within a trace"),
    "data set of decimals": ("t.parquet", changed(dataset=[0.5] * 8), "check", "expected text"),
    "price at depth 0": ("t.parquet", changed(cost=[1.0] * 8), "check", "0 or null at depth 0"),
    "negative price": ("t.parquet", changed(cost=[0.0, -1.0] * 4), "check", "found a negative one"),
    "price missing": (
        "t.parquet",
        changed(cost=[0.0, None] * 3 + [0.0, 1.0]),
        "check",
        "expected a price, found none",
    ),
    "infinite price": ("t.parquet", changed(cost=[0.0, float("inf")] * 4), "check", "no finite number"),
    "new passages -1": ("t.parquet", changed(new_passages=[0, -1] * 4), "check", "whole number from 0"),
    "signal out of range": ("t.parquet", changed(p_true=[7.0] * 8), "check", "column p_true, value 7.0"),
    "empty file": ("t.parquet", b"", "check", "an empty file"),
    "empty CSV": ("t.csv", "", "check", "an empty file"),
    "header alone": ("t.csv", HEAD, "check", "found no row"),
    "blank lines alone": ("t.jsonl", "\n\n", "check", "found no row"),
    "Parquet cut short": ("t.parquet", b"PAR1" + b"\0" * 50, "check", "cannot be read"),
    "not Parquet": ("t.parquet", HEAD, "check", "cannot be read"),
    "not UTF-8": ("t.csv", HEAD.encode() + b"\xff\xfe,0,0.5,1\n", "check", "cannot be read"),
    "not gzip": ("t.csv.gz", HEAD, "check", "cannot be read"),
    "row with too few fields": ("t.csv", HEAD + "a,0,0.5\n", "check", "expected 4 fields, found 3"),
    "row with too many fields": ("t.csv", HEAD + "a,0,0.5,1\nb,0,0.5,1,9\n", "check", "row 2"),
    "column twice": (
        "t.csv",
        "trace_id,depth,confidence,correct,depth\na,0,0.5,1,0\n",
        "check",
        "once, found 'depth'",
    ),
    "half JSON": ("t.jsonl", LINE + "\n" + LINE[:20], "check", "row 2"),
    "JSON array": ("t.jsonl", f"[{LINE}]", "check", "found list"),
    "JSON NaN": ("t.jsonl", LINE.replace("0.5", "NaN"), "check", "NaN, which strict JSON does not know"),
    "spreadsheet": ("t.xlsx", b"PK", "check", "expected a trace file named"),
    "no calibration split": ("t.parquet", without("split"), "calibrate", "found only test"),
    "no usable calibration": (
        "t.parquet",
        changed(correct=[None] * 4 + GOOD["correct"][4:]),
        "calibrate",
        "a confidence and a verdict to fit on",
    ),
    "no test split": ("t.parquet", changed(split=["calibration"] * 8), "replay", "found only calibration"),
    "several models": ("t.parquet", changed(model=["m"] * 4 + ["n"] * 4), "replay", "one model, found 2: 'm', 'n'"),
    "several models to fit": ("t.parquet", changed(model=["m"] * 4 + ["n"] * 4), "calibrate", "found 2: 'm', 'n'"),
    "several models to sweep": ("t.parquet", changed(model=["m"] * 4 + ["n"] * 4), "frontier", "found 2: 'm', 'n'"),
    "data set called pooled": ("t.parquet", changed(dataset=["pooled"] * 8), "replay", "not called 'pooled'"),
    "the same question on both sides": ("t.parquet", changed(question=["Who?"] * 8), "replay", "question text"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_one_clear_error(gatewise, tmp_path, case):
    name, content, command, message = BROKEN[case]
    path = tmp_path / name
    if isinstance(content, dict):
        pa.parquet.write_table(pa.table(content), path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    arguments = ["-o", tmp_path / "map.json"] if command == "calibrate" else []
    code, out, err = gatewise(command, path, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert not (tmp_path / "map.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lo", ".8", "--hi", ".2"], "lo ≤ hi"),
        (["--lo", "-1"], "--lo"),
        (["--hi", "70"], "--hi"),
        (["--hi", "nan"], "--hi|lo ≤ hi"),
        (["--budget", "-1"], "--budget"),
        (["--split", "tset"], "did you mean test"),
        (["--signal", "p_tru"], "a column named 'p_tru'"),
        (["--signal", "question"], "found no number"),
        (["--cost", "price"], "'price'"),
        (["--by", "hops"], "found 'hops'"),
        (["--by", "confidence"], "changes within trace"),
        (["--model", "gpt"], "found 'gpt'"),
        (["--dataset", "hotpotqa"], "found 'hotpotqa'"),
        (["--map", "nowhere.json"], "No such file"),
        (["--json", "--at", "x"], "No such option|no such option"),
    ],
)
def test_an_option_that_cannot_be_is_one_clear_error(gatewise, traces, arguments, message):
    import re

    code, out, err = gatewise("replay", traces, *arguments)
    assert (code, out) == (2, "")
    assert re.search(message, err), err


@pytest.mark.parametrize("target", ["coverage", "coverage=", "coverage=80", "risk=-1", "cost=nan", "accuracy=.5"])
def test_a_target_that_cannot_be_read_is_refused(gatewise, traces, target):
    code, _, err = gatewise("frontier", traces, "--at", target)
    assert code == 2
    assert "expected --at coverage=.8, risk=.1 or cost=1" in err


def test_files_that_are_not_there_are_named(gatewise, tmp_path):
    for path, message in ((tmp_path / "none.csv", "no such file"), (tmp_path, "named .parquet")):
        code, _, err = gatewise("check", path)
        assert code == 2
        assert message in err
    (tmp_path / "folder.csv").mkdir()
    assert "a folder" in gatewise("check", tmp_path / "folder.csv")[2]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_a_file_that_may_not_be_read_is_one_clear_error(gatewise, traces):
    Path(traces).chmod(0)
    code, _, err = gatewise("check", traces)
    assert (code, "cannot be read" in err) == (2, True)


def test_an_output_never_overwrites_what_is_read(gatewise, tmp_path):
    path = tmp_path / "t.csv"
    pa.csv.write_csv(pa.table(GOOD), path)
    (tmp_path / "link.csv").symlink_to(path)
    other = write(tmp_path, {**GOOD, "trace_id": [f"{name}2" for name in GOOD["trace_id"]]})
    gatewise("calibrate", path, "-o", tmp_path / "map.json")
    before = {name: (tmp_path / name).read_bytes() for name in ("t.csv", "map.json")}
    for arguments in (
        ["check", path, "-o", path],
        ["check", other, path, "-o", tmp_path / "link.csv"],
        ["calibrate", path, "-o", path],
        ["frontier", path, "-o", path],
        ["frontier", path, "--map", tmp_path / "map.json", "-o", tmp_path / "map.json"],
    ):
        code, out, err = gatewise(*arguments)
        assert (code, out) == (2, "")
        assert "Choose another -o" in err
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_models_that_are_half_named_are_refused_until_one_is_chosen(gatewise, tmp_path):
    path = write(tmp_path, {**GOOD, "model": ["m"] * 6 + [None] * 2})
    for command in ("replay", "frontier"):
        code, _, err = gatewise(command, path)
        assert (code, "found 2: 'm', no model" in err) == (2, True)
        assert gatewise(command, path, "--model", "m")[0] == 0


def test_groups_of_two_files_are_one_where_they_read_alike(gatewise, tmp_path):
    for name, value in (("a", "3"), ("b", "3\nc,0,0.5,1,x")):
        (tmp_path / f"{name}.csv").write_text(f"{HEAD.strip()},hops\n{name},0,0.5,1,{value}\n")
    found = as_json(gatewise("replay", tmp_path / "a.csv", tmp_path / "b.csv", "--by", "hops", "--json"))
    groups = [(group["value"], group["systems"]["raw"]["n"]) for group in found["by"]["groups"]]
    assert groups == [("3", 2), ("x", 1)]


def started(*arguments, **options):
    command = [sys.executable, "-m", "gatewise", *map(str, arguments)]
    return subprocess.run(command, capture_output="stdout" not in options, check=False, **options)


def test_no_encoding_of_the_terminal_is_an_error(tmp_path):
    path = tmp_path / "t.jsonl"
    rows = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    path.write_text("".join(json.dumps({**row, "dataset": "mü\ud800\x1b[31m"}) + "\n" for row in rows))
    for encoding in ("ascii", "utf-8", "latin-1"):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        for command in ("replay", "check", "frontier"):
            done = started(command, path, env=environment)
            assert (done.returncode, done.stderr) == (0, b"")
            assert b"\x1b" not in done.stdout
        assert rb"\ud800" in started("replay", path, env=environment).stdout
        done = started("check", path, "--signal", "mü", env=environment)
        assert (done.returncode, b"Traceback" in done.stderr) == (2, False)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["replay"], ["replay", "--json"], ["frontier", "--json"], ["--version"]])
def test_a_full_disk_behind_standard_output_is_one_message(traces, arguments):
    with open("/dev/full", "wb") as full:
        paths = [traces] if arguments != ["--version"] else []
        done = started(*arguments, *paths, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == (
        b"error: expected to write the results, found: No space left on device. Make room, or choose another place.\n"
    )


def test_what_a_policy_prints_is_no_result_and_what_it_raises_no_end(gatewise, traces, tmp_path, monkeypatch):
    (tmp_path / "loud.py").write_text(
        "import sys\nimport numpy as np\nprint('loading')\n\n\n"
        "def talk(view):\n    print('hello')\n    return np.zeros(len(view), int)\n\n\n"
        "def leave(view):\n    sys.exit(5)\n"
    )
    (tmp_path / "gone.py").write_text("raise SystemExit(0)\n")
    monkeypatch.chdir(tmp_path)
    code, out, err = gatewise("replay", traces, "--policy", "loud:talk", "--json")
    assert code == 0
    assert json.loads(out)["policies"]["loud:talk"]
    assert (err.count("loading"), err.count("hello")) == (1, 2)
    for name in ("loud:leave", "gone:anything"):
        code, out, err = gatewise("replay", traces, "--policy", name, "--json")
        assert (code, out) == (2, "")
        assert "found SystemExit" in err


def test_allowing_leaks_allows_no_other_signal(gatewise, tmp_path):
    path = write(tmp_path, {**GOOD, "p_true": [0.1, 0.2, 0.9, 0.9, 0.8, 0.9, 0.1, 0.2]})
    gatewise("calibrate", path, "-o", tmp_path / "map.json")
    for command in ("replay", "frontier"):
        arguments = [path, "--map", tmp_path / "map.json", "--signal", "p_true", "--allow-leak"]
        code, _, err = gatewise(command, *arguments)
        assert (code, "gated on 'confidence'" in err) == (2, True)


def test_a_fit_is_the_same_whatever_prices_a_retrieval(gatewise, tmp_path):
    path = write(tmp_path, {**GOOD, "usd": [0.5] * 8})
    fitted = as_json(gatewise("calibrate", path, "-o", tmp_path / "map.json", "--json"))["map"]
    assert as_json(gatewise("replay", path, "--cost", "usd", "--json"))["map"] == fitted
    priced = write(
        tmp_path, {**GOOD, "cost": [0.5] * 8}
    )  # depth 0 is paid for, so the column must be named otherwise
    assert gatewise("calibrate", priced, "-o", tmp_path / "map.json")[0] == 2


@pytest.mark.parametrize(
    ("options", "lo"), [(["--hi", ".2"], 0.2), (["--hi", ".9"], 0.3), (["--hi", ".2", "--lo", ".1"], 0.1)]
)
def test_lo_is_never_above_hi_unless_it_is_given_so(gatewise, traces, options, lo):
    assert as_json(gatewise("replay", traces, *options, "--json"))["settings"]["lo"] == lo
    assert f"gate lo {lo:g}, hi" in gatewise("replay", traces, *options)[1]


def test_a_calibration_split_without_a_usable_record_is_a_warning_and_no_map(gatewise, tmp_path):
    path = write(tmp_path, {**GOOD, "correct": [None] * 4 + GOOD["correct"][4:]})
    for command in ("replay", "frontier"):
        code, out, err = gatewise(command, path, "--json")
        assert code == 0
        assert "no record with a confidence and a verdict at depth 0 in the calibration split" in err
    assert list(json.loads(out)["scores"]) == ["raw"]
    assert as_json(gatewise("replay", path, "--json"))["systems"]["pooled"]["calibrated"] is None


def test_a_map_that_does_not_say_its_origin_is_a_warning(gatewise, traces, tmp_path):
    for fitted_on in (None, ...):
        path = tmp_path / "map.json"
        gatewise("calibrate", write(tmp_path, {**GOOD, "model": ["\x1b[31mm"] * 8}), "-o", path)
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, **({} if fitted_on else {"fitted_on": None})}))
        pa.parquet.write_table(pa.table(GOOD), traces)
        for command in ("replay", "frontier"):
            code, _, err = gatewise(command, traces, "--map", path, "--allow-leak")
            assert code == 0
            said = r"fitted on \x1b[31mm; these traces name no model" if fitted_on else "leaks cannot be recognised"
            assert said in err


def test_a_budget_of_any_size_is_taken(gatewise, traces):
    most = as_json(gatewise("replay", traces, "--budget", "9" * 23, "--json"))
    assert most["systems"] == as_json(gatewise("replay", traces, "--budget", "9", "--json"))["systems"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "--cost", "nope"], "'trace_id'.*Choose one of them with --cost"),
        (["replay", "--by", "nope"], "'trace_id'.*Choose one with --by"),
        (["replay", "--model", "nope"], "Choose one with --model"),
        (["replay", "--policy", "nope"], "Choose one with --policy"),
        (["frontier", "--at", "nope"], "Name a target and a number"),
    ],
)
def test_every_message_says_what_to_do(gatewise, traces, arguments, message):
    import re

    command, *options = arguments
    code, _, err = gatewise(command, traces, *options)
    assert code == 2
    assert re.search(message, err), err


def test_control_characters_of_a_file_reach_no_terminal(gatewise, tmp_path):
    odd = "\x1b[31m\u202ex"
    path = write(tmp_path, {**GOOD, "dataset": [odd] * 8, "model": [odd] * 8, odd: [odd] * 8})
    for arguments in (
        ["replay", path, "--by", odd],
        ["replay", path, "--by", f"{odd}y"],
        ["replay", path, "--dataset", f"{odd}y"],
        ["frontier", path],
        ["check", path],
        ["calibrate", path, "-o", tmp_path / "map.json"],
    ):
        _, out, err = gatewise(*arguments)
        assert not {"\x1b", "\u202e"} & set(out + err)
