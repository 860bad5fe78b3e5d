"""Rows of states → a trace table, written piece by piece: memory does not grow with the table."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from gatewise.errors import BrokenFile, shown
from gatewise.files.disk import draft
from gatewise.types import Scalar
from gatewise.wording import whole

Row = Mapping[str, Any]

PIECE = 1 << 13  # rows that are held in memory, and that a row group of Parquet has

_KINDS = {
    "depth": pa.int64(),
    "confidence": pa.float64(),
    "correct": pa.bool_(),
    "new_passages": pa.int64(),
    "token_probability": pa.float64(),
    "p_true": pa.float64(),
    "cost_usd": pa.float64(),
    "input_tokens": pa.int64(),
    "output_tokens": pa.int64(),
    "latency_s": pa.float64(),
}


class Kinds:
    """The columns that a source has beside ours, and of which kind each is: found before the first row is written."""

    def __init__(self) -> None:
        self._found: dict[str, set[type]] = {}

    def add(self, about: Mapping[str, Scalar]) -> None:
        """Take in what is known of one question."""
        for name, value in about.items():
            kinds = self._found.setdefault(name, set())
            if value is not None:
                kinds.add(type(value))

    def columns(self) -> dict[str, pa.DataType]:
        """Return the kind of each column; values of several kinds are written as text."""
        return {name: _kind(kinds) for name, kinds in sorted(self._found.items()) if kinds}


def _kind(kinds: set[type]) -> pa.DataType:
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds <= {int, float} else pa.string()


@contextmanager
def recording(path: str | os.PathLike[str], columns: Sequence[str], kinds: Kinds) -> Iterator[Callable[[Row], None]]:
    """Yield what takes the rows of a trace table one by one; the file stands in its place only when all are in.

    `columns` are ours, in their order; those of the source follow.
    """
    target = Path(path)
    if target.suffix.lower() not in _WRITERS:
        raise BrokenFile(f"expected an output named .parquet, .csv or .jsonl, found {target}. Rename it.")
    schema = pa.schema([(name, _KINDS.get(name, pa.string())) for name in columns] + [*kinds.columns().items()])
    held: list[Row] = []
    with draft(target) as stream, _WRITERS[target.suffix.lower()](stream, schema) as write:

        def take(row: Row) -> None:
            held.append(row)
            if len(held) == PIECE:
                write(_table(held, schema))
                held.clear()

        yield take
        write(_table(held, schema))


def missing_in(path: str | os.PathLike[str]) -> Iterator[tuple[str, int, str]]:
    """Yield trace, depth and reason of what is missing in a recorded table; nothing where there is no table."""
    if not Path(path).is_file():
        return
    try:
        with pa.parquet.ParquetFile(path) as table:
            for piece in table.iter_batches(columns=["trace_id", "depth", "missing_reason"]):
                for row in piece.filter(piece["missing_reason"].is_valid()).to_pylist():
                    yield row["trace_id"], row["depth"], row["missing_reason"]
    except (OSError, ValueError, KeyError) as error:  # what Arrow raises is a ValueError
        raise BrokenFile(
            f"expected what was recorded at {path}, found: {shown(str(error))}. Remove it and record again: what was "
            "paid for is in the ledger."
        ) from None


def _table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    return pa.table({field.name: _column([row.get(field.name) for row in rows], field.type) for field in schema})


def _column(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    if kind != pa.string():
        return pa.array([_within(value) if kind == pa.int64() else value for value in values], kind)
    return pa.array([None if value is None else _text(value) for value in values], kind)


def _within(value: int | None) -> int | None:
    if value is not None and not -(1 << 63) <= value < 1 << 63:
        raise BrokenFile(f"expected whole numbers of 64 bits in a trace table, found {value}. Give it as text.")
    return value


def _text(value: Any) -> str:
    """Return a value as text; half a character, which no file of text can hold, becomes the replacement character."""
    text = value if isinstance(value, str) else json.dumps(value)
    return whole(text)


@contextmanager
def _as_parquet(stream: IO[bytes], schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    with pa.parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        yield lambda table: writer.write_table(table) if len(table) else None


@contextmanager
def _as_csv(stream: IO[bytes], schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    with pa.csv.CSVWriter(stream, schema) as writer:
        yield lambda table: writer.write_table(table)


@contextmanager
def _as_json(stream: IO[bytes], schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    def write(table: pa.Table) -> None:
        for row in table.to_pylist():
            stream.write((json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode())

    yield write


_WRITERS = {".parquet": _as_parquet, ".csv": _as_csv, ".jsonl": _as_json}
