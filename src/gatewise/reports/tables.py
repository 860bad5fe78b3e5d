"""Tables: titled rows of values, and how a value reads; every form of a table is made from one such value."""

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Cell = str | int | float | None
Place = tuple[int, int]  # row, column

NAMES = {
    "parametric": "parametric only",
    "rag@1": "fixed RAG@1",
    "rag@2": "fixed RAG@2",
    "rag@3": "fixed RAG@3",
    "adaptive": "adaptive proxy",
    "raw": "raw-gated",
    "calibrated": "calibrated-gated",
}

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True)
class Column:
    """A heading, and how its values are read: text, count, percent, price, exact, or plain with some decimals.

    A column of kind number may also hold texts that read as numbers. `name` is what programs call the column
    (in CSV and JSON, where percentages stand as ratios); by default it is made from the heading.
    """

    heading: str
    kind: str = "text"
    decimals: int = 1
    name: str = ""


@dataclass(frozen=True)
class Table:
    """Values in rows under headings; formatting comes last, so every form shows the same numbers.

    `best` names the cells to be marked. Rows that agree in the first `keys` columns belong together.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    best: frozenset[Place] = frozenset()
    keys: int = 0


def best_down(rows: Sequence[Sequence[Cell]], column: int, *, keys: int = 0, least: bool = False) -> Iterator[Place]:
    """Yield the cells that hold the largest (or least) number of a column, among rows that agree in their keys.

    Numbers are compared as they are, not as they are shown. Ties are all best; where all are alike, none is.

    >>> list(best_down([("a", 1.0), ("b", 2.0), ("c", None)], 1))
    [(1, 1)]
    """
    groups: dict[tuple[Cell, ...], list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(tuple(row[:keys]), []).append(place)
    for places in groups.values():
        yield from _best([((place, column), rows[place][column]) for place in places], least)


def best_across(rows: Sequence[Sequence[Cell]], columns: Sequence[int], *, least: bool = False) -> Iterator[Place]:
    """Yield the cells that hold the largest (or least) number of each row, among some of its columns."""
    for place, row in enumerate(rows):
        yield from _best([((place, column), row[column]) for column in columns], least)


def _best(cells: Iterable[tuple[Place, Cell]], least: bool) -> Iterator[Place]:
    numbers = [(where, value) for where, value in cells if isinstance(value, int | float)]
    values = [value for _, value in numbers]
    if values and min(values) < max(values):
        found = min(values) if least else max(values)
        yield from (where for where, value in numbers if value == found)


def text(table: Table, *, width: int | None = None, stars: bool = False, bold: bool = False) -> str:
    """Return a table as aligned text: words to the left, numbers to the right, – where there is none.

    With `stars`, for eyes alone, the best values carry one and the names of a group stand once; with `bold` the best
    stand in bold. A table wider than `width` is given in parts, one under the other, each with what names its rows.

    >>> print(text(Table("Two", (Column("name"), Column("share", "percent")), (("a", 0.5), ("b", None)))))
    Two
      name  share
      a      50.0
      b         –
    """
    best = table.best if stars else frozenset()
    starred = {column for _, column in best}
    cells = []
    for at, row in enumerate(table.rows):
        said = first_change(table, at) if stars else 0
        cells.append(
            [
                ("" if place < said else _shortened(shown(value, column), width))
                + ("*" if (at, place) in best else " " * (place in starred))
                for place, (value, column) in enumerate(zip(row, table.columns, strict=True))
            ]
        )
    headings = [
        _shortened(printable(column.heading), width) + " " * (at in starred)
        for at, column in enumerate(table.columns)
    ]
    widths = [max(map(_width, (heading, *(row[at] for row in cells)))) for at, heading in enumerate(headings)]

    def line(values: Sequence[str], part: Sequence[int], row: int | None = None) -> str:
        padded = []
        for at in part:
            space = " " * (widths[at] - _width(values[at]))
            value = f"{BOLD}{values[at]}{PLAIN}" if bold and (row, at) in table.best else values[at]
            padded.append(value + space if table.columns[at].kind == "text" else space + value)
        return ("  " + "  ".join(padded)).rstrip()

    lines = folded(printable(table.title), width)
    for number, part in enumerate(_parts(widths, _naming(table, widths, width), width)):
        lines += [""] * (number > 0)
        lines += [line(headings, part), *(line(row, part, at) for at, row in enumerate(cells))]
    if best:
        lines.append("  * best")
    return "\n".join([*lines, *(folded(f"  {printable(table.note)}", width) if table.note else [])])


def folded(line: str, width: int | None) -> list[str]:
    """Return a line as lines that keep to a width, broken between words.

    >>> folded("one two three", 8)
    ['one two', '  three']
    """
    if width is None or len(line) <= width:
        return [line]
    start = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, width, subsequent_indent=f"{start}  ", break_long_words=False, break_on_hyphens=False)


def first_change(table: Table, row: int) -> int:
    """Return the first key column in which a row differs from the one before it: how many there are, if in none."""
    if row == 0:
        return 0
    before, here = table.rows[row - 1], table.rows[row]
    return next((place for place in range(table.keys) if before[place] != here[place]), table.keys)


def _naming(table: Table, widths: Sequence[int], width: int | None) -> int:
    """Return how many columns it takes to name a row: the keys, and the text after them where there is room."""
    keys = table.keys
    if 0 < keys < len(widths) and table.columns[keys].kind == "text":
        beside = max(widths[keys + 1 :], default=0) + 2
        if width is None or sum(one + 2 for one in widths[: keys + 1]) + beside <= width:
            return keys + 1
    return max(keys, 1)


def _parts(widths: Sequence[int], keys: int, width: int | None) -> Iterator[list[int]]:
    """Yield the columns of each part of a table, so that no part is wider than what is there, if that can be."""
    key = list(range(min(keys, len(widths))))
    part = list(key)
    for at in range(len(key), len(widths)):
        if width and len(part) > len(key) and sum(widths[c] + 2 for c in [*part, at]) > width:
            yield part
            part = list(key)
        part.append(at)
    yield part


def _shortened(value: str, width: int | None) -> str:
    """Return a name that leaves room for numbers beside it."""
    most = max(20, width // 3) if width else len(value)
    if _width(value) <= most:
        return value
    while _width(value) >= most:
        value = value[:-1]
    return value + "…"


def shown(value: Cell, column: Column) -> str:
    """Return a value as its column reads it, the same in every form; text loses what a terminal would obey."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return printable(value)
    if column.kind == "text":  # the number that names a group: whole, for two groups may not read alike
        return str(value)
    if column.kind == "percent":
        return f"{100 * value:.{column.decimals}f}"
    if column.kind == "count":
        return f"{value:,}"
    if column.kind == "price":
        return f"{value:.2f}" if value == 0 or abs(value) >= 0.1 else f"{value:.3g}"
    if column.kind == "exact":
        return repr(value)
    return f"{value:.{column.decimals}f}"


def printable(value: str) -> str:
    """Return text that no terminal obeys: control and direction marks are spelled out."""
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in value)


def _width(value: str) -> int:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in value)
    return len(value) + wide - sum(unicodedata.combining(c) > 0 for c in value)
