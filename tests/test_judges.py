import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.errors import BadChoice, Unavailable
from gatewise.recordings.judges import exact, judge, token_f1
from gatewise.types import Question


def asks(*references):
    return Question("q1", "Who wrote Middlemarch?", references, ())


def verdict(name, answer, *references, own=None):
    return asyncio.run(judge(name, own)(asks(*references), answer))


@pytest.mark.parametrize(
    ("reference", "answer", "same"),
    [
        ("The Beatles", "beatles", True),
        ("the  Beatles", "Beatles!", True),
        ("George Eliot", "Eliot George", False),
        ("U.S.A.", "USA", True),
        ("twenty-one", "twentyone", True),  # as the official scripts have it: what punctuation joins becomes one word
        ("twenty-one", "twenty one", False),
        ("Björk", "Bjork", False),
        ("STRASSE", "strasse", True),
        ("Theatre", "theatre", True),
        ("an apple a day", "apple day", True),
        ("yes", "Yes.", True),
        ("yes", "no", False),
        ("yes", "yes, it is", False),
        ("A", "a", True),
        ("A", "the", False),  # both are articles alone: nothing would be left to compare
        ("A", "", False),
        ("!", "?", False),
        ("1,000", "1000", True),
        ("١٢", "١٢", True),
    ],
)
def test_an_exact_match_looks_past_case_punctuation_articles_and_space(reference, answer, same):
    assert exact(asks(reference), answer) is same


def test_the_best_reference_counts():
    assert exact(asks("Mary Ann Evans", "George Eliot"), "george eliot")
    assert token_f1(asks("Mary Ann Evans", "George Eliot"), "Eliot") == 2 / 3
    assert token_f1(asks(), "Eliot") == 0


@pytest.mark.parametrize(
    ("reference", "answer", "f1"),
    [
        ("Mary Ann Evans", "Mary Evans", 0.8),
        ("George Eliot", "George Eliot", 1),
        ("George Eliot", "Jane Austen", 0),
        ("the the George", "George", 1),
        ("New York New York", "New York", 2 / 3),  # a word counts as often as it stands
        ("yes", "yes it is", 0),
        ("yes it is", "yes", 0),
        ("no", "No", 1),
        ("noanswer", "noanswer at all", 0),
        ("A", "a", 1),
        ("A", "an", 0),
        ("George", "", 0),
    ],
)
def test_token_f1_counts_shared_words(reference, answer, f1):
    assert token_f1(asks(reference), answer) == f1


@given(st.integers(1, 30), st.integers(1, 30))
def test_a_share_of_words_is_the_nearest_double(shared, more):
    reference, answer = " ".join(f"w{n}" for n in range(shared)), " ".join(f"w{n}" for n in range(shared + more))
    assert token_f1(asks(reference), answer) == 2 * shared / (2 * shared + more)


@given(st.text(), st.text())
def test_an_exact_match_is_an_f1_of_one_for_any_text(reference, answer):
    question = asks(reference)
    if exact(question, answer):
        assert token_f1(question, answer) == 1
    assert 0 <= token_f1(question, answer) <= 1
    assert exact(question, reference) is bool(reference.strip())


def test_an_f1_judge_says_right_at_its_threshold_and_above():
    assert verdict("f1@0.8", "Mary Evans", "Mary Ann Evans") is True
    assert verdict("f1@0.81", "Mary Evans", "Mary Ann Evans") is False
    assert verdict("f1@1", "the Evans", "Evans") is True
    assert [judge(name).name for name in ("f1@.80", "f1@1.0", "f1@5e-1", "exact")] == [
        "f1@0.8", "f1@1", "f1@0.5", "exact",
    ]  # fmt: skip


def test_a_judge_of_your_own_may_be_async_or_not_and_may_have_no_verdict():
    async def strict(question, answer):
        return None if answer == "?" else answer in question.references

    for own in (strict, lambda question, answer: None if answer == "?" else np.bool_(answer in question.references)):
        said = [
            verdict("mine:strict", answer, "Eliot", own=lambda name, one=own: one) for answer in ("Eliot", "x", "?")
        ]
        assert said == [True, False, None]
        assert all(one is None or type(one) is bool for one in said)


def test_what_is_no_verdict_is_refused_with_the_judge_and_the_question():
    with pytest.raises(BadChoice, match=r"True, False or None of judge mine:one on question 'q1', found 'yes'"):
        verdict("mine:one", "x", "y", own=lambda name: lambda question, answer: "yes")

    def broken(question, answer):
        raise KeyError("\x1b[31mnothing")

    with pytest.raises(BadChoice, match=r"mine:one on question 'q1', found KeyError") as found:
        verdict("mine:one", "x", "y", own=lambda name: broken)
    assert "\x1b" not in str(found.value)

    def away(question, answer):
        raise Unavailable("expected a judge, found nobody.")

    with pytest.raises(Unavailable, match="found nobody"):
        verdict("mine:one", "x", "y", own=lambda name: away)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("exakt", r"did you mean exact\?"),
        ("f1", "expected a judge among exact, f1@0.8"),
        ("f1@0", "threshold above 0"),
        ("f1@80", "threshold above 0"),
        ("f1@nan", "threshold above 0"),
        ("f1@", "threshold above 0"),
        ("model:", "expected a judge among"),
        ("", "expected a judge among"),
        ("mine:one", "expected a judge among"),
    ],
)
def test_a_name_that_is_no_judge_is_refused(name, said):
    with pytest.raises(BadChoice, match=said):
        judge(name)


def test_a_model_is_asked_through_an_endpoint_and_not_here():
    one = judge("model:google/gemini-2.5-flash-lite")
    assert (one.model, one.decide) == ("google/gemini-2.5-flash-lite", None)
    with pytest.raises(BadChoice, match="expected an endpoint"):
        asyncio.run(one(asks("x"), "x"))
    assert judge("exact").model == ""
