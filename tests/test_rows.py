import csv
import gzip
import io
import json
import tracemalloc
from unittest import mock

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewise.errors import BrokenFile, Unfit
from gatewise.files import read_rows, rows

ODD = [
    "é",
    "\u2028",
    "\x7f",
    "\ufeff",
    "😀",
    "\\",
    '"',
    "]",
    ",",
    "\n",
    "\x00",
    "\ud800",
    "\U0010ffff",
    "NaN",
    "true",
]
TEXTS = st.text(max_size=8) | st.lists(st.sampled_from(ODD), max_size=5).map("".join)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([-0.0, 1e300, 1e-300, 0])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)
ROW = {"id": "q1", "question": 'Who wrote "Faust"?', "n": -1.5e3, "more": [[], {}, [None, True, {"a": ["😀", "\\"]}]]}


@pytest.fixture
def put(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return path

    return write


@pytest.fixture
def chunk(monkeypatch):
    """Return how to set the number of characters read at a time."""
    return lambda size: monkeypatch.setattr(rows, "CHUNK", size)


def walked(text, size):
    with mock.patch.object(rows, "CHUNK", size):
        return list(rows._json(io.StringIO(text, newline=""), "memory"))


def dumped(value, plain, indent=None):
    """JSON text; where it is not plain ASCII, a lone surrogate cannot stand in it."""
    return json.dumps(value, ensure_ascii=plain, indent=indent).encode("utf-8", "replace").decode()


def same(one, two):
    """Equal, and of the same kinds: 1, 1.0 and True are three values."""
    return repr(one) == repr(two)


@given(
    values=st.lists(VALUES, min_size=1, max_size=6),
    plain=st.booleans(),
    indent=st.sampled_from([None, None, 0, 2]),
    size=st.integers(1, 40),
    around=st.sampled_from(["", " ", "\n", "\r\n\t "]),
)
@settings(max_examples=300)
def test_an_array_walked_piece_by_piece_is_the_array_read_whole(values, plain, indent, size, around):
    text = around + dumped(values, plain, indent) + around
    assert same(walked(text, size), json.loads(text))


@pytest.mark.parametrize("element", ["12.5e+30", "-0", "1E5", "-7.25", "true", "null", '"\\ud83d\\ude00"', '"a\\\\"'])
def test_no_boundary_breaks_a_row_that_is_no_object(element):
    for text in (f"[{element}]", f"[{element},{element}]", f"[ {element} , {element} ]"):
        for size in range(1, len(text) + 2):
            assert same(walked(text, size), json.loads(text)), (text, size)


def test_every_boundary_inside_a_row_is_harmless():
    for text in (
        '[{"a": "\\u00e9\\ud83d\\ude00\\ud83d x\\\\\\"", "b": [-1.25e-3, 10, true, false, null, {}]}, {"c": "😀"}]',
        '[\n{"deep": [[[[[1]]]]], "\\"": ""}\n,\n{"a": "]},{"}\n]\n',
    ):
        for size in range(1, len(text) + 2):
            assert same(walked(text, size), json.loads(text)), size


@given(text=st.text(alphabet='[]{}",:0123tru.eE+-\\ N\n', max_size=24), size=st.integers(1, 30))
@settings(max_examples=400)
def test_an_array_that_is_no_strict_json_is_never_read_as_one(text, size):
    text = f"[{text}"
    try:
        whole = json.loads(text, parse_constant=rows.no_constant)
    except ValueError:
        with pytest.raises((BrokenFile, ValueError)):
            walked(text, size)
    else:
        assert same(walked(text, size), whole)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"a": 1}', "row 2: the file ends here"),
        ('[{"a": 1},', "row 2: the file ends here"),
        ('[{"a": 1}, {"b": "cut', "row 2: Unterminated string"),
        ('[{"a": 1}, {"b": tru', "row 2: Expecting value"),
        ('[{"a": 1},]', "row 2: a comma and no row after it"),
        ('[,{"a": 1}]', "row 1: "),
        ('[{"a": 1} {"b": 2}]', "row 2: no comma between two rows"),
        ('[{"a": 1,, "b": 2}, {"a": 1}]', "row 1: "),
        ('[{"a": 1}, {"b": "raw\nline"}]', "row 2: Invalid control character"),
        ('[{"a": 1}, {"b": NaN}]', "after row 1: NaN, which strict JSON does not know"),
        ('[{"a": 1}, {"b": -Infinity}]', "after row 1: -Infinity"),
        ('[{"a": 1}]\n[{"a": 2}]', "after row 1: more text after the end of the array"),
        ('[{"a": 1}]\x00', "after row 1: more text after the end of the array"),
        ("[" + '{"a":' * 100_000, "row 1: nested too deeply"),
        ("[]", "no row"),
        (" \n\n ", "no row"),
        ("[", "row 1: the file ends here"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_broken_array_is_refused_where_it_breaks(put, chunk, text, said, size):
    if len(text) > 1000 and size < 1000:
        size = 1000
    chunk(size)
    path = put("q.json", text)
    with pytest.raises(BrokenFile, match=r"(again|it)\.$") as caught:
        list(read_rows(path))
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_rows_before_the_break_have_been_read(put):
    walk = read_rows(put("q.json", '[{"a": 1}, {"a": 2}, {"a'))
    assert [next(walk), next(walk)] == [{"a": 1}, {"a": 2}]
    with pytest.raises(BrokenFile, match="row 3"):
        next(walk)


LINES = [ROW, {"id": "q2", "question": "line\u2028separator, \x85 and \u00e9"}, {"id": "q3"}]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "\r\n \r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", ["", "\ufeff", "\n\n", "\ufeff\r\n"])
@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_json_lines_end_in_any_way(put, chunk, end, last, mark, size):
    chunk(size)
    text = mark + end.join(json.dumps(row, ensure_ascii=False) for row in LINES) + (end if last else "")
    assert list(read_rows(put("q.jsonl", text))) == LINES
    assert list(read_rows(put("q.ndjson", text))) == LINES
    assert list(read_rows(put("q.json", text))) == LINES  # by what is in it, not by its name
    assert list(read_rows(put("q.JSONL.GZ", gzip.compress(text.encode())))) == LINES


@given(values=st.lists(VALUES, min_size=1, max_size=6), plain=st.booleans(), size=st.integers(1, 30))
@settings(max_examples=100)
def test_json_lines_read_piece_by_piece_are_the_lines_read_whole(values, plain, size):
    text = "".join(dumped({"a": value}, plain) + "\n" for value in values)
    assert same(walked(text, size), [json.loads(line) for line in text.split("\n")[:-1]])


def test_a_line_that_is_no_json_is_a_row_of_its_own(put):
    found = list(read_rows(put("q.jsonl", '{"a": 1}\n{"a": \n{"a": NaN}\n{} {}\n' + "[" * 100_000 + '\n{"a": 2}')))
    assert [type(row) for row in found] == [dict, Unfit, Unfit, Unfit, Unfit, dict]
    assert {row.kind for row in found if isinstance(row, Unfit)} == {"malformed"}
    assert "NaN, which strict JSON does not know" in str(found[2])


def test_a_name_that_stands_twice_in_an_object_is_refused(put):
    _, twice = read_rows(put("q.jsonl", '{"a": 1}\n{"a": {"b": 1, "b": 2}}'))
    assert "found 'b' twice" in str(twice)
    with pytest.raises(BrokenFile, match="found after row 1: 'b' twice"):
        list(read_rows(put("q.json", '[{"a": 1}, {"b": 1, "b": 2}]')))


def test_an_array_in_a_file_named_for_lines_is_read_all_the_same(put):
    assert list(read_rows(put("q.jsonl", json.dumps(LINES, indent=1)))) == LINES
    assert list(read_rows(put("q.json.gz", gzip.compress(b"\xef\xbb\xbf \n" + json.dumps(LINES).encode())))) == LINES


TABLE = [
    {
        "id": "q1",
        "question": 'Who said "no, never"?',
        "answers": "Ann|A.",
        "passages": json.dumps([{"text": 'a "b"'}]),
    },
    {"id": "q2", "question": "two\nlines, é", "answers": "B", "passages": "[]"},
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff", "\n\n"])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_csv_cells_hold_quotes_commas_and_lines(put, chunk, end, mark, size):
    chunk(size)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(TABLE[0]), lineterminator=end)
    writer.writeheader()
    writer.writerows(TABLE)
    for text in (out.getvalue(), out.getvalue().rstrip(), out.getvalue() + end):
        assert list(read_rows(put("q.csv", mark + text))) == TABLE
        assert list(read_rows(put("q.csv.gz", gzip.compress((mark + text).encode())))) == TABLE


def test_a_ragged_csv_row_is_a_row_of_its_own_and_an_empty_cell_is_null(put):
    found = list(read_rows(put("q.csv", "id,question\nq1,\nq2\nq3,a,b\nq4,who\n")))
    assert (found[0], found[3]) == ({"id": "q1", "question": None}, {"id": "q4", "question": "who"})
    assert [str(row).partition(": ")[2] for row in found[1:3]] == [
        "expected 2 fields, found 1. Quote fields that contain a comma.",
        "expected 2 fields, found 3. Quote fields that contain a comma.",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,question,id\nq1,who,q1\n", "the column 'id' twice"),
        ("id,question\n", "no row"),
        ('id,question\nq1,"who\n', "unexpected end of data near line 2"),
        ('id,question\nq1,"who"x\n', "near line 2"),
    ],
)
def test_a_broken_csv_file_is_refused(put, text, said):
    with pytest.raises(BrokenFile) as caught:
        list(read_rows(put("q.csv", text)))
    assert said in str(caught.value)


def test_parquet_rows_hold_nested_lists_and_nulls(tmp_path):
    table = [
        {"id": i, "question": "Who?", "answers": ["A"] * (i % 3), "passages": [{"title": None, "text": f"t{i}"}] * i}
        for i in range(3)
    ] * 300  # several batches
    pa.parquet.write_table(pa.Table.from_pylist(table), tmp_path / "q.parquet")
    ticks = []
    assert list(read_rows(tmp_path / "q.parquet", lambda done, total: ticks.append((done, total)))) == table
    size = (tmp_path / "q.parquet").stat().st_size
    assert ticks == sorted(ticks)
    assert ticks[-1] == (size, size)


def test_a_broken_parquet_file_is_refused(put, tmp_path):
    pa.parquet.write_table(pa.table({"id": ["a"] * 999}), tmp_path / "good.parquet")
    whole = (tmp_path / "good.parquet").read_bytes()
    for content in (whole[:-20], whole[:40], b"PAR1", b"id,question\n"):
        with pytest.raises(BrokenFile, match=r"cut\.parquet, found after row 0: .*again\.$"):
            list(read_rows(put("cut.parquet", content)))
    twice = pa.table([["a"], ["b"]], names=["id", "id"])
    pa.parquet.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(BrokenFile, match="the column 'id' twice"):
        list(read_rows(tmp_path / "twice.parquet"))
    pa.parquet.write_table(pa.table({"id": pa.array([], pa.string())}), tmp_path / "none.parquet")
    with pytest.raises(BrokenFile, match="no row"):
        list(read_rows(tmp_path / "none.parquet"))


@pytest.mark.parametrize("name", ["q.json", "q.jsonl", "q.csv"])
def test_a_damaged_gz_file_is_refused(put, name):
    text = {"q.json": json.dumps(LINES), "q.jsonl": "\n".join(map(json.dumps, LINES)), "q.csv": "id\nq1\nq2\n"}[name]
    whole = gzip.compress(text.encode())
    bent = bytearray(whole)
    bent[-6] ^= 1  # the checksum
    for content in (whole[:-9], whole[:12], bytes(bent), b"plain text"):
        with pytest.raises(BrokenFile, match=r"\.gz, found after row \d: .*again\.$"):
            list(read_rows(put(f"{name}.gz", content)))
    with pytest.raises(BrokenFile, match="no row"):
        list(read_rows(put(f"{name}.gz", gzip.compress(b""))))


@pytest.mark.parametrize("size", [3, 1 << 20])
def test_text_that_is_not_utf_8_is_refused_in_its_row(put, chunk, size):
    chunk(size)
    bad = b'{"id": "q2", "question": "caf\xe9"}'
    found = list(read_rows(put("q.jsonl", b'{"id": "q1"}\n' + bad + b'\n{"id": "\xc3\xa9"}\n')))
    assert [type(row) for row in found] == [dict, Unfit, dict]
    assert "UTF-8" in str(found[1])
    found = list(read_rows(put("q.csv", b"id,question\nq1,who\nq2,caf\xe9\nq3,caf\xc3\xa9\n")))
    assert [type(row) for row in found] == [dict, Unfit, dict]
    found = list(read_rows(put("utf16.json", '[{"id": "q1"}]'.encode("utf-16"))))
    assert [type(row) for row in found] == [Unfit]
    for name, content in (
        ("q.json", b'[{"id": "q1"}, ' + bad + b"]"),
        ("q.json", b'[{"id": "q1"}, {"id": \xff}]'),
        ("q.json", b'[{"id": "q1"}]\xff'),
        ("q.csv", b"id,caf\xe9\nq1,who\n"),
    ):
        with pytest.raises(
            BrokenFile, match=rf"{name}, found (after row 1|after row 0|other bytes in row 2|in row 2).*\.$"
        ):
            list(read_rows(put(name, content)))


def test_escaped_surrogates_are_no_broken_text(put):
    assert list(read_rows(put("q.jsonl", '{"id": "\\udcff"}'))) == [{"id": "\udcff"}]
    assert list(read_rows(put("q.json", '["\\udcff", "\\ud800"]'))) == ["\udcff", "\ud800"]


@pytest.mark.parametrize("name", ["q.jsonl", "q.json", "q.csv"])
def test_a_row_without_end_is_refused_before_it_fills_the_memory(put, chunk, monkeypatch, name):
    chunk(1 << 10)
    monkeypatch.setattr(rows, "LONGEST", 1 << 14)
    start = {"q.jsonl": '{"a": "', "q.json": '[{"a": "', "q.csv": 'id\n"'}[name]
    with pytest.raises(BrokenFile, match=r"(16,384 characters|larger than field limit \(16384\)).*again\.$"):
        list(read_rows(put(name, start + "x" * 100_000)))


@pytest.mark.parametrize("name", ["q.txt", "q", "q.gz", "q.json.zip", "q.tsv"])
def test_a_file_of_unknown_kind_is_refused(put, name):
    with pytest.raises(BrokenFile, match=r"expected a question file named \.json .*Rename or convert it"):
        list(read_rows(put(name, "[]")))


def test_what_is_no_file_is_refused(tmp_path, put):
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(BrokenFile, match="found a folder"):
        list(read_rows(tmp_path / "folder.json"))
    with pytest.raises(BrokenFile, match="found no such file"):
        list(read_rows(tmp_path / "none.json"))
    with pytest.raises(BrokenFile, match="found an empty file"):
        list(read_rows(put("empty.csv", "")))


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv"])
def test_progress_runs_from_the_start_to_the_size_of_the_file(put, chunk, kind):
    chunk(1000)
    table = [{"id": str(i), "question": "x" * 50} for i in range(640)]
    text = {
        "json": json.dumps(table),
        "jsonl": "\n".join(map(json.dumps, table)),
        "csv": "id,question\n" + "".join(f"{row['id']},{row['question']}\n" for row in table),
    }[kind]
    path = put(f"q.{kind}", text)
    ticks = []
    assert list(read_rows(path, lambda done, total: ticks.append((done, total)))) == table
    assert len(ticks) == 10
    assert ticks == sorted(ticks)
    assert {total for _, total in ticks} == {path.stat().st_size}
    assert 0 < ticks[0][0] < ticks[-1][0] <= path.stat().st_size


@pytest.mark.parametrize("name", ["q.json", "q.jsonl", "q.json.gz", "q.csv"])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    context = [[f"title {i}", ["sentence " * 60] * 2] for i in range(10)]
    start, between, end = {".json": ("[", ",\n", "]"), ".jsonl": ("", "\n", "\n"), ".csv": ("a,b\n", "\n", "\n")}[
        "." + name.split(".")[1]
    ]
    row = json.dumps({"a": 0, "context": context}) if "csv" not in name else f'{"x" * 9000},"{"y" * 2000}"'
    count = 30_000_000 // len(row)
    with gzip.open(tmp_path / name, "wt", 1) if name.endswith("gz") else (tmp_path / name).open("w") as out:
        out.write(start + row)
        for _ in range(count - 1):
            out.write(between + row)
        out.write(end)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_rows(tmp_path / name)) == count
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000
