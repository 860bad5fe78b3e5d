from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from gatewise import BadChoice
from gatewise.questions.plans import ORDERS, UNLABELLED, PlanCount, plan
from gatewise.types import Passage, Question
from gatewise.wording import proxy_depth

LEVELS = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])


@st.composite
def questions(draw):
    flags = draw(st.lists(st.booleans(), max_size=12))
    passages = tuple(Passage(f"t{place}", f"text {place}", flag) for place, flag in enumerate(flags))
    columns = [np.array([draw(LEVELS) for _ in flags]) for _ in range(draw(st.integers(1, 2)))]
    return Question("q", "Who?", ("A",), passages), columns


@given(questions(), st.integers(1, 5), st.none() | st.integers(0, 4))
def test_the_papers_plan_equals_its_oracle(drawn, slices, kept):
    question, columns = drawn
    passages = [{"title": p.title, "text": p.text, "supporting": p.supporting} for p in question.passages]
    found = plan(question, columns, slices=slices, distractors=kept)
    assert list(map(list, found.slices)) == oracles.paper_slices(passages, columns, slices, kept)


@given(questions(), st.sampled_from(list(ORDERS)), st.integers(1, 5))
def test_slices_partition_the_passages_in_every_order(drawn, order, slices):
    question, columns = drawn
    found = plan(question, columns, order=order, slices=slices)
    assert len(found.slices) == slices
    assert sorted(chain(*found.slices)) == list(range(len(question.passages)))
    assert found == plan(question, columns, order=order, slices=slices)
    assert [found.visible(depth) for depth in range(found.depths)] == [
        tuple(chain(*found.slices[:depth])) for depth in range(slices + 1)
    ]
    if order != "paper":
        sizes = list(map(len, found.slices))
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1


@given(questions(), st.integers(1, 5), st.none() | st.integers(0, 4))
def test_supports_first_and_distractors_first_mirror_each_other(drawn, slices, kept):
    question, columns = drawn
    supports, ranked = list(question.supports), oracles.ranked_of(columns, question.distractors)[:kept]
    first = plan(question, columns, order="supports-first", slices=slices, distractors=kept)
    last = plan(question, columns, order="distractors-first", slices=slices, distractors=kept)
    assert list(chain(*first.slices)) == supports + ranked
    assert list(chain(*last.slices)) == ranked + supports


@pytest.mark.parametrize("order", UNLABELLED)
@given(drawn=questions(), data=st.data())
def test_an_honest_order_does_not_look_at_the_support_labels(order, drawn, data):
    question, columns = drawn
    flipped = tuple(Passage(p.title, p.text, data.draw(st.booleans())) for p in question.passages)
    other = Question("q", "Who?", ("A",), flipped)
    assert plan(question, columns, order=order).slices == plan(other, columns, order=order).slices


def test_a_random_order_depends_on_the_seed_and_the_question_alone():
    passages = tuple(Passage(str(place), "") for place in range(20))
    one, two = (Question(name, "Who?", ("A",), passages) for name in ("one", "two"))
    first = plan(one, [], order="random", seed=1)
    assert first.slices == plan(one, [np.arange(20.0)], order="random", seed=1).slices
    assert first.slices != plan(one, [], order="random", seed=2).slices
    assert first.slices != plan(two, [], order="random", seed=1).slices


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"order": "papr"}, "did you mean paper"),
        ({"slices": 0}, "one slice or more"),
        ({"distractors": -1}, "0 distractors or more"),
        ({"order": "retriever", "distractors": 2}, "reads no labels"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(options, said):
    question = Question("q", "Who?", ("A",), (Passage("A", "a", True),))
    with pytest.raises(BadChoice, match=said):
        plan(question, [np.zeros(1)], **options)


@pytest.mark.parametrize("column", [np.zeros(2), np.array([np.nan]), np.array([np.inf])])
def test_scores_that_are_no_finite_number_a_passage_are_refused(column):
    question = Question("q", "Who?", ("A",), (Passage("A", "a", True),))
    with pytest.raises(BadChoice, match="finite score"):
        plan(question, [column])


@given(st.text(alphabet="aWwhichso bere?aftr 9", max_size=90))
def test_the_proxys_depth_equals_its_oracle(text):
    assert proxy_depth(text) == oracles.proxy_depth_of(text)


def test_plans_are_counted_and_an_empty_slice_still_costs_a_retrieval():
    question = Question(
        "q", "Which of both?", ("A",), (Passage("A", "a", True), Passage("B", "b", True)), split="test"
    )
    counts = PlanCount()
    counts.add(plan(question, [np.zeros(2)]))
    assert counts.as_json() == {
        "questions": 1,
        "passages": 2,
        "supports": 2,
        "empty_slices": [0, 0, 1],
        "proxy_depths": {"1": 0, "2": 0, "3": 1},
        "planned_retrievals": 3,
        "mean_planned_retrievals": 3.0,
    }
    assert PlanCount().mean_retrievals is None
