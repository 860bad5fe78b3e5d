import asyncio
from contextlib import suppress

import pytest

from gatewise.errors import Unavailable
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.chats import chat
from gatewise.recordings.endpoints import Form, Prices, Settings
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.voices import IN_A_ROW, NOT_ASKED, Calls, Marks, Purse, Tally, Voice, nobody
from scripted import Scripted, said

MESSAGES = [{"role": "user", "content": "Who?"}]


def request(number=0, attempt=0):
    return Request(
        "http://localhost/v1", {"model": "m", "messages": MESSAGES, "max_tokens": 10, "seed": number}, attempt
    )


def reply(number=0, **usage):
    import json

    body = {"choices": [{"message": {"content": f"{number}"}}], "usage": usage}
    return Reply(json.dumps(body), 1.0, 0.1)


def calls_in(ledger, limit=None, prices=None):
    tally = Tally()
    return Calls(ledger, tally, Purse(tally, limit), prices=prices), tally


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "ledger.sqlite") as opened:
        yield opened


def test_a_call_is_made_once_however_many_wait_for_it(ledger):
    calls, tally = calls_in(ledger)
    made = []

    async def ask(one):
        made.append(one.key)
        await asyncio.sleep(0.01)
        return reply()

    async def many():
        return await asyncio.gather(*(calls.once(request(), ask) for _ in range(20)))

    entries = asyncio.run(many())
    assert len(made) == 1
    assert len({entry.key for entry in entries}) == 1
    again, found = calls_in(ledger)
    assert asyncio.run(again.once(request(), nobody)).raw == reply().raw
    assert (tally.asked, tally.found, found.asked, found.found) == (1, 0, 0, 1)


def test_a_failed_call_leaves_nothing_in_the_ledger_and_may_be_tried_again(ledger):
    calls, tally = calls_in(ledger)

    async def fail(one):
        raise Unavailable("expected an answer, found none.", "timeout")

    with pytest.raises(Unavailable):
        asyncio.run(calls.once(request(), fail))
    assert len(ledger) == 0
    assert tally.failures == {"timeout": 1}

    async def work(one):
        return reply()

    asyncio.run(calls.once(request(), work))
    assert len(ledger) == 1


def test_after_many_failures_in_a_row_an_endpoint_is_left_alone(ledger):
    calls, _ = calls_in(ledger)
    made = []

    async def fail(one):
        made.append(one)
        raise Unavailable("expected an answer, found none.", "network")

    async def many():
        return await asyncio.gather(*(calls.once(request(n), fail) for n in range(IN_A_ROW)), return_exceptions=True)

    asyncio.run(many())
    with pytest.raises(Unavailable, match=f"found {IN_A_ROW} failures in a row") as last:
        asyncio.run(calls.once(request(1000), fail))
    assert last.value.final
    assert len(made) == IN_A_ROW


def test_a_success_in_between_keeps_the_endpoint_open(ledger):
    calls, tally = calls_in(ledger)

    async def ask(one):
        if one.body["seed"] % IN_A_ROW:
            raise Unavailable("expected an answer, found none.", "network")
        return reply()

    async def one_by_one():
        for number in range(4 * IN_A_ROW):
            with suppress(Unavailable):
                await calls.once(request(number), ask)

    asyncio.run(one_by_one())
    assert len(ledger) == 4
    assert tally.failures["network"] == 4 * (IN_A_ROW - 1)


def test_a_final_failure_ends_all_calls_with_the_same_sentence(ledger):
    calls, _ = calls_in(ledger)
    made = []

    async def fail(one):
        made.append(one)
        raise Unavailable("expected a key that is taken, found 401.", "auth", final=True)

    for number in range(3):
        with pytest.raises(Unavailable, match="found 401"):
            asyncio.run(calls.once(request(number), fail))
    assert len(made) == 1


@pytest.mark.parametrize("workers", [1, 7, 40])
def test_no_call_takes_the_cost_above_the_limit(ledger, workers):
    prices = Prices(1000.0, 2000.0)
    limit = 1.0
    calls, tally = calls_in(ledger, limit, prices)

    async def ask(one):
        await asyncio.sleep(0.001)
        return reply(prompt_tokens=5, completion_tokens=10)  # 0.025 $, and at most 0.105 $

    async def all_of_them():
        numbers = iter(range(1000))

        async def work():
            for number in numbers:
                try:
                    await calls.once(request(number), ask)
                except Unavailable as failure:
                    kinds.add(failure.kind)
                    return

        await asyncio.gather(*(work() for _ in range(workers)))

    kinds = set()
    asyncio.run(all_of_them())
    assert kinds == {NOT_ASKED}
    assert limit - 0.12 < tally.cost <= limit
    assert len(ledger) == tally.asked == round(tally.cost / 0.025)
    assert "are spent" in tally.stopped


def test_what_earlier_runs_paid_counts_against_the_limit(ledger):
    prices = Prices(1000.0, 2000.0)

    async def ask(one):
        return reply(prompt_tokens=5, completion_tokens=10)

    async def two(calls):
        for number in range(2):
            await calls.once(request(number), ask)

    asyncio.run(two(calls_in(ledger, None, prices)[0]))
    calls, tally = calls_in(ledger, 0.06, prices)
    asyncio.run(two(calls))
    assert tally.cost == pytest.approx(0.05)
    with pytest.raises(Unavailable):
        asyncio.run(calls.once(request(2), ask))


def test_a_reply_that_names_no_price_is_counted_as_unpriced(ledger):
    calls, tally = calls_in(ledger)

    async def ask(one):
        return reply()

    asyncio.run(calls.once(request(), ask))
    assert (tally.cost, tally.unpriced) == (0.0, 1)


def test_the_form_is_negotiated_once_and_noted(ledger):
    def script(body, time):
        if "response_format" in body:
            return 400, '{"error": {"message": "response_format is not supported"}}'
        if "max_tokens" in body:
            return 400, '{"error": {"message": "Unsupported parameter: \'max_tokens\' is not supported"}}'
        return None

    schema = {"title": "answer", "type": "object", "properties": {"answer": {"type": "string"}}}
    with Scripted(script=script) as server:
        settings = Settings("m", server.url)

        async def ask(number):
            async with chat(settings) as endpoint:
                calls, _ = calls_in(ledger)
                voice = Voice(endpoint.name, settings, calls, lambda one: endpoint(one.body))
                messages = [[{"role": "user", "content": f"{number} {n}"}] for n in range(5)]
                await asyncio.gather(*(voice.say(one, schema) for one in messages))
                return voice.form

        form = asyncio.run(ask(1))
        first = server.total
        assert form == Form("plain", "max_completion_tokens")
        assert asyncio.run(ask(2)) == form
        assert (first, server.total) == (5 + 3, 5 + 3 + 5)
        assert asyncio.run(ask(1)) == form
        assert server.total == 13  # all of it was in the ledger


def test_a_model_that_serves_nothing_says_why(ledger):
    with Scripted(script=lambda body, time: (400, '{"error": {"message": "I do not like your face"}}')) as server:
        settings = Settings("m", server.url)

        async def ask():
            async with chat(settings) as endpoint:
                voice = Voice(endpoint.name, settings, calls_in(ledger)[0], lambda one: endpoint(one.body))
                await voice.say(MESSAGES)

        with pytest.raises(Unavailable, match="I do not like your face") as failure:
            asyncio.run(ask())
        assert failure.value.kind == "refused"
        assert len(ledger) == 0


def test_a_voice_offline_says_what_was_said_and_asks_nobody(ledger):
    with Scripted(lambda body: said(body)) as server:
        settings = Settings("m", server.url)

        async def ask():
            async with chat(settings) as endpoint:
                voice = Voice(endpoint.name, settings, calls_in(ledger)[0], lambda one: endpoint(one.body))
                entry = await voice.say(MESSAGES)
                assert await voice.offline().say(MESSAGES) == entry
                with pytest.raises(Unavailable) as failure:
                    await voice.offline().say([{"role": "user", "content": "What else?"}])
                assert failure.value.kind == NOT_ASKED

        asyncio.run(ask())
        assert server.total == 1


def test_an_endpoint_that_never_answers_is_given_up_after_a_few_questions(ledger):
    calls, _ = calls_in(ledger)
    made = []

    async def fail(one):
        made.append(one)
        raise Unavailable("expected an answer, found none within 3 s.", "network")

    async def many():
        voice = Voice("http://localhost/v1", Settings("m", "http://localhost/v1"), calls, fail)
        asked = [[{"role": "user", "content": str(number)}] for number in range(8)]
        return await asyncio.gather(*(voice.say(one) for one in asked), return_exceptions=True)

    failures = asyncio.run(many())
    assert [one.final for one in failures[:3]] == [False, False, True]
    assert "expected a first answer, found 3 questions without one" in str(failures[2])
    assert len(made) == 3


def test_what_is_under_way_is_stored_though_nobody_waits_for_it(ledger):
    calls, _ = calls_in(ledger)

    async def ask(one):
        await asyncio.sleep(0.05)
        return reply()

    async def given_up():
        task = asyncio.ensure_future(calls.once(request(), ask))
        await asyncio.sleep(0.01)
        task.cancel()
        await calls.settled()

    asyncio.run(given_up())
    assert len(ledger) == 1


def test_a_call_that_waited_for_money_is_not_made_after_a_stop(ledger):
    calls, tally = calls_in(ledger, 0.15, Prices(1000.0, 2000.0))
    made = []

    async def ask(one):
        made.append(one)
        await asyncio.sleep(0.02)
        tally.stopped = "interrupted"
        return reply(prompt_tokens=1, completion_tokens=1)

    async def two():
        return await asyncio.gather(*(calls.once(request(n), ask) for n in range(2)), return_exceptions=True)

    asyncio.run(two())
    assert len(made) == 1


def test_a_reply_that_names_no_tokens_counts_as_what_it_may_have_cost(ledger):
    calls, tally = calls_in(ledger, 1.0, Prices(1000.0, 2000.0))

    async def ask(one):
        return Reply('{"choices": [{"message": {"content": "x"}}]}', 1.0, 0.1)

    asyncio.run(calls.once(request(), ask))
    assert (tally.unpriced, len(ledger)) == (1, 1)
    assert 0.03 < tally.cost < 0.15


def test_marks_say_once_that_a_row_is_new():
    marks = Marks()
    assert [marks.add(row) for row in (1, 8, 1, 10**6, 8, 10**6, 9)] == [True, True, False, True, False, False, True]
