"""Batches: what goes out is what a call would send; what comes back in whatever order and state enters the ledger."""

import asyncio
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.errors import Refused, Unavailable
from gatewise.recordings.batches import Intake, Results, _member, batch_line, read_batch_lines
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.voices import Calls, Purse, Tally

ENDPOINT = "https://example.org/v1/chat/completions"


def request(n=0, **more):
    return Request(ENDPOINT, {"model": "m", "messages": [{"role": "user", "content": f"number {n} \ud800"}]}, **more)


def body(text="said"):
    return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}], "usage": {}}


def done(key, reply=None, status=200):
    return line({"custom_id": key, "response": {"status_code": status, "body": reply or body()}, "error": None})


def line(row):
    return json.dumps(row).encode() + b"\n"


def results(*lines):
    return list(read_batch_lines(lines))


def test_a_line_holds_the_body_as_it_would_be_sent_under_the_key_of_the_request():
    one = request(1)
    text = batch_line(one).decode()
    assert text.endswith(f'"body":{one.text}}}\n')
    row = json.loads(text)
    assert row == {"custom_id": one.key, "method": "POST", "url": "/v1/chat/completions", "body": one.body}
    assert json.loads(batch_line(Request("http://h/v1/embeddings", {})))["url"] == "/v1/embeddings"
    assert json.loads(batch_line(one, 'mine"'))["custom_id"] == 'mine"'


@given(
    st.recursive(st.none() | st.integers() | st.floats(allow_nan=False) | st.text(), lambda inner: st.lists(inner))
)
def test_a_reply_is_taken_letter_for_letter(value):
    spaced = json.dumps({"x": value, "choices": [{"message": {"content": "a"}}]}, indent=1, ensure_ascii=False)
    spaced = spaced.replace("\n", " ")
    inner = f'{{"status_code":200 , "body" :\t{spaced} , "n":1}}'
    text = f' {{ "id":"b", "response" : {inner},"error":null,"custom_id":"k"}}'
    (one,) = results(text.encode())
    assert (one.key, one.raw) == ("k", spaced)


def test_a_number_keeps_its_spelling_and_a_repeated_name_its_last_value():
    text = '{"custom_id":"k","response":{"body":1,"body":{"choices":[{"message":{}}],"cost":1.50e-05,"n":1E400}}}'
    (one,) = results(text.encode())
    assert one.raw == '{"choices":[{"message":{}}],"cost":1.50e-05,"n":1E400}'
    assert _member("{}", "a") == _member(' { "b" : [] } ', "a") == ""


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"response": None, "error": {"code": "batch_expired", "message": "out of time"}}, "timeout"),
        ({"response": None, "error": {"code": "batch_cancelled"}}, "timeout"),
        ({"response": None, "error": {"code": "server_error", "message": "sorry"}}, "server"),
        ({"response": None, "error": None}, "server"),
        ({"error": "the engine died"}, "server"),
        ({"response": {"status_code": 429, "body": {"error": {"message": "slow down"}}}}, "rate"),
        ({"response": {"status_code": 500, "body": None}, "error": {"message": "?"}}, "server"),
        ({"response": {"status_code": 400, "body": None}, "error": {"object": "error", "message": "bad"}}, "refused"),
        ({"response": {"status_code": 400}, "error": "no such URL"}, "refused"),
        ({"response": {"status_code": 401, "body": {"error": {"message": "key"}}}}, "auth"),
        ({"response": {"status_code": 200, "body": {"error": {"message": "busy", "code": 503}}}}, "server"),
        ({"response": {"status_code": 200, "body": {"choices": []}}}, "garbage"),
        ({"response": {"status_code": 200, "body": {"error": {"code": 429}, "data": []}}}, "rate"),
        ({"response": {"status_code": 200, "body": "text"}}, "server"),
        ({"response": {"status_code": "200", "body": body()}}, "server"),
        ({"response": {"status_code": 200, "body": body()}, "error": {"message": "half of it"}}, "server"),
        ({"response": [1]}, "server"),
    ],
)
def test_a_failure_is_a_failure_by_its_kind_and_never_an_answer(row, kind):
    (one,) = results(line({"custom_id": "k", **row}))
    assert (one.key, one.raw, one.failure) == ("k", None, kind)


@pytest.mark.parametrize(
    "text",
    [b"{", b'{"custom_id": "k", "respon', b"[]", b"7", b'{"custom_id": 7}', b"{}", b"[" * 100_000, b"\xff\xfe"],
)
def test_a_line_that_cannot_be_read_is_a_failure_and_the_next_one_is_read(text):
    first, second = results(text, done("k"))
    assert (first.key, first.raw, first.failure) == ("", None, "garbage")
    assert second.raw == json.dumps(body())


def test_empty_lines_are_none_and_replies_of_other_engines_are_read():
    bare, embedded = (
        results(b"\n", b"  \r\n", b"\xef\xbb\xbf" + line({"custom_id": "k", "response": one}))
        for one in (body("bare"), {"status_code": 200, "body": {"data": [{"embedding": [0.5]}]}})
    )
    assert [json.loads(one.raw) for one in bare] == [body("bare")]
    assert json.loads(embedded[0].raw)["data"] == [{"embedding": [0.5]}]


def take_in(path, requests, lines):
    """Return what became of results, and how many requests are still without a reply."""
    tally = Tally()

    async def ask(calls, results):
        missing = 0
        for one in requests:
            try:
                await calls.once(one, results.ask)
            except Unavailable:
                missing += 1
        return missing

    with Ledger.open(path) as ledger, Results() as results:
        results.take_in(lines)
        missing = asyncio.run(ask(Calls(ledger, tally, Purse(tally)), results))
        results.count_rest(ledger)
        return results.intake, missing


def test_results_in_any_order_enter_the_ledger_once(tmp_path):
    path, requests = tmp_path / "l.sqlite", [request(n) for n in range(350)]
    with Ledger.open(path) as ledger:
        asyncio.run(ledger.put(requests[0], Reply("asked before", 1.0, 1.0)))
    lines = [done(one.key, body(str(n))) for n, one in enumerate(requests[:300])]
    lines += [done(requests[5].key, body("again")), done("0" * 64), done("not ours"), b'{"cut', b"\n"]
    lines += [line({"custom_id": requests[320].key, "response": None, "error": {"code": "batch_expired"}})]
    lines += [done(requests[321].key, {"error": {"message": "slow"}}, 429)]
    random.Random(0).shuffle(lines)
    lines.sort(key=lambda one: b"again" in one)  # the first counts
    failures = {"garbage": 1, "timeout": 1, "rate": 1}
    said = {"rate": "slow", "timeout": "the batch ended before this request was run"}
    said["garbage"] = "a line that is no JSON, or was cut short"
    intake, missing = take_in(path, requests, lines)
    assert intake == Intake(306, 299, known=1, repeated=1, foreign=2, failures=failures, said=said)
    assert missing == 50
    with Ledger.open(path) as ledger:
        found = ledger.find([one.key for one in requests])
        assert len(found) == len(ledger) == 300
        assert found[requests[0].key].raw == "asked before"
        assert json.loads(found[requests[5].key].raw) == body("5")
        assert (found[requests[5].key].started, found[requests[5].key].latency) == (None, None)
        before = list(ledger.entries())
    again, missing = take_in(path, requests, lines)
    assert (again.added, again.known, again.foreign, missing) == (0, 300, 2, 50)
    with Ledger.open(path) as ledger:
        assert list(ledger.entries()) == before


def test_a_request_that_stands_twice_in_the_plan_is_one(tmp_path):
    requests = [request(1), request(2), request(1)]
    intake, missing = take_in(tmp_path / "l.sqlite", requests, [done(request(1).key)])
    assert (intake.added, missing) == (1, 1)


def test_a_refusal_is_told_with_its_words():
    with Results() as results:
        results.take_in([done(request().key, {"error": {"message": "no such parameter: seed"}}, 400)])
        with pytest.raises(Refused, match="no such parameter: seed") as refused:
            asyncio.run(results.ask(request()))
        assert refused.value.said == "no such parameter: seed"
