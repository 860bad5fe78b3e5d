import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from gatewise import Isotonic, Threshold, Traces, measure, replay
from gatewise.replays.lookups import lookup
from gatewise.reports.passages import Evidence
from gatewise.reports.shelves import OUTCOMES, SORTS, Choice, Gate, Shelf, shelf_answers

SCORE = Isotonic((0.1, 0.5, 0.9), (0.05, 0.3, 0.8))
units = st.one_of(st.sampled_from(strategies.EDGES), st.floats(0, 1))


def shelf_of(traces, score=SCORE):
    return Shelf(lookup(traces, calibrated=score), Evidence())


@settings(max_examples=40)
@given(strategies.tables(), units, units, st.integers(0, 4), st.sampled_from(["raw", "calibrated"]))
def test_a_shelf_says_what_a_replay_says_of_every_row_and_group(table, one, other, budget, score):
    traces = strategies.traces(table)
    shelf, gate = shelf_of(traces), Gate(min(one, other), max(one, other), budget)
    episodes = {
        name: replay(traces, Threshold(lo=gate.lo, hi=gate.hi), score=by, budget=budget)
        for name, by in (("raw", None), ("calibrated", SCORE))
    }
    rows = shelf.rows(gate, Choice(score), 0, 99)
    assert [row[0] for row in rows] == list(range(len(traces)))
    assert [row[4] for row in rows] == episodes[score].depth.tolist()
    for column, grouping in [(-1, None), *enumerate(shelf.book.groupings)]:
        for value in range(len(grouping.values) if grouping else 1):
            among = grouping.places == value if grouping else np.ones(len(traces), np.bool_)
            counts = shelf.counts(gate, Choice(score, column, value))
            for name, found in episodes.items():
                point = measure(found, among=among)
                wrong = point.committed - point.correct - point.unlabelled
                expected = [point.correct, wrong, point.unlabelled, point.abstained, point.escalated]
                assert counts["by"][name] == expected
            for show in (*OUTCOMES, "moved"):
                chosen = shelf.order(gate, Choice(score, column, value, show))
                assert among[chosen].all()
                size = counts["moved"] if show == "moved" else counts["by"][score][OUTCOMES.index(show)]
                assert len(chosen) == size


def small():
    return Traces.from_columns(
        {
            "trace_id": ["a", "a", "b", "c"],
            "depth": [0, 1, 0, 0],
            "confidence": [0.5, 0.9, 0.8, None],
            "correct": [False, True, False, None],
            "question": ["Who?", "Who?", None, "Another WHO"],
            "answer": ["x", "Yes", "maybe", "never given"],
            "dataset": ["d", "d", "e", "e"],
            "kind": ["k"] * 4,
        }
    )


GATE = Gate(0.3, 0.7, 3)


def test_words_are_looked_for_in_ids_questions_and_answers_whatever_their_case():
    shelf = shelf_of(small(), None)
    for words, found in [("who", [0, 2]), ("YES", [0]), ("b", [1]), ("c", [2]), ("nothing", []), (" given ", [2])]:
        assert shelf.order(GATE, Choice(find=words)).tolist() == found


@pytest.mark.parametrize("sort", SORTS)
def test_rows_are_sorted_by_any_column_both_ways_and_ties_keep_their_order(sort):
    shelf = shelf_of(small())
    place = ["row", *SORTS].index(sort)
    up, down = (shelf.rows(GATE, Choice(sort=f"{turn}{sort}"), 0, 9) for turn in ("", "-"))
    rank = (
        OUTCOMES.index if sort == "outcome" else (lambda value: not value) if sort == "moved" else (lambda v: v or "")
    )
    if sort == "depth":
        rank = int
    assert [row[place] for row in up] == sorted((row[place] for row in up), key=rank)
    assert [row[place] for row in down] == sorted((row[place] for row in up), key=rank, reverse=True)


def test_a_question_has_its_states_and_where_each_gate_stopped():
    found = shelf_of(small(), None).question(0, GATE)
    assert found == {
        "id": "a",
        "question": "Who?",
        "about": [["dataset", "d"]],
        "states": [
            {"answer": "x", "correct": 0, "copied": False, "raw": 0.5},
            {"answer": "Yes", "correct": 1, "copied": False, "raw": 0.9},
        ],
        "evidence": None,
        "stops": {"raw": {"depth": 1, "action": 0}},
    }
    assert shelf_of(small(), None).question(2, GATE)["states"][0]["raw"] is None


def test_queries_of_nonsense_are_answered_as_if_unsaid():
    answers = shelf_answers([shelf_of(small())])
    plain = answers["/rows"]({})
    assert plain["total"] == 3
    nonsense = {
        "set": "9",
        "hi": "nan",
        "lo": "-1",
        "budget": "x",
        "map": "evil",
        "column": "99",
        "sort": "__class__",
    }
    assert answers["/rows"]({**nonsense, "from": "-5", "most": "999999999999", "show": "<b>"}) == plain
    assert answers["/question"]({"row": "77"})["id"] == "c"
