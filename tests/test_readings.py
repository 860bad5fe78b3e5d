"""The table of cases of docs/replies.md, row by row; and what holds of every reply whatever."""

import json
import re
import time
from decimal import Context, localcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewise.recordings.readings import READING, Said, Unreadable, answer_span, read_answer, read_verdict

DOCUMENT = (Path(__file__).parents[1] / "docs" / "replies.md").read_text("utf-8")


def cell(text):
    """What a cell of the document stands for."""
    text = text.strip()
    if ticks := re.match(r"`*", text)[0]:
        if len(set(text)) == 1:  # nothing between the ticks
            return ""
        assert text.endswith(ticks)
        text = text[len(ticks) : -len(ticks)]
        if len(ticks) > 1:  # with a space between our ticks and those of the text
            text = text[1:-1]
    text = text.replace("\\|", "|").replace("⏎", "\n")
    return re.sub(r"⟨U\+([0-9A-F]+)⟩", lambda found: chr(int(found[1], 16)), text)


def table(head):
    """The rows of the table whose first column has this name."""
    _, _, rest = DOCUMENT.partition(f"\n| {head} |")
    for line in rest.splitlines()[2:]:
        if not line.startswith("|"):
            break
        yield [cell(one) for one in re.split(r"(?<!\\)\|", line)[1:-1]]


CASES, VERDICTS = list(table("reply")), list(table("verdict"))


@pytest.mark.parametrize(
    ("reply", "finish", "answer", "confidence", "reason"), CASES, ids=lambda one: ascii(one)[:60]
)
def test_a_reply_is_read_as_the_table_says(reply, finish, answer, confidence, reason):
    expected = Unreadable(reason) if reason else Said(answer, float(confidence))
    assert read_answer(reply, finish or "stop") == expected


@pytest.mark.parametrize(("reply", "finish", "correct", "reason"), VERDICTS, ids=lambda one: ascii(one)[:60])
def test_a_verdict_is_read_as_the_table_says(reply, finish, correct, reason):
    expected = Unreadable(reason) if reason else {"true": True, "false": False}[correct]
    assert read_verdict(reply, finish or "stop") is expected or read_verdict(reply, finish or "stop") == expected


def test_the_document_names_every_reason_and_has_a_case_for_each_that_fits_a_line():
    assert [row[0] for row in table("reason")] == list(READING)
    named = {row[-1] for row in [*CASES, *VERDICTS]} - {""}
    assert named == set(READING) - {"too deep", "no completion"}
    assert len(CASES) > 100


# Whatever is said

PIECES = """{ } [ ] " \\ : , "answer" "confidence" 85 "x" 0.5 1e999 - null NaN <think> </think> ```json ` {} '"""
pieces = st.sampled_from([*PIECES.split(), " ", "\n", "\ud800", "\x00", "\u202e", '{"answer": "a", "confidence": 5}'])
texts = st.one_of(st.text(), st.lists(pieces, max_size=30).map("".join))
finishes = st.one_of(st.sampled_from(["stop", "length", "content_filter", "refusal", ""]), st.text(max_size=5))
answers = st.text(st.characters(), min_size=1).map(str.strip).filter(lambda text: re.search(r"\w", text))
prose = st.text(st.characters(blacklist_characters="{}<["), max_size=40)


@given(texts, finishes)
def test_no_text_whatever_raises(text, finish):
    found = read_answer(text, finish)
    if isinstance(found, Said):
        assert found.answer == found.answer.strip() != ""
        assert 0 <= found.confidence <= 1
        assert type(found.answer) is str
    else:
        assert found.reason in READING
        assert answer_span(text, finish) is None
    verdict = read_verdict(text, finish)
    assert isinstance(verdict, bool) or verdict.reason in READING


@given(answers, st.integers(0, 100), st.booleans())
def test_an_answer_that_is_written_as_asked_comes_back(answer, confidence, escaped):
    reply = json.dumps({"answer": answer, "confidence": confidence}, ensure_ascii=escaped)
    assert read_answer(reply) == Said(answer, confidence / 100)
    start, end = answer_span(reply)
    assert json.loads(f'"{reply[start:end]}"') == answer


@given(answers, st.decimals(1, 100, places=3), prose, prose)
def test_what_stands_around_an_object_changes_nothing(answer, confidence, before, after):
    reply = f'{{"answer": {json.dumps(answer)}, "confidence": {confidence}}}'
    plain = read_answer(reply)
    assert isinstance(plain, Said)
    fenced = f"```json\n{reply}\n```"
    for text in (fenced, before + reply + after, f"{before}\n{fenced}\n{after}", f"<think>{before}</think>\n{reply}"):
        assert read_answer(text) == plain
    assert read_answer(fenced, "length") == plain


@settings(max_examples=20)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(st.none() | st.booleans() | st.text(max_size=5), st.lists, max_leaves=4),
        max_size=3,
    )
)
def test_an_object_cut_anywhere_is_never_read(extra):
    reply = json.dumps({"answer": "Paris", "confidence": 85} | {f"x{key}": value for key, value in extra.items()})
    for place in range(1, len(reply)):
        for finish in ("stop", "length"):
            assert read_answer(reply[:place], finish) == Unreadable("truncated")


def test_each_per_cent_is_the_double_nearest_to_it():
    for tenth in range(10, 1001):
        reply = f'{{"answer": "a", "confidence": {tenth // 10}.{tenth % 10}}}'
        assert read_answer(reply).confidence == tenth / 1000


def test_minus_nothing_is_nothing():
    assert str(read_answer('{"answer": "a", "confidence": -0.0}').confidence) == "0.0"


SIZE = 5_000_000
HUGE = {
    "braces": "{" * SIZE,
    "braces and quotes": '{"' * (SIZE // 2),
    "braces, quotes and escapes": '{"\\"' * (SIZE // 4),
    "objects in objects": '{"a":' * (SIZE // 5),
    "brackets": '{"a":' + "[" * SIZE,
    "keys without a colon": '{"a" ' * (SIZE // 5),
    "empty objects": "{}" * (SIZE // 2),
    "spaces": '{"answer":' + " " * SIZE,
    "backslashes": '{"' + "\\" * SIZE,
    "drafts": '{"a":1,}</think>' * (SIZE // 16),
    "open thoughts": "<think>" * (SIZE // 7),
    "a number": '{"answer": "x", "confidence": ' + "8" * SIZE + "}",
    "a number and spaces": '{"answer": "x", "confidence": "85' + " " * SIZE + 'x"}',
}


@pytest.mark.parametrize("text", HUGE.values(), ids=list(HUGE))
def test_five_megabytes_of_it_take_seconds_and_are_refused(text):
    start = time.process_time()
    assert isinstance(read_answer(text), Unreadable)
    assert time.process_time() - start < 3  # quadratic time would be hours


def test_a_long_answer_is_read_whole():
    reply = json.dumps({"answer": "x" * SIZE, "confidence": 85})
    assert read_answer(reply) == Said("x" * SIZE, 0.85)
    assert answer_span(reply) == (12, 12 + SIZE)


def test_a_nesting_too_deep_to_follow_is_refused_by_its_name():
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    assert read_answer(deep) == read_verdict(deep) == Unreadable("too deep")
    assert read_answer(f"<think>{deep}</think>" + '{"answer": "a", "confidence": 5}') == Said("a", 0.05)


def test_the_answer_of_two_objects_stands_in_no_single_place():
    one = '{"answer": "Paris", "confidence": 85}'
    assert answer_span(one + one) is None
    assert answer_span('{"answer": 1889, "confidence": 85}') == (11, 15)


def test_the_callers_decimal_arithmetic_does_not_enter():
    with localcontext(Context(prec=2, traps=[])):
        assert read_answer('{"answer": "a", "confidence": 99.9}') == Said("a", 0.999)
        assert read_answer('{"answer": "a", "confidence": 1e99999999999999999999}') == Unreadable("out of range")
