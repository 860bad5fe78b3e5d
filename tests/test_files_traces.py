import datetime
import decimal
import gzip
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings

import strategies
from gatewise import BadChoice, BrokenFile, BrokenTraces, Isotonic, Traces, calibrate
from gatewise.files import read_map, read_traces, reconstruction, write_csv, write_map, write_traces

KINDS = ["parquet", "csv", "jsonl"]
TWO = {
    "trace_id": ["a", "a", "b"],
    "depth": [0, 1, 0],
    "confidence": [0.4, 0.9, None],
    "correct": [False, True, None],
}


@pytest.fixture
def put(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def parquet(path, columns, types=None):
    table = pa.table({name: pa.array(values, (types or {}).get(name)) for name, values in columns.items()})
    pa.parquet.write_table(table, path)
    return path


@given(table=strategies.tables())
@settings(max_examples=25)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read_back_and_written_to_the_same_bytes(tmp_path_factory, kind, table):
    folder = tmp_path_factory.mktemp("files")
    traces = strategies.traces(table)
    one, two = folder / f"one.{kind}", folder / f"two.{kind}"
    write_traces(traces, one)
    again = read_traces(one)
    assert again.digest() == traces.digest()
    assert again.splits.tolist() == traces.splits.tolist()
    write_traces(again, two)
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_texts_survive_whatever_they_hold(tmp_path, kind):
    odd = ['a "quoted", text', "line\nbreak", "2026-01-01T00:00:00", "007", " true ", "=1+1", "\u202eolleh", "<b>&"]
    columns = {
        "trace_id": [f"0{i}" for i in range(len(odd))],
        "depth": [0] * len(odd),
        "confidence": [0.5] * len(odd),
        "correct": [True] * len(odd),
        "question": odd,
        "remark": odd,
    }
    traces = Traces.from_columns(columns)
    write_traces(traces, tmp_path / f"t.{kind}")
    again = read_traces(tmp_path / f"t.{kind}")
    assert again.ids.tolist() == columns["trace_id"]
    assert again.questions.tolist() == odd
    assert again.table["remark"].texts().tolist() == odd


def test_extra_csv_columns_are_read_by_what_they_look_like(put):
    text = "trace_id,depth,confidence,correct,hops,share,code,flag,note\n"
    text += "a,0,0.5,TRUE,2,1e-3,007,true,\nb,0,.25,0,3,2,12,false,x\n"
    traces = read_traces(put("t.csv", text))
    assert traces.column("hops").tolist() == [2, 3]
    assert traces.column("share").tolist() == [0.001, 2.0]
    assert traces.column("code").tolist() == ["007", "12"]
    assert traces.column("flag").tolist() == [True, False]
    assert traces.column("note").tolist() == [None, "x"]
    assert traces.correct.ravel().tolist() == [1, 0]


def test_compressed_text_is_read_and_a_byte_order_mark_is_no_part_of_a_name(put, tmp_path):
    text = "\ufefftrace_id,depth,confidence,correct\na,0,0.5,1\n".encode()
    assert len(read_traces(put("t.csv", text))) == 1
    assert len(read_traces(put("t.csv.gz", gzip.compress(text)))) == 1
    line = b'{"trace_id": "a", "depth": 0, "confidence": 0.5, "correct": true}\n'
    assert len(read_traces(put("t.jsonl.gz", gzip.compress(line)))) == 1
    assert len(read_traces(put("bom.jsonl", b"\xef\xbb\xbf" + line))) == 1


def test_parquet_columns_of_any_width_are_read_as_what_they_mean(tmp_path):
    columns = {
        **TWO,
        "dataset": ["x", "x", "y"],
        "remark": [datetime.date(2026, 1, 1)] * 3,
        "tags": [["p"], [], None],
    }
    for confidence, kind in (
        ([0.7, 0.1, None], pa.float32()),
        ([np.float16(0.7), np.float16(0.1), None], pa.float16()),
        ([decimal.Decimal("0.7"), decimal.Decimal("0.1"), None], pa.decimal128(5, 3)),
    ):
        types = {
            "confidence": kind,
            "depth": pa.uint8(),
            "dataset": pa.dictionary(pa.int8(), pa.string()),
            "trace_id": pa.large_string(),
        }
        path = parquet(tmp_path / "t.parquet", {**columns, "confidence": confidence}, types)
        traces = read_traces(path)
        assert traces.confidence[0].tolist() == [0.7, 0.1]
        assert traces.datasets.tolist() == ["x", "y"]
        assert set(traces.table) == set(columns)
    write_traces(traces, tmp_path / "again.parquet")
    assert read_traces(tmp_path / "again.parquet").digest() == traces.digest()


def test_ids_that_are_numbers_in_one_file_and_text_in_another_are_the_same_ids(tmp_path, put):
    first = parquet(tmp_path / "one.parquet", {**TWO, "trace_id": [1, 1, 2]})
    second = put("two.csv", "trace_id,depth,confidence,correct,hops\n2,1,0.5,true,4\n3,0,0.5,true,4\n")
    traces = read_traces(first, second)
    assert traces.ids.tolist() == ["1", "2", "3"]
    assert traces.lengths.tolist() == [2, 2, 1]
    short = {**TWO, "confidence": [0.7, None, None]}
    third = parquet(tmp_path / "three.parquet", short, {"confidence": pa.float32()})
    fourth = put("four.csv", "trace_id,depth,confidence,correct\nc,0,0.25,true\n")
    assert read_traces(third, fourth).confidence[:, 0].tolist()[::2] == [0.7, 0.25]


def test_a_row_is_named_by_its_own_file(tmp_path, put):
    first = parquet(tmp_path / "one.parquet", TWO)
    second = put("two.csv", "trace_id,depth,confidence,correct\nc,0,0.5,true\nd,0,1.5,true\n")
    with pytest.raises(BrokenTraces, match=r"two\.csv row 2, column confidence, value 1\.5"):
        read_traces(first, second)
    with pytest.raises(BrokenTraces, match="found this depth before"):
        read_traces(first, first)


def test_json_lines_that_the_fast_reader_refuses_are_read_line_by_line(put):
    rows = [
        {"trace_id": "a", "depth": 0, "confidence": 0.5, "correct": True, "answer": 42},
        {"trace_id": "b", "depth": 0, "confidence": 1, "correct": None, "answer": "42"},
    ]
    traces = read_traces(put("t.jsonl", "\n\n".join(map(json.dumps, rows)) + "\n"))
    assert traces.table["answer"].tolist() == [42, "42"]
    broken = json.dumps(rows[0]) + '\n{"trace_id": "b", "depth": 0, "confidence": NaN, "correct": true}\n[1]\nnot\n'
    with pytest.raises(BrokenTraces, match=r"row 2, column .*NaN.*strict JSON") as caught:
        read_traces(put("broken.jsonl", broken))
    assert [violation.row for violation in caught.value.violations] == [2, 3, 4]


def test_a_map_is_loaded_back_to_the_same_value_and_the_same_bytes(tmp_path):
    columns = {
        "trace_id": ["a", "b"],
        "depth": [0, 0],
        "confidence": [0.1, 0.30000000000000004],
        "correct": [False, True],
        "split": ["calibration"] * 2,
        "question": ["Who?", "What?"],
    }
    traces = Traces.from_columns(columns)
    for by_depth in (False, True):
        fitted = calibrate(traces, by_depth=by_depth)
        write_map(fitted, tmp_path / "one.json")
        again = read_map(tmp_path / "one.json")
        assert again == fitted
        assert hash(again) == hash(fitted)
        assert again.fitted_on.versions == fitted.fitted_on.versions
        write_map(again, tmp_path / "two.json")
        assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert b"Who" not in (tmp_path / "one.json").read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"schema": "gatewise.map/9", "kind": "isotonic", "x": [0.5], "y": [0.5]}',
        '{"schema": "gatewise.map/1", "kind": "spline", "x": [0.5], "y": [0.5]}',
        '{"schema": "gatewise.map/1", "kind": "isotonic", "x": ["0.5"], "y": [0.5]}',
        '{"schema": "gatewise.map/1", "kind": "isotonic", "x": [0.5]}',
        '{"schema": "gatewise.map/1", "kind": "isotonic", "x": [0.5], "y": [NaN]}',
        b"\xff\xfe",
    ],
)
def test_a_file_that_is_no_map_is_refused(put, content):
    with pytest.raises(BrokenFile, match="gatewise calibrate"):
        read_map(put("map.json", content))


def test_a_map_with_falling_values_is_refused(put):
    text = '{"schema": "gatewise.map/1", "kind": "isotonic", "x": [0.1, 0.5], "y": [0.9, 0.5]}'
    with pytest.raises(BrokenFile, match="not monotone"):
        read_map(put("map.json", text))


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "there" / "out.csv"
    with pytest.raises(BrokenFile, match="Choose another place"):
        write_csv(target, ["a"], [[1]])
    with pytest.raises(RuntimeError):
        write_csv(tmp_path / "out.csv", ["a"], (_ for _ in [0] if (_ for _ in ()).throw(RuntimeError)))
    assert os.listdir(tmp_path) == []
    write_map(Isotonic((0.5,), (0.5,)), tmp_path / "map.json")
    assert os.listdir(tmp_path) == ["map.json"]


def test_an_output_of_unknown_kind_is_refused(tmp_path):
    with pytest.raises(BrokenFile, match=r"\.parquet, \.csv or \.jsonl"):
        write_traces(Traces.from_columns(TWO), tmp_path / "t.xlsx")


def test_the_reconstructions_say_what_they_are():
    from importlib import resources

    for model in ("mistral-small-2603", "gpt-oss-120b", "qwen3-235b-a22b-2507"):
        file = resources.files("gatewise") / "data" / "reconstructions" / f"{model}.parquet"
        metadata = pa.parquet.read_schema(str(file)).metadata
        assert b"not model output" in metadata[b"synthetic"]
        assert len(reconstruction(model)) == 4910 + 2457


HEAD = "trace_id,depth,confidence,correct"
LINE = '{"trace_id": "a", "depth": 0, "confidence": 0.5, "correct": true}'


@pytest.mark.parametrize("missing", ["confidence", "correct", "p_true"])
def test_every_file_needs_every_required_column_and_the_signal(tmp_path, put, missing):
    whole = put("whole.csv", f"{HEAD},p_true\na,0,0.5,1,0.5\n")
    columns = {"trace_id": ["b"], "depth": [0], "confidence": [0.5], "correct": [True], "p_true": [0.5]}
    part = parquet(tmp_path / "part.parquet", {name: column for name, column in columns.items() if name != missing})
    for paths in ((whole, part), (part, whole), (part,)):
        with pytest.raises(BadChoice, match=rf"a column named '{missing}' in .*part\.parquet, found 'trace_id'"):
            read_traces(*paths, signal="p_true")


def test_numbers_in_one_file_are_the_texts_of_another(put):
    one = put("one.csv", f"{HEAD},hops\na,0,0.5,1,3\n")
    two = put("two.csv", f"{HEAD},hops\nb,0,0.5,1,3\nc,0,0.5,1,x\n")
    traces = read_traces(one, two)
    assert traces.column("hops").tolist() == ["3", "3", "x"]
    assert traces.table["hops"].values.tolist() == ["3", "x"]
    with pytest.raises(BrokenTraces, match="in 1 place:"):  # a column with rules names its wrong rows alone
        read_traces(one, put("words.csv", f"{HEAD}\nb,0,high,1\n"))


def test_extras_that_python_cannot_hold_are_kept_as_text(tmp_path):
    table = pa.table(TWO)
    for name, values, kind in (
        ("nanoseconds", 1700000000123456789, pa.timestamp("ns")),
        ("far", 2**62, pa.timestamp("us")),
        ("lasted", 5, pa.duration("ns")),
        ("at", 5, pa.time64("ns")),
    ):
        table = table.append_column(name, pa.array([values] * 3, kind))
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    traces = read_traces(tmp_path / "t.parquet")
    assert traces.column("nanoseconds")[0] == "2023-11-14 22:13:20.123456789"
    assert str(2**62) in traces.column("far")[0]
    assert traces.column("lasted")[0] == "5"
    write_traces(traces, tmp_path / "again.parquet")
    assert read_traces(tmp_path / "again.parquet").digest() == traces.digest()


@pytest.mark.parametrize("nested", [False, True])
def test_a_parquet_column_that_cannot_be_read_is_named(tmp_path, nested):
    crooked = pa.array([b"\xff\xfe"] * 3, pa.binary()).view(pa.string())
    column = pa.StructArray.from_arrays([crooked], ["inner"]) if nested else crooked
    pa.parquet.write_table(pa.table(TWO).append_column("remark", column), tmp_path / "t.parquet")
    with pytest.raises(BrokenFile, match=r"column 'remark' of .*t\.parquet.*Convert or drop"):
        read_traces(tmp_path / "t.parquet")


def test_a_csv_that_is_no_utf_8_is_one_error_where_rows_are_crooked_too(put, capfd):
    for content in (f"{HEAD}\na,0,0.5,1\ncafé,0,0.5\n", f"café,{HEAD}\na,0,0.5,1\n"):
        with pytest.raises(BrokenFile, match=r"cannot be read .*codec can't decode"):
            read_traces(put("t.csv", content.encode("latin1")))
    assert capfd.readouterr().err == ""


def test_a_column_without_a_name_is_refused(put):
    with pytest.raises(BrokenFile, match=r"none for column 1. Name it, or write the table without an index"):
        read_traces(put("t.csv", f",{HEAD}\n0,a,0,0.5,1\n"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (LINE + LINE.replace("a", "b") + "\n", "Extra data"),
        (LINE + LINE.replace("a", "b") + "\n\n", "Extra data"),
        (LINE.replace(", ", ",\n"), "row 1"),
        (LINE[:-1] + ', "x": NaN}', "NaN, which strict JSON does not know"),
        (LINE[:-1] + ', "x": [1, -Infinity]}', "-Infinity, which strict JSON does not know"),
        (LINE[:-1] + ', "x": 1, "x": 2}', "'x' twice"),
        (LINE.replace('"a"', '"\udcff"').encode("utf-8", "surrogateescape"), "expected UTF-8 text"),
        (LINE.replace("0.5", "1" * 400), "no finite number"),
    ],
)
def test_json_lines_that_are_not_strict_are_refused_with_their_row(put, content, problem):
    with pytest.raises(BrokenTraces, match=problem):
        read_traces(put("t.jsonl", content))


def test_json_texts_that_look_like_numbers_or_dates_stay_texts(put):
    extras = {"note": "NaN, [Infinity", "days": ["2026-01-01"], "more": {"day": "2026-01-01"}}
    row = {"trace_id": "a", "depth": 0, "confidence": 0.5, "correct": True, **extras}
    traces = read_traces(put("t.jsonl", json.dumps(row)))
    assert {name: traces.table[name].tolist() for name in ("days", "more")} == {
        "days": [["2026-01-01"]],
        "more": [{"day": "2026-01-01"}],
    }
    assert traces.column("note").tolist() == ["NaN, [Infinity"]


@pytest.mark.parametrize(
    ("kind", "values", "remedy"),
    [
        ("csv", [["p"], [], None], "Write .parquet"),
        ("csv", ["\ud800"] * 3, "Write .parquet"),
        ("jsonl", [datetime.date(2026, 1, 1)] * 3, "Write .parquet"),
        ("jsonl", [float("nan")] * 3, "Write .parquet"),
        ("jsonl", ["\ud800"] * 3, "Write .parquet"),
        ("parquet", [1, "x", None], "Make its values alike"),
        ("parquet", ["\ud800"] * 3, "Make its values alike"),
    ],
)
def test_a_column_that_a_kind_of_file_cannot_hold_is_named(tmp_path, kind, values, remedy):
    traces = Traces.from_columns({**TWO, "remark": values, "hops": [2, 2, 3]})
    with pytest.raises(BrokenFile, match=rf"a \.{kind} file can hold, found that 'remark' is none .*{remedy}"):
        write_traces(traces, tmp_path / f"t.{kind}")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["confidence", "correct"])
def test_columns_of_nothing_but_nulls_are_written_to_the_same_bytes(tmp_path, kind, name):
    write_traces(Traces.from_columns({**TWO, name: [None] * 3}), tmp_path / f"one.{kind}")
    write_traces(read_traces(tmp_path / f"one.{kind}"), tmp_path / f"two.{kind}")
    assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
