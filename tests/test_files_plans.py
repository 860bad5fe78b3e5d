import gzip
import json
import os
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewise.errors import BrokenFile, BrokenQuestions
from gatewise.files import plan_json, plan_lines, read_plans, write_plans
from gatewise.files.plans import PLAN_SCHEMA, json_line
from gatewise.types import Passage, Plan, Question

TEXTS = st.text(max_size=10) | st.sampled_from(["\ud800", "line\u2028\nbreak", "\r", '"\\', "é😀", "\x00", "]"])
PASSAGES = st.builds(Passage, TEXTS, TEXTS, st.booleans())
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
QUESTIONS = st.builds(
    Question,
    TEXTS,
    TEXTS,
    st.lists(TEXTS, max_size=3).map(tuple),
    st.lists(PASSAGES, min_size=1, max_size=6).map(tuple),
    dataset=TEXTS,
    split=st.sampled_from(["calibration", "validation", "test"]),
    about=st.dictionaries(TEXTS, SCALARS, max_size=3),
)


@st.composite
def plans(draw):
    question = draw(QUESTIONS)
    places = draw(st.permutations(range(len(question.passages))))
    places = places[: draw(st.integers(0, len(places)))]
    cuts = sorted(draw(st.lists(st.integers(0, len(places)), max_size=3)))
    edges = [0, *cuts, len(places)]
    return Plan(question, tuple(tuple(places[a:b]) for a, b in pairwise(edges)))


EVIDENCE = (Passage("A", "a", True), Passage("B", "b"), Passage("C", "c", True), Passage("D", "d"))
ASKED = Question("q1", "Who?", ("Ann", "A."), EVIDENCE, "own", "test", {"hops": 2, "type": None})
GOOD = Plan(ASKED, ((0, 1), (2,), ()))
NEXT, LAST = (replace(GOOD, question=replace(ASKED, id=name)) for name in ("q2", "q3"))


def written(path, *made, **header):
    write_plans({"questions": len(made), **header}, made, path)
    return path


def reread(path):
    header, walk = read_plans(path)
    return header, list(walk)


@given(
    made=st.lists(plans(), max_size=4, unique_by=lambda one: one.question.id),
    header=st.dictionaries(st.text(max_size=4), SCALARS, max_size=3),
)
@settings(max_examples=150)
def test_what_is_written_is_read_back_and_written_to_the_same_bytes(tmp_path_factory, made, header):
    folder = tmp_path_factory.mktemp("plans")
    header = {**header, "schema": PLAN_SCHEMA, "questions": len(made)}
    write_plans(header, made, folder / "one.jsonl")
    found, again = reread(folder / "one.jsonl")
    assert (found, again) == (header, made)
    assert repr(again) == repr(made)  # 1 is not 1.0, and not True
    write_plans(found, again, folder / "two.jsonl")
    whole = (folder / "one.jsonl").read_bytes()
    assert whole == (folder / "two.jsonl").read_bytes() == b"".join(plan_lines(header, made))
    assert whole.count(b"\n") == 1 + len(made)


def test_a_line_holds_the_fields_of_the_contract_in_their_order(tmp_path):
    lines = written(tmp_path / "p.jsonl", GOOD, dataset="own").read_text().splitlines()
    assert json.loads(lines[0]) == {"schema": "gatewise.plans/1", "questions": 1, "dataset": "own"}
    assert next(iter(json.loads(lines[0]))) == "schema"
    line = json.loads(lines[1])
    assert list(line) == [
        "question_id", "dataset", "split", "question", "references", "passages", "slices", "digest", "about",
    ]  # fmt: skip
    assert line == plan_json(GOOD)
    assert line["slices"] == [[0, 1], [2], []]
    assert line["passages"][0] == {"title": "A", "text": "a", "supporting": True}
    assert line["digest"] == GOOD.digest


def test_a_compressed_plan_file_is_read_too(tmp_path):
    whole = written(tmp_path / "p.jsonl", GOOD).read_bytes()
    (tmp_path / "p.jsonl.gz").write_bytes(gzip.compress(whole))
    assert reread(tmp_path / "p.jsonl.gz")[1] == [GOOD]


def test_nothing_is_written_when_a_plan_cannot_be_made(tmp_path):
    def failing():
        yield GOOD
        raise BrokenFile("midway")

    with pytest.raises(BrokenFile, match="midway"):
        write_plans({}, failing(), tmp_path / "p.jsonl")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_plans({"questions": float("nan")}, [GOOD], tmp_path / "p.jsonl")
    assert os.listdir(tmp_path) == []
    assert json_line({"a": "\ud800é"}) == b'{"a": "\\ud800\\u00e9"}\n'
    assert json_line({"a": "é"}) == '{"a": "é"}\n'.encode()


def shown(plan):
    """What a model would see, depth by depth."""
    passages = plan.question.passages
    return plan.question.text, [[(passages[p].title, passages[p].text) for p in slice_] for slice_ in plan.slices]


@given(one=plans(), two=plans())
@settings(max_examples=200)
def test_two_plans_have_one_digest_exactly_when_they_show_the_same(one, two):
    assert (one.digest == two.digest) == (shown(one) == shown(two))
    assert len(one.digest) == 64


@given(plan=plans(), extra=st.text(min_size=1, max_size=3), data=st.data())
@settings(max_examples=150)
def test_a_digest_changes_with_anything_that_is_shown(plan, extra, data):
    question, passages = plan.question, list(plan.question.passages)
    changed = [Plan(replace(question, text=question.text + extra), plan.slices), Plan(question, (*plan.slices, ()))]
    changed.append(Plan(question, ((), *plan.slices)))
    used = [place for slice_ in plan.slices for place in slice_]
    if used:
        place = data.draw(st.sampled_from(used))
        for field in ("title", "text"):
            other = list(passages)
            other[place] = replace(other[place], **{field: getattr(other[place], field) + extra})
            changed.append(Plan(replace(question, passages=tuple(other)), plan.slices))
        moved = Plan(question, (tuple(used),)) if len(plan.slices) > 1 else Plan(question, ((), tuple(used)))
        changed.append(moved)
    for other in changed:
        assert other.digest != plan.digest
    slices = plan.slices[:-1]
    assert Plan(question, slices).digest != plan.digest


@given(plan=plans(), other=QUESTIONS, flags=st.lists(st.booleans(), min_size=6, max_size=6))
@settings(max_examples=150)
def test_a_digest_does_not_change_with_what_is_not_shown(plan, other, flags):
    used = {place for slice_ in plan.slices for place in slice_}
    passages = [
        replace(passage, supporting=flag) if place in used else Passage("other", "unused", flag)
        for place, (passage, flag) in enumerate(zip(plan.question.passages, flags, strict=False))
    ]
    disguised = replace(other, text=plan.question.text, passages=(*passages, Passage("one", "more")))
    assert Plan(disguised, plan.slices).digest == plan.digest


def test_neither_titles_and_texts_nor_slices_can_be_moved_into_one_another():
    def digest(*passages, slices):
        return Plan(Question("q", "Who?", (), tuple(Passage(*one) for one in passages)), slices).digest

    found = [
        digest(("ab", "c"), ("d", "e"), slices=((0, 1),)),
        digest(("a", "bc"), ("d", "e"), slices=((0, 1),)),
        digest(("ab", "c"), ("d", "e"), slices=((0,), (1,))),
        digest(("ab", "c"), ("d", "e"), slices=((1, 0),)),
        digest(("ab", "c"), ("d", "e"), slices=((0, 1), ())),
        digest(("ab", "c"), ("d", "e"), slices=((), (0, 1))),
        digest(("ab", "cd"), ("", "e"), slices=((0, 1),)),
    ]
    assert len(set(found)) == len(found)


def test_the_digest_of_a_plan_is_the_same_for_ever():
    assert GOOD.digest == "9d9a566506f8204b072945d967448e2b763aceff436dca866a47602a161b2fae"


TAMPERED = {
    "question": ("Who else?", "digest", "the line was changed"),
    "slices": ([[0, 1], [2]], "digest", "the line was changed"),
    "digest": ("0" * 64, "digest", "the line was changed"),
    "passages": ([{"title": "A", "text": "changed"}] * 4, "digest", "the line was changed"),
}


@pytest.mark.parametrize("field", TAMPERED)
def test_a_line_that_was_changed_is_refused_with_its_row(tmp_path, field):
    value, column, said = TAMPERED[field]
    refused(
        tmp_path,
        {field: value},
        rf"p\.jsonl row 2, column {column}, .*{said}\. Write the plans again with gatewise plan",
    )


def refused(folder, changes, message, drop=()):
    lines = written(folder / "p.jsonl", GOOD, NEXT, LAST).read_bytes().splitlines(keepends=True)
    line = {**json.loads(lines[2]), **changes}
    lines[2] = json_line({name: value for name, value in line.items() if name not in drop})
    (folder / "p.jsonl").write_bytes(b"".join(lines))
    _, walk = read_plans(folder / "p.jsonl")
    assert next(walk) == GOOD
    with pytest.raises(BrokenQuestions, match=message):
        next(walk)


@pytest.mark.parametrize("slices", [[[4]], [[-1]], [[0, 0]], [[0], [0]], [[0, 1], [2], [1]], [[10**30]]])
def test_positions_out_of_range_or_repeated_are_refused(tmp_path, slices):
    refused(
        tmp_path, {"slices": slices}, r"row 2, .*(positions of passages, each at most once|expected a plan).* Write"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"slices": "0"},
        {"slices": [["0"]]},
        {"slices": [[True]]},
        {"slices": [[0.5]]},
        {"slices": None},
        {"question": None},
        {"question_id": 7},
        {"references": "Ann"},
        {"references": [None]},
        {"passages": ["a"]},
        {"passages": [{"title": "A"}]},
        {"passages": [{"title": "A", "text": "a", "supporting": "yes"}]},
        {"about": {"x": [1]}},
        {"about": []},
        {"split": 1},
    ],
)
def test_a_field_of_another_kind_is_refused(tmp_path, changes):
    refused(tmp_path, changes, r"p\.jsonl row 2, column \(all\), .*expected a plan, found: .*Write the plans again")


@pytest.mark.parametrize(
    "field", ["question_id", "dataset", "split", "question", "references", "passages", "slices", "digest"]
)
def test_a_line_without_a_field_is_refused(tmp_path, field):
    refused(tmp_path, {}, f"row 2, .*missing required field `{field}`", drop=[field])


def test_a_plan_file_cut_anywhere_is_refused(tmp_path):
    whole = written(tmp_path / "p.jsonl", GOOD, NEXT).read_bytes()
    assert reread(tmp_path / "p.jsonl")[1] == [GOOD, NEXT]
    for length in range(len(whole) - 1):  # without the last line end it is whole all the same
        (tmp_path / "p.jsonl").write_bytes(whole[:length])
        with pytest.raises((BrokenFile, BrokenQuestions), match=r"(?s)p\.jsonl.*(Write|again)"):
            reread(tmp_path / "p.jsonl")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"7\n",
        b"not json\n",
        b'{"questions": 1}\n',
        b'{"schema": "gatewise.plans/2", "questions": 1}\n',
        b'{"schema": "gatewise.map/1", "questions": 1}\n',
        b'{"schema": null}\n',
        b"\xff\xfe\n",
    ],
)
def test_a_file_with_another_header_is_no_plan_file(tmp_path, header):
    (tmp_path / "p.jsonl").write_bytes(header + json_line(plan_json(GOOD)))
    with pytest.raises(
        BrokenFile, match=r"expected a plan file of schema gatewise\.plans/1 in .*p\.jsonl, found .*gatewise plan"
    ):
        read_plans(tmp_path / "p.jsonl")


@pytest.mark.parametrize("count", [0, 1, 3, None, "2", 2.5])
def test_another_count_than_the_header_says_is_refused(tmp_path, count):
    write_plans({"questions": count}, [GOOD, NEXT], tmp_path / "p.jsonl")
    with pytest.raises(BrokenFile, match=r"as its header says, found 2\. Write it again"):
        reread(tmp_path / "p.jsonl")


def test_a_plan_file_that_is_not_there_is_refused(tmp_path):
    for path in (tmp_path / "none.jsonl", tmp_path, tmp_path / "plans.txt"):
        with pytest.raises(BrokenFile, match="expected a plan file at"):
            read_plans(path)


def test_a_question_that_stands_twice_is_refused(tmp_path):
    with pytest.raises(BrokenQuestions, match="row 2, column question_id"):
        reread(written(tmp_path / "plans.jsonl", GOOD, GOOD))
