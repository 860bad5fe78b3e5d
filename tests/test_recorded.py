import json

import pytest

from gatewise import files
from gatewise.errors import BrokenFile
from gatewise.files import recorded
from gatewise.files.recorded import Kinds, missing_in, recording

COLUMNS = ("trace_id", "depth", "confidence", "correct", "question")


def row(number, **more):
    same = {"trace_id": f"q{number}", "depth": 0, "confidence": number % 101 / 100, "correct": number % 3 == 0}
    return same | {"question": f"Why {number}?"} | more


def written(path, rows, *abouts):
    kinds = Kinds()
    for about in abouts:
        kinds.add(about)
    with recording(path, COLUMNS, kinds) as take:
        for one in rows:
            take(one)
    return path


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_what_is_written_row_by_row_is_read_as_a_trace_table(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(recorded, "PIECE", 7)
    rows = [row(number, hops=number % 3) for number in range(30)]
    rows[3] |= {"confidence": None}
    rows[4] |= {"correct": None}
    path = written(tmp_path / f"t.{kind}", rows, {"hops": 2})
    traces = files.read_traces(path)
    assert len(traces.ids) == 30
    again = written(tmp_path / f"again.{kind}", rows, {"hops": 2})
    assert path.read_bytes() == again.read_bytes()


def test_a_column_of_the_source_has_one_kind_and_several_make_it_text(tmp_path):
    path = written(
        tmp_path / "t.jsonl",
        [row(1, a=1, b=1, c=True, d=None, e="x"), row(2, a=2, b=0.5, c=False, d=None, e=7)],
        {"a": 1, "b": 1, "c": True, "d": None, "e": "x"},
        {"a": 2, "b": 0.5, "c": False, "d": None, "e": 7},
    )
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["b"] for line in lines] == [1.0, 0.5]
    assert [line["e"] for line in lines] == ["x", "7"]
    assert "d" not in lines[0]


def test_half_a_character_is_replaced_and_the_rest_kept(tmp_path):
    path = written(tmp_path / "t.parquet", [row(1, question="a\ud800b\u202ec\x00d")])
    found = files.read_traces(path)
    assert found.table["question"].values.tolist() == ["a\ufffdb\u202ec\x00d"]


def test_a_number_beyond_64_bits_is_refused_and_nothing_is_left_behind(tmp_path):
    with pytest.raises(BrokenFile, match="64 bits"):
        written(tmp_path / "t.parquet", [row(1, hops=1 << 70)], {"hops": 1})
    assert list(tmp_path.iterdir()) == []


def test_another_ending_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(BrokenFile, match="expected an output named"):
        written(tmp_path / "t.xlsx", [])


def test_memory_holds_one_piece_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "PIECE", 10)
    sizes = []
    table = recorded._table
    monkeypatch.setattr(recorded, "_table", lambda rows, schema: sizes.append(len(rows)) or table(rows, schema))
    written(tmp_path / "t.parquet", (row(number) for number in range(95)))
    assert max(sizes) == 10
    assert sum(sizes) == 95


def test_what_is_missing_is_read_back_and_a_table_that_is_none_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    assert list(missing_in(path)) == []
    with recording(path, ("trace_id", "depth", "missing_reason"), Kinds()) as take:
        take({"trace_id": "a", "depth": 0, "missing_reason": None})
        take({"trace_id": "a", "depth": 1, "missing_reason": "timeout"})
    assert list(missing_in(path)) == [("a", 1, "timeout")]
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(BrokenFile, match="expected what was recorded at"):
        list(missing_in(path))
