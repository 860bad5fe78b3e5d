import pytest

from gatewise.reports.tables import BOLD, Column, Table, best_across, best_down, printable, shown, text


def test_wide_and_hostile_text_keeps_columns_and_terminal():
    table = Table("T", (Column("name"), Column("n", "count")), (("漢字", 1), ("\x1b[2Jx\u202e", 2), ("é", 3)))
    lines = text(table).splitlines()
    assert "\x1b" not in text(table)
    assert "\\x1b[2Jx\\u202e" in text(table)
    assert lines[2].index("1") + 2 == lines[1].index("n") + 0 or lines[2].endswith(" 1")
    assert printable("a\tb") == "a\\tb"


def test_prices_show_enough_digits():
    table = Table("T", (Column("cost", "price"),), ((0,), (0.00012345,), (2.46072,), (0.0936,)))
    assert [line.strip() for line in text(table).splitlines()[2:]] == ["0.00", "0.000123", "2.46", "0.0936"]


def test_the_best_of_a_column_are_found_among_rows_of_one_key_by_their_hidden_digits():
    rows = [
        ("a", 0.5),
        ("a", 0.5000001),
        ("b", 0.1),
        ("b", None),
        ("c", 0.2),
        ("c", 0.2),
        ("d", 0.3),
        ("d", 0.3),
        ("d", 0.1),
    ]
    assert list(best_down(rows, 1, keys=1)) == [(1, 1), (6, 1), (7, 1)]
    assert list(best_down(rows, 1, least=True)) == [(2, 1), (8, 1)]
    assert list(best_across([(1, 2.0, None), (3, 3), (2, 1)], (0, 1), least=True)) == [(0, 0), (2, 1)]


BEST = Table("T", (Column("name"), Column("x", "plain", 1)), (("a", 1.0), ("b", 12.0)), best=frozenset({(1, 1)}))


def test_the_best_are_marked_where_somebody_reads_and_nothing_moves():
    assert text(BEST).splitlines() == ["T", "  name     x", "  a      1.0", "  b     12.0"]
    assert text(BEST, stars=True).splitlines() == ["T", "  name     x", "  a      1.0", "  b     12.0*", "  * best"]
    bold = text(BEST, stars=True, bold=True)
    assert bold.count(BOLD) == 1
    assert BOLD not in text(BEST, stars=True)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_table_keeps_to_the_width_of_the_terminal_and_loses_no_value(width):
    columns = (Column("name"), *(Column(f"column {at}", "count") for at in range(12)))
    rows = tuple(
        (name, *range(1000, 1012)) for name in ("one", "a name that goes on and on, longer than any line " * 3)
    )
    shown = text(Table("T", columns, rows, keys=1), width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert all(shown.count(f"{value:,}") == 2 for value in range(1000, 1012))
    assert all(f"column {at}" in shown for at in range(12))
    assert "…" in shown
    assert "…" not in text(Table("T", columns, rows, keys=1))


def test_every_part_of_a_wide_table_names_its_rows():
    columns = (Column("model"), Column("system"), *(Column(f"number {one}", "count") for one in "abcdef"))
    rows = tuple((model, system, *range(6)) for model in ("one", "two") for system in ("raw-gated", "calibrated"))
    told = text(Table("Wide", columns, rows, keys=1), width=50, stars=True)
    assert max(map(len, told.splitlines())) <= 50
    parts = told.split("\n\n")
    assert len(parts) > 1
    for part in parts:
        assert part.count("calibrated") == 2


@pytest.mark.parametrize(
    ("value", "said"), [(True, "True"), (3, "3"), (0.24, "0.24"), (0.21, "0.21"), (1234567, "1234567"), (None, "–")]
)
def test_a_group_is_named_by_its_whole_value(value, said):
    assert shown(value, Column("group")) == said
