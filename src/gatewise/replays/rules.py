"""The rules of the trace table: columns → clean arrays, or every violation at once."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gatewise.errors import SHOWN, BadChoice, BrokenTraces, Violation, nearest, shown
from gatewise.replays.arrays import UNKNOWN, Bools, Coded, Floats, Ints, Labels, Texts, objects

REQUIRED = ("trace_id", "depth", "confidence", "correct")
DESCRIPTIONS = ("model", "dataset", "split", "plan", "question")  # constant within a trace
SIGNALS = ("confidence", "token_probability", "p_true")
SPLITS = ("calibration", "validation", "test")
NO_SIGNAL = "Choose one of them with --signal, or add it."
NO_PRICE = "Choose one of them with --cost, or add it."
DEAREST = 1e200  # the largest price: sums of such prices are still doubles

Column = npt.NDArray[Any] | Coded  # an array that is no Coded is a masked array, masked where null


class Violations:
    """Collects what breaks a rule, row by row, and raises it all together."""

    def __init__(self, sources: Sequence[tuple[str, int]]) -> None:
        self.sources = sources
        self.first: list[Violation] = []
        self.total = 0

    def add(
        self, rows: npt.NDArray[Any], column: str, value: Callable[[int], object], problem: str, remedy: str
    ) -> None:
        """Note that these rows (from 0) break a rule; `value` shows what stands in a row."""
        self.total += len(rows)
        for row in np.sort(rows)[:SHOWN].tolist():
            self.first.append(Violation(row, column, shown(_unboxed(value(row))), problem, remedy))

    def raise_if_any(self) -> None:
        """Raise the first violations in the order of rows, each placed in its file."""
        if self.total:
            self.first.sort(key=lambda violation: violation.row)
            raise BrokenTraces([self._placed(violation) for violation in self.first[:SHOWN]], self.total)

    def _placed(self, violation: Violation) -> Violation:
        row, file = violation.row, ""
        for file, rows in self.sources:  # noqa: B007 -- the last file is the answer when none breaks off
            if row < rows:
                break
            row -= rows
        return Violation(row + 1, violation.column, violation.value, violation.problem, violation.remedy, file)


def _unboxed(value: Any) -> Any:
    """Return a value of numpy's as one of Python's; a shorter float by its shortest decimal."""
    if value is np.ma.masked:
        return None
    if isinstance(value, np.floating):
        return float(doubles(np.array([value]))[0])
    return value.item() if isinstance(value, np.generic) else value


def as_column(values: Any) -> Column:
    """Return any sequence as a column: texts coded, numbers masked where null, the rest as objects."""
    if isinstance(values, Coded):
        return values
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.masked_array(doubles(values.data), mask=is_null(values)) if values.dtype.kind == "f" else values
    array = values if isinstance(values, np.ndarray) else objects(list(values))
    if array.dtype.kind not in "OU":
        return np.ma.masked_array(doubles(array) if array.dtype.kind == "f" else array)
    rows = [_unboxed(value) for value in array.tolist()]
    null = np.array([value is None for value in rows], np.bool_)
    kinds = {type(value) for value in rows if value is not None}
    if kinds == {str}:
        return Coded.of(rows)
    for kind, dtype in (({bool}, np.bool_), ({int}, np.int64), ({int, float}, np.float64)):
        if kinds and kinds <= kind:
            try:
                filled = np.array([0 if value is None else value for value in rows], dtype)
            except OverflowError:
                break
            return np.ma.masked_array(filled, mask=null)
    return np.ma.masked_array(objects(rows), mask=null)


def doubles(values: npt.NDArray[Any]) -> Floats:
    """Return numbers as doubles; a shorter float is read by its shortest decimal, so float32 0.7 is 0.7."""
    if values.dtype.kind != "f" or values.dtype.itemsize >= 8:
        return values.astype(np.float64)
    distinct, codes = np.unique(values, return_inverse=True)
    return distinct.astype(str).astype(np.float64)[codes.ravel()]


def is_null(column: Column) -> Bools:
    """Return where a column holds nothing."""
    if isinstance(column, Coded):
        return column.codes < 0
    return np.ma.getmaskarray(column)


def plain(column: Column) -> Texts:
    """Return a column as Python values, None where null."""
    if isinstance(column, Coded):
        return column.texts()
    values = column.astype(object)
    values[is_null(column)] = None
    return np.asarray(values)


def alike(rows: Sequence[object]) -> list[object]:
    """Return values with numbers spelled out where texts stand beside them: 3 and "3" are one.

    >>> alike([3, None, 3.0, True, "3"])
    ['3', None, '3', 'true', '3']
    """
    if not any(isinstance(value, str) for value in rows):
        return list(rows)
    return [_spelled(value) if isinstance(value, int | float) else value for value in rows]


def _spelled(value: float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value).removesuffix(".0")


def categories(name: str, column: Column) -> Texts:
    """Return a column as texts and finite numbers, which can be told apart, sorted and written as JSON."""
    values = plain(column)
    if isinstance(column, Coded) or column.dtype.kind in "biu":
        return values
    rows: list[object] = []
    for value in values.tolist():
        if isinstance(value, list | dict):
            raise BadChoice(
                f"expected a column of single values to group by, found {shown(value)} in {name!r}. Choose another "
                "with --by."
            )
        kept = value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
        rows.append(value if kept else str(value))
    return objects(alike(rows))


def cell(column: Column) -> Callable[[int], object]:
    """Return a function from row to what stands there."""
    if isinstance(column, Coded):
        return lambda row: column.values[column.codes[row]] if column.codes[row] >= 0 else None
    return lambda row: column[row]


def numbers(name: str, column: Column, found: Violations, wanted: str, remedy: str) -> tuple[Floats, Bools]:
    """Return a column as doubles and where they can be used; whatever is no finite number is a violation."""
    usable = ~is_null(column)
    if isinstance(column, Coded) or column.dtype.kind not in "iuf":
        is_number = np.zeros(len(column), np.bool_)
        if not isinstance(column, Coded) and column.dtype.kind == "O":
            is_number = np.array([type(value) in (int, float) for value in column.data], np.bool_)
        bad = usable & ~is_number
        found.add(np.flatnonzero(bad), name, cell(column), f"expected {wanted}, found no number", remedy)
        usable &= is_number
        values = np.full(len(column), np.nan)
        if usable.any():
            values[usable] = [_double(value) for value in np.asarray(column)[usable]]
    else:
        values = np.ma.getdata(column).astype(np.float64)
    infinite = usable & ~np.isfinite(values)
    problem = f"expected {wanted}, found no finite number"
    found.add(np.flatnonzero(infinite), name, cell(column), problem, remedy)
    usable &= ~infinite
    return np.where(usable, values, np.nan), usable


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf


def whole_numbers(name: str, column: Column, found: Violations, remedy: str) -> tuple[Ints, Bools]:
    """Return a column of counts; whatever is no whole number from 0 is a violation."""
    values, usable = numbers(name, column, found, "a whole number from 0", remedy)
    with np.errstate(invalid="ignore"):
        bad = usable & ((values < 0) | (values != np.floor(values)) | (values > 2**31))
    found.add(np.flatnonzero(bad), name, cell(column), "expected a whole number from 0", remedy)
    usable &= ~bad
    return np.where(usable, values, 0).astype(np.int64), usable


def signal(name: str, column: Column, found: Violations) -> Floats:
    """Return a confidence signal: doubles in [0, 1], NaN where nothing readable was said."""
    remedy = "Leave the field empty (null) where no confidence could be read."
    values, usable = numbers(name, column, found, "a number in [0, 1] or null", remedy)
    with np.errstate(invalid="ignore"):
        outside = usable & ((values < 0) | (values > 1))
        percent = outside & (values > 1) & (values <= 100)
    mixed = percent.any() and (usable & (values > 0) & (values < 1)).any()
    remedy = "Divide percentages by 100" + (
        "; this column mixes the scales 0–1 and 0–100, so decide row by row which is meant." if mixed else "."
    )
    problem = "expected a number in [0, 1] or null"
    found.add(np.flatnonzero(percent), name, cell(column), problem, remedy)
    remedy = "Signals on other scales must be mapped into [0, 1] first."
    found.add(np.flatnonzero(outside & ~percent), name, cell(column), problem, remedy)
    return np.where(usable & ~outside, values, np.nan) + 0.0


def labels(column: Column, found: Violations) -> Labels:
    """Return the verdicts: 1 right, 0 wrong, -1 where there is none."""
    usable = ~is_null(column)
    if isinstance(column, Coded):
        good, right = np.zeros(len(column), np.bool_), np.zeros(len(column), np.bool_)
    elif column.dtype.kind == "O":
        rows = column.data.tolist()
        known = [type(value) in (bool, int, float) and value in (0, 1) for value in rows]
        good = np.array(known, np.bool_)
        right = np.array([ok and value == 1 for ok, value in zip(known, rows, strict=True)], np.bool_)
    elif column.dtype.kind in "biuf":
        data = np.asarray(column)
        right = data == 1
        good = right | (data == 0)
    else:
        good, right = np.zeros(len(column), np.bool_), np.zeros(len(column), np.bool_)
    remedy = "Write true or false (0 or 1), and leave the field empty (null) where there is no verdict."
    bad = np.flatnonzero(usable & ~good)
    found.add(bad, "correct", cell(column), "expected true, false or null", remedy)
    return np.where(usable & good, right, UNKNOWN).astype(np.int8)


def texts(name: str, column: Column, found: Violations) -> Coded:
    """Return a column of names; whole numbers are read as their digits."""
    if isinstance(column, Coded):
        return column
    null = is_null(column)
    if null.all():
        return Coded(np.full(len(column), -1), objects([]))
    if column.dtype.kind in "iu":
        values, codes = np.unique(np.ma.getdata(column), return_inverse=True)
        digits = [str(value) for value in values.tolist()]
        order = np.argsort(np.array(digits, dtype=object), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return Coded(np.where(null, -1, place[codes.ravel()]), objects(digits)[order])
    rows = plain(column)
    good = np.array([value is None or type(value) in (str, int) for value in rows], np.bool_)
    remedy = "Write names and ids as text; whole numbers are taken too."
    found.add(np.flatnonzero(~good), name, cell(column), "expected text", remedy)
    return Coded.of(str(value) if ok and value is not None else None for value, ok in zip(rows, good, strict=True))


def require(columns: Mapping[str, Column], *names: str, file: str = "", remedy: str = "") -> None:
    """Raise unless every named column is there; `file` says where they were looked for."""
    remedy = remedy or f"Required are {', '.join(REQUIRED)}; rename or add it."
    for name in names:
        if name not in columns:
            known = list(columns)
            raise BadChoice(
                f"expected a column named {name!r}{f' in {file}' if file else ''}, found "
                f"{', '.join(map(ascii, known)) or 'no column'}{nearest(name, known)}. {remedy}"
            )


@dataclass(frozen=True)
class Order:
    """Where every state stands once rows are sorted by model, trace and depth."""

    rows: Ints  # sorted position → row of the table
    trace: Ints  # sorted position → number of its trace
    starts: Ints  # number of a trace → its first sorted position
    depth: Ints  # sorted position → depth


def arrange(ids: Coded, models: Coded, depth: Ints, found: Violations) -> Order:
    """Return the canonical order of states, noting states that stand twice and depths that are missing."""
    key = (models.codes + 1) * (len(ids.values) + 1) + ids.codes
    rows = np.lexsort((depth, key))
    sorted_key, sorted_depth = key[rows], depth[rows]
    opens = np.ones(len(rows), np.bool_)
    opens[1:] = sorted_key[1:] != sorted_key[:-1]
    trace = np.cumsum(opens) - 1
    before = np.where(opens, -1, np.roll(sorted_depth, 1))
    cell_id = cell(ids)

    again = np.flatnonzero(sorted_depth == before)
    found.add(
        rows[again],
        "depth",
        lambda row: f"{depth[row]} of trace {shown(cell_id(row))}",
        "expected one row for each depth of a trace, found this depth before",
        "Remove the duplicate; a trace is known by (model, trace_id), so name the model where several are mixed.",
    )
    gap = np.flatnonzero(sorted_depth > before + 1)
    found.add(
        rows[gap],
        "depth",
        lambda row: f"{depth[row]} of trace {shown(cell_id(row))}",
        "expected depths 0, 1, 2, … without a gap, found none just before this one",
        "Add the missing state (with null confidence and verdict if it could not be had), or renumber the depths.",
    )
    return Order(rows, trace, np.flatnonzero(opens), sorted_depth)


def constant(name: str, column: Coded, order: Order, found: Violations) -> None:
    """Note every state whose description differs from that of its trace's first state."""
    codes = column.codes[order.rows]
    differs = codes != codes[order.starts][order.trace]
    remedy = f"Give every row of a trace the same {name}, or give the traces different ids."
    found.add(
        order.rows[differs],
        name,
        cell(column),
        "expected one value within a trace (and model), found another than at its first depth",
        remedy,
    )
