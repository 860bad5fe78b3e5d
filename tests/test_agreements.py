import json
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.cli import main
from gatewise.errors import BadChoice, Unmatched
from gatewise.files import write_traces
from gatewise.replays.agreements import Agreement, agree, agreement
from gatewise.replays.traces import Traces
from gatewise.reports.results import agreement_tables
from gatewise.reports.tables import text

TABLE = {
    "trace_id": ["a", "a", "b", "b"],
    "depth": [0, 1, 0, 1],
    "confidence": [0.4, 0.9, None, 0.1],
    "correct": [True, False, None, True],
    "answer": ["x", "y", None, "z"],
    "topic": ["t", "t", "u", "u"],
    "judge": ["exact"] * 4,
}

verdicts = st.sampled_from([True, False, None])


@given(st.lists(st.tuples(verdicts, verdicts), max_size=40))
def test_counts_and_kappa_are_exact(pairs):
    found = agreement(pairs)
    both = [(one, two) for one, two in pairs if one is not None and two is not None]
    assert found.n == len(both)
    assert found.both_right == pairs.count((True, True))
    assert found.first_right == pairs.count((True, False))
    assert found.second_right == pairs.count((False, True))
    assert found.both_wrong == pairs.count((False, False))
    assert found.without_first == pairs.count((None, True)) + pairs.count((None, False))
    assert found.without_second == pairs.count((True, None)) + pairs.count((False, None))
    assert found.without_both == pairs.count((None, None))
    if not both:
        assert found.observed is found.expected is found.kappa is found.first is found.second is None
        return
    n = len(both)
    seen = Fraction(sum(one == two for one, two in both), n)
    ours, theirs = Fraction(sum(one for one, _ in both), n), Fraction(sum(two for _, two in both), n)
    chance = ours * theirs + (1 - ours) * (1 - theirs)
    assert (found.observed, found.expected) == (float(seen), float(chance))
    assert found.kappa == (None if chance == 1 else float((seen - chance) / (1 - chance)))
    assert (found.first, found.second) == (float(ours), float(theirs))


def test_a_textbook_kappa():
    found = Agreement(both_right=20, first_right=5, second_right=10, both_wrong=15)
    assert (found.observed, found.expected, found.kappa) == (0.7, 0.5, 0.4)


@pytest.mark.parametrize("pairs", [[(True, True)] * 3, [(False, False)], [], [(None, None)]])
def test_kappa_is_null_where_both_always_say_the_same_one_thing(pairs):
    assert agreement(pairs).kappa is None


def test_two_tables_are_matched_whatever_the_order_of_their_rows():
    ours = Traces.from_columns(TABLE)
    other = {**TABLE, "correct": [True, True, False, None], "judge": ["model:x"] * 4}
    theirs = Traces.from_columns({name: values[::-1] for name, values in other.items()})
    found = agree(ours, theirs, by="topic")
    assert found.pooled == Agreement(both_right=1, second_right=1, without_first=1, without_second=1)
    assert found.by == (
        "topic",
        {"t": Agreement(both_right=1, second_right=1), "u": Agreement(without_first=1, without_second=1)},
    )
    assert found.judges == ("exact", "model:x")
    assert found.warnings == ()
    by_depth = agree(ours, theirs, by="depth").by[1]
    assert by_depth == {
        0: Agreement(both_right=1, without_first=1),
        1: Agreement(second_right=1, without_second=1),
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"answer": ["x", "y", None, "Z"]},
            r"same answers, found that 1 of 4 differ, first at trace 'b', depth 1: 'z'",
        ),
        ({"answer": ["x", "y", "w", "z"]}, "depth 0: null and 'w'"),
        ({"answer": [None] * 4}, "3 of 4 differ"),
        ({"trace_id": ["a", "a", "c", "c"]}, "4 of them in one table alone"),
        ({"model": ["m"] * 4}, "8 of them in one table alone"),
        ({"question": ["Q?"] * 4}, "same questions"),
        ({"plan": ["p"] * 4}, "same plans"),
    ],
)
def test_verdicts_on_other_answers_are_refused(change, said):
    with pytest.raises(Unmatched, match=said):
        agree(Traces.from_columns(TABLE), Traces.from_columns({**TABLE, **change}))


def test_a_longer_walk_is_another_one():
    longer = {name: [*values, values[-1]] for name, values in TABLE.items()} | {"depth": [0, 1, 0, 1, 2]}
    with pytest.raises(Unmatched, match=r"found 4 and 5 states, 1 of them"):
        agree(Traces.from_columns(TABLE), Traces.from_columns(longer))


def test_what_cannot_be_told_is_warned_of():
    bare = Traces.from_columns({name: TABLE[name] for name in ("trace_id", "depth", "confidence", "correct")})
    assert "no answers" in agree(bare, bare).warnings[0]
    whole = Traces.from_columns(TABLE)
    assert "with itself" in agree(whole, whole).warnings[0]
    with pytest.raises(BadChoice, match=r"did you mean topic\?"):
        agree(whole, whole, by="topics")
    with pytest.raises(BadChoice, match="constant within a trace"):
        agree(whole, whole, by="answer")


def test_the_table_shows_counts_and_what_is_missing():
    ours = Traces.from_columns(TABLE)
    theirs = Traces.from_columns({**TABLE, "correct": [True, True, False, None], "judge": ["\x1b[31m"] * 4})
    counts, shares = map(text, agreement_tables(agree(ours, theirs, by="topic")))
    assert "\x1b" not in counts
    assert "Verdicts (n = 2)" in counts
    assert "2 left out: 1 without a verdict of the first alone, 1 of the second alone, 0 of both" in counts
    assert [line.split()[0] for line in shares.splitlines()[2:]] == ["pooled", "t", "u"]


def test_the_command_prints_tables_or_one_object(tmp_path, monkeypatch, capfd):
    first, second = tmp_path / "a.parquet", tmp_path / "b.jsonl"
    write_traces(Traces.from_columns(TABLE), first)
    write_traces(Traces.from_columns({**TABLE, "correct": [True, True, False, None]}), second)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gatewise", "agree", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capfd.readouterr()

    code, out, err = run(first, second, "--json", "--by", "depth")
    found = json.loads(out)
    assert (code, found["schema"], found["n"], found["observed"], found["kappa"]) == (
        0,
        "gatewise.agree/1",
        2,
        0.5,
        0,
    )
    assert [group["value"] for group in found["by"]["groups"]] == [0, 1]
    assert "with itself" in err
    code, out, _ = run(first, second)
    assert (code, "Agreement" in out, "kappa" in out) == (0, True, True)
    write_traces(Traces.from_columns({**TABLE, "answer": ["x"] * 4}), second)
    code, out, err = run(first, second)
    assert (code, out) == (2, "")
    assert "expected verdicts on the same answers" in err
