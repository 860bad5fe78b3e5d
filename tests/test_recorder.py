import asyncio
import json
from dataclasses import replace

import pytest

from gatewise.errors import Unavailable
from gatewise.recordings import judges
from gatewise.recordings.calls import Reply
from gatewise.recordings.endpoints import Prices, Settings
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.prompts import PROMPTS
from gatewise.recordings.recorder import (
    COLUMNS,
    Asking,
    about,
    by_model,
    by_own,
    estimate,
    record,
    rows,
    walk,
)
from gatewise.recordings.voices import Calls, Purse, Tally, Voice, nobody
from gatewise.types import Passage, Plan, Question

QUESTION = Question(
    "q1",
    "Who wrote it?",
    ("Ann",),
    (Passage("A", "Ann wrote it.", True), Passage("B", "Bob read it."), Passage("C", "Cid saw it.")),
    dataset="own",
    split="test",
    about={"hops": 2, "answer": "no"},
)
PLAN = Plan(QUESTION, ((0,), (), (1, 2)))
ASKING = Asking("label", PROMPTS["paper"])


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "ledger.sqlite") as opened:
        yield opened


class Model:
    """Says what a function makes of a body, and keeps the bodies."""

    def __init__(self, say):
        self.say = say
        self.bodies = []

    async def __call__(self, request):
        self.bodies.append(request.body)
        said = self.say(request)
        if isinstance(said, Exception):
            raise said
        content = said if isinstance(said, str) else json.dumps(said)
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        return Reply(
            json.dumps({"choices": [{"message": {"content": content}}], "usage": usage, "model": "served"}), 5.0, 0.5
        )


def voice_of(ledger, model, **settings):
    tally = Tally()
    given = Settings("m", "http://127.0.0.1/v1", **settings)
    return Voice(given.address, given, Calls(ledger, tally, Purse(tally), prices=given.prices), model)


def walked(ledger, say, asking=ASKING, decide=None, plan=PLAN, **settings):
    model = Model(say)
    return asyncio.run(walk(plan, voice_of(ledger, model, **settings), asking, decide)), model


def test_each_depth_is_asked_with_its_evidence_and_an_empty_slice_is_a_copy(ledger):
    depths = iter((10, 50, 90))
    states, model = walked(
        ledger, lambda request: {"answer": "Ann", "confidence": next(depths)}, prices=Prices(1e6, 2e6)
    )
    assert [state.confidence for state in states] == [0.1, 0.5, 0.5, 0.9]
    assert [state.new_passages for state in states] == [0, 1, 0, 2]
    assert [state.cost_usd for state in states] == [14.0, 14.0, 0.0, 14.0]
    assert [state.input_tokens for state in states] == [10, 10, 0, 10]
    assert [state.latency_s for state in states] == [0.5, 0.5, None, 0.5]
    assert {state.served_model for state in states} == {"served"}
    assert {state.missing_reason for state in states} == {"not judged"}
    asked = [body["messages"][-1]["content"] for body in model.bodies]
    assert ["Bob read it." in text for text in asked] == [False, False, True]


def test_an_unreadable_reply_is_asked_again_as_another_attempt_and_paid_for(ledger):
    said = iter(("what?", "I think 85", {"answer": "Ann", "confidence": 80}))
    states, model = walked(ledger, lambda request: next(said), plan=Plan(QUESTION, ()), prices=Prices(1e6, 0))
    assert (states[0].answer, states[0].confidence, states[0].cost_usd) == ("Ann", 0.8, 30.0)
    assert len(model.bodies) == 3
    assert len({json.dumps(body) for body in model.bodies}) == 1
    assert sorted(entry.attempt for entry in ledger.entries()) == [0, 1, 2]


def test_what_stays_unreadable_is_null_with_its_reason_and_kept_verbatim(ledger):
    states, model = walked(ledger, lambda request: "no JSON here", plan=Plan(QUESTION, ()))
    assert (states[0].answer, states[0].confidence, states[0].correct) == (None, None, None)
    assert states[0].missing_reason == "unreadable: no object"
    assert len(model.bodies) == ASKING.attempts
    assert all("no JSON here" in entry.raw for entry in ledger.entries())
    walked(ledger, lambda request: "no JSON here", plan=Plan(QUESTION, ()))
    assert len(ledger) == ASKING.attempts  # and is not asked for once more


def test_a_failed_call_leaves_a_null_with_its_kind_and_the_other_depths_stand(ledger):
    def say(request):
        if "Ann wrote it." in request.body["messages"][-1]["content"]:
            return Unavailable("expected an answer, found none.", "timeout")
        return {"answer": "Bob", "confidence": 40}

    states, _ = walked(ledger, say)
    assert [state.missing_reason for state in states] == ["not judged", "timeout", "timeout", "timeout"]
    states, model = walked(ledger, lambda request: {"answer": "Ann", "confidence": 90})
    assert [state.answer for state in states] == ["Bob", "Ann", "Ann", "Ann"]
    assert len(model.bodies) == 2


def test_a_final_failure_ends_the_recording(ledger):
    failure = Unavailable("expected a key that is taken, found 401.", "auth", final=True)
    with pytest.raises(Unavailable, match="found 401"):
        walked(ledger, lambda request: failure)


def test_a_judge_that_is_a_model_is_asked_once_for_each_distinct_answer(ledger):
    answers = Model(lambda request: {"answer": "Ann", "confidence": 90})
    verdicts = Model(lambda request: {"correct": True})
    judge = by_model(voice_of(ledger, verdicts), PROMPTS["paper"], 3)
    twin = Plan(replace(QUESTION, id="q2"), ((1,), (2,)))

    async def both():
        return [await walk(plan, voice_of(ledger, answers), ASKING, judge) for plan in (PLAN, twin)]

    found = asyncio.run(both())
    assert {state.correct for states in found for state in states} == {True}
    assert len(verdicts.bodies) == 1


def test_a_judge_that_cannot_be_read_leaves_no_verdict_but_the_answer(ledger):
    verdicts = Model(lambda request: "perhaps")
    judge = by_model(voice_of(ledger, verdicts), PROMPTS["paper"], 2)
    states, _ = walked(
        ledger, lambda request: {"answer": "Ann", "confidence": 90}, decide=judge, plan=Plan(QUESTION, ())
    )
    assert (states[0].answer, states[0].correct) == ("Ann", None)
    assert states[0].missing_reason == "verdict: unreadable: no object"
    assert len(verdicts.bodies) == 2


def test_a_judge_of_your_own_is_asked_once_and_kept(ledger):
    asked = []

    async def mine(question, answer):
        asked.append(answer)
        return None if answer == "Bob" else answer in question.references

    judge = judges.judge("my:judge", lambda name: mine)
    tally = Tally()
    decide = by_own(judge, Calls(ledger, tally, Purse(tally)))
    states, _ = walked(ledger, lambda request: {"answer": "Ann", "confidence": 90}, decide=decide)
    assert [state.correct for state in states] == [True] * 4
    assert asked == ["Ann"]
    other = Plan(replace(QUESTION, text="Who read it?"), ())
    states, _ = walked(ledger, lambda request: {"answer": "Bob", "confidence": 9}, decide=decide, plan=other)
    assert (states[0].correct, states[0].missing_reason) == (None, "verdict: none")


def test_p_true_is_a_second_question_of_one_token(ledger):
    top = [{"token": "Yes", "logprob": -0.2}, {"token": "No", "logprob": -2.0}]

    class Second(Model):
        async def __call__(self, request):
            if request.kind != "p_true":
                return await super().__call__(request)
            self.bodies.append(request.body)
            choice = {
                "message": {"content": "Yes"},
                "logprobs": {"content": [{"token": "Yes", "logprob": -0.2, "top_logprobs": top}]},
            }
            return Reply(json.dumps({"choices": [choice]}), 1.0, 0.1)

    model = Second(lambda request: {"answer": "Ann", "confidence": 90})
    asking = replace(ASKING, p_true=True)
    states = asyncio.run(walk(Plan(QUESTION, ()), voice_of(ledger, model), asking))
    assert states[0].p_true == pytest.approx(0.858, abs=0.001)
    second = model.bodies[1]
    assert (second["max_tokens"], second["logprobs"]) == (1, True)
    assert second["messages"][:2] == model.bodies[0]["messages"]
    assert json.loads(second["messages"][2]["content"])["answer"] == "Ann"


def test_the_same_walk_with_a_voice_that_asks_nobody_gives_the_same_states(ledger):
    states, _model = walked(ledger, lambda request: {"answer": "Ann", "confidence": 90})
    again, _ = walked(ledger, lambda request: pytest.fail("asked again"))
    assert states == again
    silent = voice_of(ledger, nobody)
    other = Plan(replace(QUESTION, text="Who else?"), ())
    assert asyncio.run(walk(other, silent, ASKING))[0].missing_reason == "not asked"


def test_rows_carry_what_the_design_names_and_what_the_source_says(ledger):
    states, _ = walked(ledger, lambda request: {"answer": "Ann", "confidence": 90})
    made = list(rows(PLAN, states, "label", "digest", "exact"))
    assert set(made[0]) == {*COLUMNS, "hops", "about_answer"}
    assert (made[3]["trace_id"], made[3]["depth"], made[3]["plan"], made[3]["model"]) == (
        "q1",
        3,
        PLAN.digest,
        "label",
    )
    assert about(QUESTION) == {"hops": 2, "about_answer": "no"}


def test_an_estimate_counts_what_is_missing_and_asks_nobody(ledger):
    voice = voice_of(ledger, nobody, max_tokens=50)
    before = estimate([PLAN], voice, replace(ASKING, p_true=True))
    assert (before.states, before.copied, before.had, before.calls, before.signals) == (4, 1, 0, 3, 3)
    assert before.output_tokens == 3 * 51
    assert before.price(None) is None
    assert before.price(Prices(1e6, 0.0)) == before.input_tokens > 0
    walked(ledger, lambda request: {"answer": "Ann", "confidence": 90}, max_tokens=50)
    assert estimate([PLAN], voice, ASKING).had == 3


def test_recording_stops_between_questions_when_told_to():
    done = []

    async def go(plan):
        done.append(plan)

    plans = [PLAN] * 100
    asyncio.run(record(plans, go, workers=3, stopped=lambda: len(done) >= 10, done=lambda: None))
    assert len(done) == 10
