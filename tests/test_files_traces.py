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
    with pytest.raises(BadChoice, match="not monotone"):
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
