import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from gatewise import Adaptive, BadChoice, Traces, replay
from gatewise.replays.policies import has_words, proxy_depth

words = st.sampled_from(
    [*oracles.MARKERS, "Which", "WHO WAS", "unbothered", "A-1", "don't", "é", "¿", "7", "  ", "?"]
)


@given(st.lists(words, max_size=25).map(" ".join))
def test_the_proxy_reads_a_question_as_the_oracle_does(question):
    assert proxy_depth(question) == oracles.proxy(question)


@pytest.mark.parametrize(
    ("question", "depth"),
    [
        ("a b c d e f g h", 1),
        ("a b c d e f g h i", 2),
        ("a-b-c-d-e-f-g-h-i", 2),
        (" ".join("abcdefghijklmnopqr"), 3),
        (" ".join("abcdefghijklmnopq"), 2),
        ("Which?", 2),
        ("Which which which?", 2),
        ("Which of both?", 3),
        ("He was bothered", 2),
    ],
)
def test_the_borders_of_the_proxy(question, depth):
    assert proxy_depth(question) == depth


def test_the_proxy_needs_questions():
    assert not has_words(None)
    assert not has_words(" \n")
    columns = {"trace_id": ["a"], "depth": [0], "confidence": [0.5], "correct": [True]}
    with pytest.raises(BadChoice, match="question of every trace"):
        replay(Traces.from_columns(columns), Adaptive())
