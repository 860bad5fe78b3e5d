"""Question files → rows, one at a time: a JSON array, JSON Lines, CSV or Parquet, also as .gz.

Memory does not grow with the file: a JSON array is walked element by element, never held whole.
"""

import csv
import gzip
import io
import itertools
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from gatewise.errors import BrokenFile, Unfit
from gatewise.files.traces import first_line, no_constant, once

CHUNK = 1 << 20  # characters read at a time
LONGEST = 1 << 28  # characters of one row; beyond it a file is no table of rows
KINDS = ".json (an array), .jsonl, .csv (all three also as .gz) or .parquet"

Progress = Callable[[int, int], None]  # bytes done, of how many


def read_rows(path: str | os.PathLike[str], progress: Progress = lambda done, total: None) -> Iterator[Any]:
    """Yield the rows of a question file, in order; a row that cannot be read is yielded as the `Unfit` that says why.

    Where the file breaks off, or is of no known kind, `BrokenFile` is raised at that place.
    """
    path = Path(path)
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in ("json", "jsonl", "ndjson", "csv", "parquet"):
        raise BrokenFile(f"expected a question file named {KINDS}, found {path}. Rename or convert it.")
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise BrokenFile(f"expected a question file at {path}, found {found}. Check the path.")
    size = path.stat().st_size
    if not size:
        raise BrokenFile(f"expected questions in {path}, found an empty file. Write it again.")
    done = 0
    try:
        for row in _parquet(path, size, progress) if kind == "parquet" else _text(path, kind, size, progress):
            done += 1
            yield row
    except UnicodeDecodeError as error:
        raise BrokenFile(
            f"expected UTF-8 text in {path}, found after row {done}: {error.reason}. Convert it."
        ) from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise BrokenFile(
            f"expected {KINDS} in {path}, found after row {done}: {first_line(error)}. Fetch or write it again."
        ) from None
    if not done:
        raise BrokenFile(f"expected questions in {path}, found no row. Write it again.")


def _text(path: Path, kind: str, size: int, progress: Progress) -> Iterator[Any]:
    with path.open("rb") as raw:
        unzipped = gzip.GzipFile(fileobj=raw) if path.name.lower().endswith(".gz") else raw
        # What is no UTF-8 comes through as lone surrogates, so that the row that holds it can be named.
        stream = io.TextIOWrapper(unzipped, "utf-8-sig", errors="surrogateescape", newline="")
        for place, row in enumerate(_csv(stream) if kind == "csv" else _json(stream, path)):
            if place % 64 == 0:
                progress(raw.tell(), size)
            yield row


def _undecoded(text: str) -> bool:
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _json(stream: IO[str], path: Path) -> Iterator[Any]:
    start = stream.read(CHUNK)
    while start.isspace():
        start = stream.read(CHUNK)
    if start.lstrip().startswith("["):
        return _array(stream, start, path)
    return _lines(stream, start)


def _lines(stream: IO[str], start: str) -> Iterator[Any]:
    rest = start
    while rest:
        whole, _, rest = rest.rpartition("\n")
        # A line may end anywhere later: what follows the last line end stays until more has been read.
        yield from (_line(line) for line in whole.split("\n") if line.strip())
        more = stream.read(CHUNK)
        if not more:
            if rest.strip():
                yield _line(rest)
            return
        rest += more
        if len(rest) > LONGEST and "\n" not in rest:
            raise ValueError(f"a line of more than {LONGEST:,} characters")


def _line(line: str) -> Any:
    try:
        if _undecoded(line):
            raise ValueError("bytes that are not UTF-8")
        return _decoder.decode(line)
    except (ValueError, RecursionError) as error:
        remedy = "Write one strict JSON object a line, in UTF-8."
        return Unfit("malformed", "(all)", line, f"expected one JSON object a line, found {error}", remedy)


_decoder = json.JSONDecoder(parse_constant=no_constant, object_pairs_hook=once)
_space = re.compile(r"[ \t\n\r]*")


def _array(stream: IO[str], start: str, path: Path) -> Iterator[Any]:
    """Yield the elements of a JSON array, decoding each as soon as all of it has been read."""
    text, place, ended = start, start.index("[") + 1, False

    def more() -> None:
        nonlocal text, place, ended
        held = len(text) - place
        if held > LONGEST:
            raise ValueError(f"a row of more than {LONGEST:,} characters")
        read = stream.read(max(CHUNK, held))  # as much again as is held, or a long row would be decoded too often
        text, place, ended = text[place:] + read, 0, not read

    def next_character() -> str:
        nonlocal place
        while True:
            found = _space.match(text, place)
            place = found.end() if found else place
            if place < len(text) or ended:
                return text[place : place + 1]
            more()

    for row in itertools.count(1):
        character = next_character()
        if row > 1 and character == ",":
            place += 1
            character = next_character()
            wrong = character == "]"
        else:
            wrong = row > 1 and character != "]"
        if character == "]" and not wrong:
            place += 1
            if next_character():
                raise ValueError("more text after the end of the array")
            return
        while True:
            problem = {"": "the file ends here", "]": "a comma and no row after it"}.get(
                character, "no comma between two rows"
            )
            try:
                if wrong or not character:
                    raise json.JSONDecodeError(problem, text, place)
                value, end = _decoder.raw_decode(text, place)
                if end + 2 < len(text) or ended:  # a number might go on, after 1e+ too
                    break
            except (json.JSONDecodeError, RecursionError) as error:
                # Whatever is wrong well before the end of what was read is wrong for good.
                cut = isinstance(error, json.JSONDecodeError) and (
                    error.msg.startswith("Unterminated string") or error.pos > len(text) - 16
                )
                if ended or wrong or not cut:
                    said = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
                    raise BrokenFile(
                        f"expected a JSON array of rows in {path}, found in row {row}: {said}. "
                        "Fetch or write it again."
                    ) from None
            more()
        if _undecoded(text[place:end]):
            raise BrokenFile(f"expected UTF-8 text in {path}, found other bytes in row {row}. Convert it.")
        place = end
        yield value


def _csv(stream: IO[str]) -> Iterator[Any]:
    csv.field_size_limit(LONGEST)
    reader = csv.reader(stream, strict=True)
    try:
        names = next(filter(None, reader), [])
        again = sorted({name for name in names if names.count(name) > 1})
        if again:
            raise ValueError(f"the column {again[0]!r} twice")
        if _undecoded(",".join(names)):
            raise ValueError("column names that are not UTF-8")
        for fields in reader:
            if _undecoded(whole := ",".join(fields)):
                yield Unfit(
                    "malformed", "(all)", whole, "expected UTF-8 text, found other bytes", "Convert the file."
                )
            elif len(fields) == len(names):
                yield {name: field or None for name, field in zip(names, fields, strict=True)}
            elif fields:
                problem = f"expected {len(names)} fields, found {len(fields)}"
                yield Unfit("malformed", "(all)", whole, problem, "Quote fields that contain a comma.")
    except csv.Error as error:
        raise ValueError(f"{error} near line {reader.line_num}") from None


def _parquet(path: Path, size: int, progress: Progress) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        file = pa.parquet.ParquetFile(path)
        names = file.schema_arrow.names
        again = sorted({name for name in names if names.count(name) > 1})
        if again:
            raise ValueError(f"the column {again[0]!r} twice")
        total, done = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=256):
            yield from batch.to_pylist()
            done += len(batch)
            progress(size * done // total, size)
    except pa.ArrowException as error:
        raise ValueError(first_line(error)) from None
