"""Trace tables ⇄ Parquet, CSV and JSON Lines, checked against every rule."""

import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from gatewise.errors import SHOWN, BadChoice, BrokenFile, BrokenTraces, Violation, shown
from gatewise.files.disk import replace_file
from gatewise.replays.arrays import Coded, objects
from gatewise.replays.rules import (
    DESCRIPTIONS,
    NO_SIGNAL,
    REQUIRED,
    SIGNALS,
    Column,
    alike,
    as_column,
    doubles,
    is_null,
    plain,
    require,
)
from gatewise.replays.traces import Traces

NUMBERS = (
    "depth",
    "new_passages",
    "cost",
    "cost_usd",
    "input_tokens",
    "output_tokens",
    "latency_s",
    *SIGNALS,
)
TEXTS = ("trace_id", *DESCRIPTIONS, "answer")
KINDS = ".parquet, .csv or .jsonl (the last two also as .gz)"


# Traces in


def read_traces(
    *paths: str | os.PathLike[str],
    signal: str = "confidence",
    cost: str = "cost",
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Traces:
    """Return the traces of one or several Parquet, CSV or JSON Lines files, checked against every rule.

    `signal` names the column that gates look at, `cost` the one that prices retrievals.
    """
    if not paths:
        raise BadChoice("expected at least one trace file, found none.")
    parts: list[dict[str, Column]] = []
    sources: list[tuple[str, int]] = []
    for done, path in enumerate(paths):
        progress(f"reading {path}", done, len(paths))
        columns = _columns(Path(path), (*NUMBERS, signal, cost))
        rows = len(next(iter(columns.values()))) if columns else 0
        if not rows:
            raise BrokenFile(f"expected one row a state in {path}, found no row. Record traces first.")
        require(columns, *REQUIRED, file=str(path))
        require(columns, signal, file=str(path), remedy=NO_SIGNAL)
        parts.append(columns)
        sources.append((str(path), rows))
    progress("arranging states", len(paths), len(paths))
    sizes = [rows for _, rows in sources]
    names = list(dict.fromkeys(name for part in parts for name in part))
    ruled = {*NUMBERS, *REQUIRED, *DESCRIPTIONS, signal, cost}  # their rules name every value of another kind
    joined = {name: _joined([part.get(name) for part in parts], sizes, name in ruled) for name in names}
    return Traces.from_columns(joined, signal=signal, cost=cost, sources=sources)


def _columns(path: Path, numbers: Sequence[str]) -> dict[str, Column]:
    """Return the columns of one file."""
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in ("parquet", "csv", "jsonl", "ndjson"):
        raise BrokenFile(f"expected a trace file named {KINDS}, found {path}. Rename or convert it.")
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise BrokenFile(f"expected a trace file at {path}, found {found}. Check the path.")
    if path.stat().st_size == 0:
        raise BrokenFile(f"expected a trace table in {path}, found an empty file. Record traces first.")
    try:
        if kind == "parquet":
            table = pa.parquet.ParquetFile(path).read()
        elif kind == "csv":
            table = _csv_table(path)
        else:
            return _json_columns(path)
        names = table.column_names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        kinds = {"parquet": "a whole Parquet file", "csv": "UTF-8 text with one comma-separated row a state"}
        raise BrokenFile(
            f"expected {kinds.get(kind, 'one JSON object a line')} in {path}, found that it cannot be read "
            f"({first_line(error)}). Write it again."
        ) from None
    again = sorted({name for name in names if names.count(name) > 1})
    if again:
        twice = ", ".join(map(ascii, again))
        raise BrokenFile(f"expected every column of {path} once, found {twice} again. Rename or drop one.")
    if not all(name.strip() for name in names):
        place = [bool(name.strip()) for name in names].index(False) + 1
        raise BrokenFile(
            f"expected a name for every column of {path}, found none for column {place}. Name it, or write the table "
            "without an index."
        )
    if kind == "csv":
        return {name: _csv_column(name, table[name], numbers) for name in names}
    return {name: _parquet_column(name, table[name], path) for name in names}


def first_line(error: Exception) -> str:
    """Return what an error says first, with nothing that a terminal would obey."""
    return ascii(str(error).partition("\n")[0])[1:-1][:200]


def _parquet_column(name: str, column: pa.ChunkedArray, path: Path) -> Column:
    """Return a column of any kind; what Python cannot hold, such as nanoseconds, is kept as text."""
    problem = ""
    for cast in (None, pa.string(), pa.int64()):
        try:
            return _column(column) if cast is None else _coded(column.cast(cast))
        except Exception as error:  # noqa: BLE001 -- every kind of column has errors of its own
            problem = problem or first_line(error)
    raise BrokenFile(
        f"expected values that can be read in column {name!r} of {path}, found {column.type} ({problem}). Convert or "
        "drop the column."
    )


def _column(column: pa.ChunkedArray) -> Column:
    """Return an Arrow column as numpy holds it here."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _coded(column)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.string()).cast(pa.float64())  # by its decimal: the nearest double
        kind = column.type
    mask = column.is_null().to_numpy()
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return np.ma.masked_array(column.fill_null(0 if kind != pa.bool_() else False).to_numpy(), mask=mask)
    if pa.types.is_floating(kind):
        return np.ma.masked_array(doubles(column.to_numpy()), mask=mask)
    return np.ma.masked_array(objects(column.to_pylist()), mask=mask)


def _coded(column: pa.ChunkedArray) -> Coded:
    encoded = pa.chunked_array(column.cast(pa.large_string())).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    place = np.append(np.argsort(order), -1)
    codes = encoded.indices.fill_null(len(order)).to_numpy()
    values = encoded.dictionary.take(pa.array(order))
    return Coded(place[codes], objects(values.to_pylist()))


def _csv_table(path: Path) -> pa.Table:
    """Return a CSV file with every column as text; an empty field is null."""
    try:
        return _read_csv(path, None)
    except pa.ArrowInvalid:
        _content(path).decode()  # what is no UTF-8 is said so: Arrow could not show its rows
    crooked: list[Violation] = []

    def keep(row: pa.csv.InvalidRow) -> str:
        wrong = f"expected {row.expected_columns} fields, found {row.actual_columns}"
        remedy = "Quote fields that contain a comma, and write one row a line."
        crooked.append(Violation((row.number or 0) - 1, "(all)", shown(row.text), wrong, remedy, str(path)))
        return "skip"

    table = _read_csv(path, keep)
    if crooked:
        raise BrokenTraces(crooked[:SHOWN], len(crooked))
    return table


def _read_csv(path: Path, crooked: Callable[[pa.csv.InvalidRow], str] | None) -> pa.Table:
    parse = pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=crooked and (lambda row: "skip"))
    with pa.csv.open_csv(path, parse_options=parse) as reader:
        names = reader.schema.names
    return pa.csv.read_csv(
        path,
        read_options=pa.csv.ReadOptions(use_threads=False),  # so that rows are numbered
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=crooked),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )


_WHOLE = r"^-?(0|[1-9][0-9]*)$"
_DECIMAL = r"^[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$"


def _csv_column(name: str, column: pa.ChunkedArray, numbers: Sequence[str]) -> Column:
    """Return a text column by what it is: a column of the table by its rules, any other by what it looks like."""
    if name == "correct":
        if pc.all(pc.match_substring_regex(column.drop_null(), r"^(?i:true|false|0|1)$")).as_py():
            return _column(column.cast(pa.bool_()))
        lowered = pc.utf8_lower(column)
        truth = pc.if_else(pc.equal(lowered, "true"), "1", pc.if_else(pc.equal(lowered, "false"), "0", column))
        return _csv_numbers(truth)
    if name in numbers:
        return _csv_numbers(column)
    texts = column.drop_null()
    if not len(texts) or name in TEXTS:
        return _coded(column)
    for pattern, kind in ((_WHOLE, pa.int64()), (_DECIMAL, pa.float64()), (r"^(true|false)$", pa.bool_())):
        if pc.all(pc.match_substring_regex(texts, pattern)).as_py():
            try:
                return _column(column.cast(kind))
            except pa.ArrowInvalid:  # more digits than the kind holds: then it stays text
                break
    return _coded(column)


def _csv_numbers(column: pa.ChunkedArray) -> Column:
    """Return texts as numbers; those that are none stay texts, for the rules to name them."""
    try:
        whole = pc.all(pc.match_substring_regex(column.drop_null(), _WHOLE)).as_py()
        return _column(column.cast(pa.int64() if whole else pa.float64()))
    except pa.ArrowInvalid:
        rows = [text if text is None else _number(text) for text in column.to_pylist()]
        return np.ma.masked_array(objects(rows), mask=[row is None for row in rows])


def _number(text: str) -> float | str:
    try:
        return text if "_" in text else float(text)
    except ValueError:
        return text


def _json_columns(path: Path) -> dict[str, Column]:
    """Return the columns of a JSON Lines file; what the fast reader refuses is read line by line, to say why."""
    content = _content(path)
    unsure = any(word in content for word in (b"NaN", b"Inf")) and _NO_NUMBER.search(content)
    try:
        table = _json_table(content)
        if not unsure and table.num_rows == sum(not line.isspace() for line in io.BytesIO(content)):
            return {name: _column(table[name]) for name in table.column_names}
    except (pa.ArrowException, UnicodeDecodeError):
        pass
    return _json_lines(content, path)


_NO_NUMBER = re.compile(rb"[:,\[]\s*[-+]?(NaN|Inf)")  # which Arrow reads, and strict JSON does not know


def _json_table(content: bytes) -> pa.Table:
    read = pa.json.ReadOptions(block_size=1 << 26)
    table = pa.json.read_json(pa.BufferReader(content), read_options=read)
    dates = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    if dates:  # a text that looks like a date is still a text
        parse = pa.json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in dates]))
        table = pa.json.read_json(pa.BufferReader(content), read_options=read, parse_options=parse)
    if any("timestamp" in str(field.type) for field in table.schema):
        raise pa.ArrowInvalid("expected texts, found what Arrow takes for dates in lists or objects")
    return table


def _content(path: Path) -> bytes:
    with pa.input_stream(path, compression="detect") as stream:
        content: bytes = stream.read()
    return content


def _json_lines(content: bytes, path: Path) -> dict[str, Column]:
    rows: list[dict[str, Any]] = []
    broken: list[Violation] = []
    remedy = "Write one strict JSON object a line, null for what is missing."
    for line in content.decode("utf-8-sig", "surrogateescape").split("\n"):
        if not line.strip():
            continue
        problem = ""
        try:
            line.encode()
            row = json.loads(line, parse_constant=no_constant, object_pairs_hook=once)
            if not isinstance(row, dict):
                problem = f"expected one JSON object a line, found {type(row).__name__}"
        except UnicodeEncodeError:
            problem = "expected UTF-8 text, found other bytes"
        except (ValueError, RecursionError) as error:
            problem = f"expected one JSON object a line, found {error}"
        if problem:
            number = len(rows) + len(broken) + 1
            broken.append(Violation(number, "(all)", shown(line), problem, remedy, str(path)))
        else:
            rows.append(row)
    if broken:
        raise BrokenTraces(broken[:SHOWN], len(broken))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: as_column([row.get(name) for row in rows]) for name in names}


def no_constant(name: str) -> float:
    """Refuse NaN and the infinities while JSON is read."""
    raise ValueError(f"{name}, which strict JSON does not know")


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs, refusing a name that stands twice while JSON is read."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} twice")
    return row


def _joined(parts: Sequence[Column | None], sizes: Sequence[int], ruled: bool) -> Column:
    """Return one column from the files' columns, null where a file has none.

    Where one file holds texts and another numbers, the numbers become texts, unless the column has rules.
    """
    held = [part for part in parts if part is not None and not is_null(part).all()]
    if len(parts) == 1 and held:
        return held[0]
    coded = [part for part in held if isinstance(part, Coded)]
    arrays = [part for part in held if not isinstance(part, Coded)]
    if not arrays:
        values = sorted({value for part in coded for value in part.values.tolist()})
        place = {value: code for code, value in enumerate(values)} | {None: -1}
        codes = [
            np.array([place[value] for value in [*part.values.tolist(), None]])[part.codes]
            if isinstance(part, Coded)
            else np.full(size, -1)
            for part, size in zip(parts, sizes, strict=True)
        ]
        return Coded(np.concatenate(codes), objects(values))
    if not coded and all(part.dtype.kind in "biuf" for part in arrays):
        data = [
            np.zeros(size, np.bool_) if part is None or isinstance(part, Coded) else np.ma.getdata(part)
            for part, size in zip(parts, sizes, strict=True)
        ]
        masks = [
            np.ones(size, np.bool_) if part is None else is_null(part)
            for part, size in zip(parts, sizes, strict=True)
        ]
        return np.ma.masked_array(np.concatenate(data), mask=np.concatenate(masks))
    rows: list[object] = []
    for part, size in zip(parts, sizes, strict=True):
        rows += [None] * size if part is None else plain(part).tolist()
    return as_column(rows if ruled else alike(rows))


# Traces out


def write_traces(traces: Traces, path: str | os.PathLike[str]) -> None:
    """Write every recorded column, states in the order of (model, trace, depth): same traces, same bytes."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in _WRITERS:
        raise BrokenFile(f"expected an output named .parquet, .csv or .jsonl, found {target}. Rename it.")
    replace_file(target, _written(traces.table, kind))


def _written(table: Mapping[str, Column], kind: str) -> bytes:
    try:
        return _WRITERS[kind](table)
    except _UNHELD as error:
        if len(table) > 1:
            for name, column in table.items():  # alone, the one that cannot be held is named
                _written({name: column}, kind)
        remedy = "Make its values alike, or drop it." if kind == ".parquet" else "Write .parquet, or drop it."
        raise BrokenFile(
            f"expected columns that a {kind} file can hold, found that {next(iter(table))!r} is none "
            f"({first_line(error)}). {remedy}"
        ) from None


_UNHELD = (pa.ArrowException, TypeError, ValueError, OverflowError, RecursionError)


def _as_parquet(table: Mapping[str, Column]) -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(_arrow_table(table), sink, compression="zstd")
    return sink.getvalue()


def _as_csv(table: Mapping[str, Column]) -> bytes:
    sink = io.BytesIO()
    pa.csv.write_csv(_arrow_table(table), sink)
    return sink.getvalue()


def _as_json(table: Mapping[str, Column]) -> bytes:
    rows = zip(*(plain(column).tolist() for column in table.values()), strict=True)
    dumped = (json.dumps(dict(zip(table, row, strict=True)), ensure_ascii=False, allow_nan=False) for row in rows)
    return "".join(f"{line}\n" for line in dumped).encode()


_WRITERS = {".parquet": _as_parquet, ".csv": _as_csv, ".jsonl": _as_json}


def _arrow_table(table: Mapping[str, Column]) -> pa.Table:
    return pa.table({name: _arrow(column) for name, column in table.items()})


def _arrow(column: Column) -> pa.Array:
    if is_null(column).all():
        return pa.nulls(len(column), pa.float64())  # of one kind, whatever it was read from
    if isinstance(column, Coded):
        codes = pa.array(column.codes, mask=column.codes < 0)
        return pa.DictionaryArray.from_arrays(codes, pa.array(column.values, pa.string())).cast(pa.string())
    return pa.array(np.ma.getdata(column), mask=is_null(column))
