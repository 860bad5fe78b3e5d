"""One table value, four forms: the same numbers, and no text that any of them would obey."""

import csv
import html
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.reports.tables import Column, Table, shown
from gatewise.reports.writing import as_json, comma_separated, latex, markdown, names_of

NUMBERS = (
    Column("name"),
    Column("share %", "percent", name="share"),
    Column("n", "count"),
    Column("cost", "price"),
    Column("x", "plain", 4),
)
TABLE = Table(
    "Numbers",
    NUMBERS,
    (("a", 1 / 3, 12345, 0.0123456789, -0.25), ("a", 2 / 3, 7, 2.5, None)),
    note="A note.",
    best=frozenset({(1, 1)}),
    keys=1,
)
hostile = st.text(min_size=1) | st.sampled_from(
    ["=1+1", "+1", "-1", "@A1", "\t=1", "a|b", "**b**", "<img src=x onerror=1>", "[x](javascript:1)", r"\input{x}",
     "a&b", "a\nb", "a\r\nb", "$x$", "\u202eabc", "```", "&lt;", "\x1b[2J", "%comment", "{", "\ud800"]
)  # fmt: skip


def markdown_rows(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [re.split(r" \| |^\| | \|$", line)[1:-1] for line in lines]


def latex_rows(text):
    rows = [line[4:].removesuffix(r" \\") for line in text.splitlines() if line.endswith(r" \\")]
    return [re.split(r"(?<!\\) & ", row) for row in rows]


def test_every_form_shows_the_numbers_of_the_one_value():
    plain = [[shown(value, column) for value, column in zip(row, NUMBERS, strict=True)] for row in TABLE.rows]
    found = markdown_rows(markdown(TABLE))
    assert [[cell.strip("*") for cell in row] for row in found[2:]] == plain
    typeset = latex_rows(latex(TABLE))[1:]
    for row, expected in zip(typeset, plain, strict=True):
        bare = [re.sub(r"\\textbf\{(.*)\}", r"\1", cell).replace("$-$", "-").replace("--", "–") for cell in row]
        assert bare[1:] == expected[1:]
    records = list(csv.DictReader(io.StringIO(comma_separated(TABLE))))
    values = as_json(TABLE)["rows"]
    for record, row, value in zip(records, TABLE.rows, values, strict=True):
        assert value == list(row)
        assert [float(record[name]) if record[name] else None for name in names_of(TABLE)[1:]] == list(row[1:])


def test_the_best_stand_in_bold_and_groups_name_themselves_once():
    assert "**66.7**" in markdown(TABLE)
    assert r"\textbf{66.7}" in latex(TABLE, label="numbers")
    assert r"\label{tab:numbers}" in latex(TABLE, label="numbers")
    assert [row[0] for row in latex_rows(latex(TABLE))[1:]] == ["a", ""]
    assert as_json(TABLE)["best"] == [[1, 1]]


def test_groups_are_set_apart():
    table = Table(
        "T", (Column("m"), Column("d"), Column("n", "count")), (("a", "x", 1), ("a", "y", 2), ("b", "y", 3)), keys=2
    )
    lines = [line.strip() for line in latex(table).splitlines()]
    start = lines.index(r"\midrule") + 1
    assert lines[start : start + 5] == [
        r"a & x & 1 \\",
        r"\addlinespace",
        r"& y & 2 \\",
        r"\midrule",
        r"b & y & 3 \\",
    ]


@given(hostile, hostile)
def test_text_is_text_in_every_form(name, title):
    table = Table(title, (Column("name"), Column("n", "count")), ((name, 1), ("b", 2)))
    found = markdown_rows(markdown(table))
    assert len(found) == 4
    assert all(len(row) == 2 for row in found)
    body = markdown(table)
    unescaped = re.sub(r"\\.", "", body)
    assert not re.search(r"[<>`\[\]_~$&]", unescaped)
    assert unescaped.count("*") == 4
    typeset = latex(table)
    rows = latex_rows(typeset)
    assert all(len(row) == 2 for row in rows)
    assert len(rows) == 3
    own = (
        "needs|usepackage|begin|centering|caption|label|toprule|midrule|bottomrule|end|textbackslash|textasciicircum"
    )
    own += "|textasciitilde|textless|textgreater|textbar|char|textasciigrave|ldots|tau|varphi"
    own += "|geq|leq|cdot|times|to"
    for command in re.findall(r"\\([A-Za-z]+)", typeset):
        assert re.fullmatch(own, command)
    rows = list(csv.reader(io.StringIO(comma_separated(table), newline="")))
    assert rows[1][0] in (name, f"'{name}")
    assert not rows[1][0].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert json.loads(json.dumps(as_json(table), allow_nan=False))["rows"][0] == [name, 1]


def rendered(text):
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").render(text)


def test_markdown_renders_hostile_names_as_they_are():
    pytest.importorskip("markdown_it")
    names = ["a|b", "**b**", "_i_", "<img src=x>", "[x](y)", "![x](y)", "`c`", "&amp;", "a\\", "#1", "~~s~~", "1. x"]
    table = Table("T", (Column("name"), Column("n", "count")), tuple((name, 1) for name in names))
    cells = re.findall(r"<td>(.*?)</td>", rendered(markdown(table)))
    assert [html.unescape(cell) for cell in cells] == names


def test_plain_names_are_written_plainly():
    table = Table("RAG@1", (Column("model"),), (("gpt-oss-120b",), ("a--b – c",)))
    assert "| gpt-oss-120b |" in markdown(table)
    assert "**RAG@1**" in markdown(table)
    assert "    gpt-oss-120b \\\\" in latex(table)
    assert "a-{}-b -- c" in latex(table)


def test_columns_have_one_name_each():
    columns = (Column("OA %", "percent"), Column("OA %", "percent"), Column("τ", name="threshold"), Column(""))
    assert names_of(Table("T", columns, ())) == ["oa", "oa_1", "threshold", "name"]
