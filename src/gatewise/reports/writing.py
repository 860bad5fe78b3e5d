r"""Writing: one table value → Markdown, LaTeX, CSV or JSON, with the same numbers.

Text from models and data is text in every form: Markdown and LaTeX characters are escaped, and a field that a
spreadsheet would take for a formula (it starts with =, +, -, @, a tab or a return) gets an apostrophe before it.
CSV and JSON carry every digit and shares as ratios; Markdown and LaTeX are rounded from the same values.

>>> from gatewise.reports.tables import Column, Table
>>> table = Table("Two", (Column("name"), Column("share %", "percent", name="share")), (("a|b", 1 / 3),))
>>> print(markdown(table), end="")
**Two**
<BLANKLINE>
| name | share % |
| --- | ---: |
| a\|b | 33.3 |
>>> print(comma_separated(table), end="")
name,share
a|b,0.3333333333333333
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from gatewise.reports.tables import Cell, Column, Table, first_change, printable, shown

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~&$:]|@(?!\d+(?:\s|$))|(?<=www)\.)")  # wherever it stands: no cell opens a line
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\char34}",  # packages make the character itself a command
    "'": "{'}",  # two in a row would be a closing quotation mark
    "`": r"\textasciigrave{}",
    "\0": "{}",  # parts what would run together
    "[": r"{[}",  # after \\ it would open an argument
    "]": r"{]}",
    "–": "--",
    "−": r"$-$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "·": r"$\cdot$",
    "…": r"\ldots{}",
    "τ": r"$\tau$",
    "φ": r"$\varphi$",
    "×": r"$\times$",
    "→": r"$\to$",
}


def markdown(table: Table) -> str:
    """Return a table in Markdown: numbers to the right, the best in bold."""
    rows = [[as_markdown(_words(column.heading)) for column in table.columns]]
    rows.append(["---" if column.kind == "text" else "---:" for column in table.columns])
    for at, row in enumerate(table.rows):
        cells = [_markdown_cell(value, column) for value, column in zip(row, table.columns, strict=True)]
        rows.append([f"**{cell}**" if (at, place) in table.best else cell for place, cell in enumerate(cells)])
    lines = [f"**{as_markdown(table.title)}**", "", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join([*lines, *(["", as_markdown(table.note)] if table.note else []), ""])


def _markdown_cell(value: Cell, column: Column) -> str:
    return as_markdown(_words(value)) if isinstance(value, str) else shown(value, column)


def as_markdown(value: str) -> str:
    """Return text that Markdown shows as it is."""
    return _MARKUP.sub(r"\\\1", printable(value))


def _words(value: str) -> str:
    return value if value.strip() else " "


def latex(table: Table, *, label: str = "") -> str:
    """Return a table for LaTeX with booktabs: names of a group stand once, the best are bold.

    Letters beyond Latin need a Unicode engine (XeLaTeX, LuaLaTeX) and a font that has them; all that the
    tables themselves write compiles everywhere.
    """
    places = "".join("l" if column.kind == "text" else "r" for column in table.columns)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_typeset(table.title)}}}",
        *([rf"  \label{{tab:{label}}}"] if label else []),
        rf"  \begin{{tabular}}{{{places}}}",
        r"    \toprule",
        _latex_line([_typeset(column.heading) for column in table.columns]),
        r"    \midrule",
    ]
    for at, row in enumerate(table.rows):
        changed = first_change(table, at)
        if at and changed < table.keys:
            lines.append(r"    \addlinespace" if changed else r"    \midrule")
        cells = [
            "" if place < changed else _latex_cell(value, column, best=(at, place) in table.best)
            for place, (value, column) in enumerate(zip(row, table.columns, strict=True))
        ]
        lines.append(_latex_line(cells))
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    lines += [rf"  \par\smallskip {{\footnotesize {_typeset(table.note)}}}"] if table.note else []
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_line(cells: list[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"


def _latex_cell(value: Cell, column: Column, *, best: bool) -> str:
    if isinstance(value, str):
        cell = _typeset(value)
    else:
        cell = re.sub(r"^-(?=[\d.])", "$-$", shown(value, column).replace("–", "--"))
    return rf"\textbf{{{cell}}}" if best else cell


def _typeset(value: str) -> str:
    apart = re.sub("-(?=-)", "-\0", printable(value))  # two hyphens in a row would be a dash
    return "".join(_LATEX.get(c, c) for c in apart)


def comma_separated(table: Table) -> str:
    """Return a table as CSV: shares as ratios with every digit, nothing where there is no value."""
    return csv_of(names_of(table), table.rows)


def csv_of(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV, text guarded against spreadsheets."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_field(name) for name in names])
    writer.writerows([_field(value) for value in row] for row in rows)
    return text.getvalue()


def _field(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(FORMULAS) else value


def names_of(table: Table) -> list[str]:
    """Return what programs call the columns, each name once."""
    names: list[str] = []
    for column in table.columns:
        name = column.name or re.sub(r"\W+", "_", column.heading.lower()).strip("_") or "name"
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def as_json(table: Table) -> dict[str, Any]:
    """Return a table as plain values: the numbers of the CSV, text as it is, and which cells are best."""
    return {
        "title": table.title,
        "columns": names_of(table),
        "headings": [column.heading for column in table.columns],
        "rows": [list(row) for row in table.rows],
        "best": [list(place) for place in sorted(table.best)],
        "note": table.note,
    }
