"""What a server that misbehaves on script makes of a call: what is counted, what is said, and what is asked again."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.errors import Refused, Unavailable
from gatewise.recordings.chats import chat
from gatewise.recordings.endpoints import FIRST, Settings, simpler
from gatewise.recordings.faults import fault_in, fault_of
from gatewise.recordings.retries import Patience
from server import Reply, Server, as_json, closed_port, redirect

QUICK = Patience(attempts=3, first_wait=0.01, longest_wait=2.0, connect=2.0, silence=0.2)
ANSWER = {"choices": [{"message": {"content": '{"answer": "x", "confidence": 80}'}, "finish_reason": "stop"}]}
BODY = {"model": "m", "messages": [{"role": "user", "content": "Who?"}], "max_tokens": 9}
GOOD = as_json(ANSWER)


def slow(reply):
    """Return whether a reply takes longer than a call should wait; all others come at once, on a busy machine too."""
    return reply.delay > 0 or reply.stall is not None


def briefly(value):
    return repr(value)[:60]


@pytest.fixture
def server():
    with Server() as one:
        yield one


def ask(server, *script, patience=QUICK, **settings):
    """Return the reply to one call."""
    url = settings.pop("url", None) or server.url("/v1")
    server.on("/v1/chat/completions", *script)

    async def scene():
        async with chat(Settings("m", url, **settings), key="sk-1234567890", patience=patience) as endpoint:
            return await endpoint(BODY)

    return asyncio.run(scene())


def failed(server, *script, **settings):
    """Return what one call ends in."""
    with pytest.raises(Unavailable) as caught:
        ask(server, *script, **settings)
    said = str(caught.value)
    assert said.isprintable()
    assert said.startswith("expected ")
    assert len(said) < 800
    return caught.value


def error(status, message="no", sent=None, **more):
    """Return an error as OpenAI words it; `sent` is the status that it comes with."""
    return as_json({"error": {"message": message, "code": status, **more}}, sent or status)


# What may pass is asked again, and the answer is the one that came


@pytest.mark.parametrize(
    "hiccup",
    [
        Reply(429),
        Reply(429, headers={"Retry-After": "0.05"}),
        Reply(500),
        Reply(502, b"<html>Bad Gateway</html>"),
        Reply(503, headers={"Retry-After": "0.05"}),
        Reply(504),
        Reply(520),
        Reply(529),
        Reply(408),
        Reply(409),
        Reply(425),
        Reply(200, GOOD.body, stall=0),
        Reply(200, GOOD.body, stall=20),
        Reply(200, GOOD.body, delay=2.0),
        Reply(200, GOOD.body, cut=20),
        Reply(200, GOOD.body, chunked=True, cut=20),
        Reply(200, GOOD.body, cut=20, reset=True),
        Reply(raw=b"", reset=True),
        Reply(raw=b""),
        Reply(raw=b"SSH-2.0-OpenSSH_9.2\r\n"),
        Reply(raw=b"\x15\x03\x01\x00\x02\x02\x46" * 30),
        Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}"),
        Reply(200, GOOD.body[:30]),
        Reply(200, b""),
        Reply(204),
        Reply(200, b"<html>busy</html>", {"Content-Type": "text/html"}),
        Reply(200, b'data: {"choices": []}\n\n', {"Content-Type": "text/event-stream"}),
        Reply(200, GOOD.body, {"Content-Encoding": "gzip"}),
        Reply(200, b"[" * 100_000),
        *(as_json(odd) for odd in (None, 7, "x", [], {}, {"choices": []}, {"choices": None}, {"choices": [{}]})),
        *(as_json({"choices": odd}) for odd in ({}, [None], [[]], ["x"], [{"message": "x"}], [{"message": None}])),
        error(500, sent=200),
        error("502", "Provider returned error", sent=200),
        error("rate_limit_exceeded", sent=200),
        as_json({"choices": [{"error": {"code": 503, "message": "overloaded"}, "message": {"content": ""}}]}),
        as_json({"object": "error", "message": "busy", "code": 50001}),
        as_json({"error": "busy"}),
    ],
    ids=briefly,
)
def test_what_may_pass_is_asked_again_and_the_answer_is_the_one_that_came(server, hiccup):
    reply = ask(server, hiccup, GOOD, timeout=0.5 if slow(hiccup) else 20)
    assert reply.raw == GOOD.body.decode()
    assert len(server.seen) == 2
    assert server.seen[0].body == server.seen[1].body
    marks = {one.headers["idempotency-key"] for one in server.seen}
    assert len(marks) == 1, "a server that knows the header answers one call once"


@pytest.mark.parametrize(
    ("script", "kind", "sentence"),
    [
        (Reply(429), "rate", "found after 3 tries: HTTP 429 Too Many Requests from {place}. Try again later."),
        (Reply(503), "server", "found after 3 tries: HTTP 503 Service Unavailable from {place}. Try again later."),
        (error(500, "boom"), "server", "HTTP 500 Internal Server Error from {place} (boom)."),
        (Reply(200, GOOD.body, stall=9), "timeout", "found after 3 tries: no answer within 0.1 s."),
        (Reply(200, GOOD.body, delay=0.4), "timeout", "found after 3 tries: no answer within 0.1 s."),
        (Reply(raw=b""), "network", "found after 3 tries: Server disconnected."),
        (Reply(200, b"{}", cut=1, reset=True), "network", "found after 3 tries: "),
        (Reply(raw=b"garbage\r\n\r\n"), "garbage", "what is no HTTP (Bad status line"),
        (Reply(200, GOOD.body[:-5]), "garbage", "holds no answer (no JSON"),
        (
            Reply(200, b"<p>", {"Content-Type": "text/html; charset=utf-8"}),
            "garbage",
            "a reply of status 200 from {place} that holds no answer (no JSON, of type text/html).",
        ),
        (as_json({"choices": []}), "garbage", "holds no answer (no choice in it, of type application/json)."),
        (error(502, "upstream is gone", sent=200), "server", "that holds no answer (upstream is gone)."),
    ],
    ids=briefly,
)
def test_patience_ends_in_a_sentence_and_a_kind(server, script, kind, sentence):
    caught = failed(server, script, timeout=0.1 if slow(script) else 20)
    assert (caught.kind, caught.final) == (kind, False)
    assert sentence.format(place=server.place) in str(caught)
    assert f"expected an answer from {server.place}" in str(caught)
    assert len(server.seen) == 3


def test_nobody_at_home_is_said_with_the_place(server):
    url = f"http://127.0.0.1:{closed_port()}/v1"
    caught = failed(server, GOOD, url=url)
    assert caught.kind == "network"
    assert url.split("/")[2] in str(caught)


def test_an_address_that_names_nobody_is_said(server):
    caught = failed(server, GOOD, url="http://nobody.invalid/v1")
    assert caught.kind == "network"
    assert "nobody.invalid" in str(caught)


# What will not pass is said at once; what no other call can better is final


@pytest.mark.parametrize(
    ("script", "kind", "remedy"),
    [
        (Reply(401), "auth", "Check the key in SOME_KEY."),
        (
            error(401, "Incorrect API key provided."),
            "auth",
            "(Incorrect API key provided.). Check the key in SOME_KEY.",
        ),
        (Reply(403), "auth", "Check the key in SOME_KEY."),
        (error(400, "API key not valid. Please pass a valid API key."), "auth", "Check the key"),
        (error(401, "No auth credentials found", sent=200), "auth", "Check the key in SOME_KEY."),
        (Reply(402), "quota", "Top up the account or raise its limit, then go on."),
        (
            error(402, "Insufficient credits"),
            "quota",
            "HTTP 402 Payment Required from {place} (Insufficient credits). Top",
        ),
        (error(402, "Insufficient credits", sent=200), "quota", "holds no answer (Insufficient credits). Top up"),
        (error("insufficient_quota", "You exceeded your current quota.", sent=429), "quota", "Top up the account"),
        (error(None, "x", sent=429, type="insufficient_quota"), "quota", "Top up the account"),
        (error(400, "Your credit balance is too low to access the API."), "quota", "Top up the account"),
        (error("billing_not_active", "Your account is not active.", sent=429), "quota", "Top up the account"),
        (
            Reply(404, b"404 page not found"),
            "missing",
            "(404 page not found). Check the model m and the address {url}.",
        ),
        (error("model_not_found", "The model `m` does not exist", sent=404), "missing", "Check the model m"),
        (error(400, "m is not a valid model ID"), "missing", "Check the model m"),
        (as_json({"error": "model 'm' not found, try pulling it first"}, 404), "missing", "Check the model m"),
        (error("model_not_found", "Project has no access to model m", sent=403), "missing", "Check the model m"),
        (Reply(405), "missing", "and the address {url}."),
        (redirect("/v2"), "missing", "found a redirect. Give the final address."),
        (
            as_json({"choices": [{"error": {"code": 402, "message": "Insufficient credits"}, "message": {}}]}),
            "quota",
            "Top up the account",
        ),
    ],
    ids=briefly,
)
def test_what_no_other_call_can_better_is_said_at_once_and_ends_all(server, script, kind, remedy):
    caught = failed(server, script, key_env="SOME_KEY")
    assert (caught.kind, caught.final) == (kind, True)
    url = server.url("/v1/chat/completions")
    assert remedy.format(place=server.place, url=url) in str(caught)
    assert len(server.seen) == 1


def test_an_endpoint_that_wants_a_key_says_that_none_is_named(server):
    assert "Name the variable that holds its key." in str(failed(server, Reply(401)))


@pytest.mark.parametrize(
    "script",
    [
        error(400, "'temperature' is not supported"),
        error(422, "what?"),
        Reply(400),
        Reply(413, b"Request Entity Too Large"),
        Reply(501),
        error(500, "Failed to parse grammar"),
        error(403, "Your input was flagged by moderation"),
        error(403, "You are not allowed to request logprobs from this model."),
        error(404, "No endpoints found that can handle the requested parameters."),
        error(400, "Invalid value", sent=200),
        error("invalid_request_error", "Unsupported parameter: 'seed'", sent=200),
    ],
    ids=briefly,
)
def test_a_refusal_of_this_request_is_said_at_once_and_ends_nothing_else(server, script):
    caught = failed(server, script)
    assert isinstance(caught, Refused)
    assert (caught.kind, caught.final, caught.status) == ("refused", False, script.status)
    assert caught.said == script.body.decode()
    assert len(server.seen) == 1


def test_a_schema_that_is_not_supported_leads_to_one_that_is(server):
    def old(seen):
        kind = seen.json.get("response_format", {}).get("type")
        return error(400, f"response_format of type {kind} is not supported") if kind else GOOD

    from gatewise.recordings.endpoints import request_body

    server.on("/v1/chat/completions", old)
    settings, form, forms = Settings("m", server.url("/v1")), FIRST, []

    async def scene():
        nonlocal form
        async with chat(settings, patience=QUICK) as endpoint:
            while True:
                forms.append(form.schema)
                try:
                    return await endpoint(request_body(settings, form, BODY["messages"], {"type": "object"}))
                except Refused as refused:
                    form = simpler(form, refused)

    assert asyncio.run(scene()).raw == GOOD.body.decode()
    assert forms == ["json_schema", "json_object", "plain"]


def test_an_https_address_of_a_plain_server_is_said_at_once(server):
    caught = failed(server, GOOD, url=server.url("/v1").replace("http:", "https:"))
    assert "found no TLS at that address. Should it begin with http://?" in str(caught)
    assert (caught.kind, caught.final) == ("network", True)


# Waits that a server names


def test_the_wait_that_a_server_names_is_waited(server):
    began = time.monotonic()
    ask(server, Reply(429, headers={"Retry-After": "0.3"}), GOOD)
    assert 0.3 <= time.monotonic() - began < 5


def test_a_date_is_measured_by_the_servers_own_clock(server):
    theirs = datetime(2041, 1, 1, tzinfo=UTC)
    after = format_datetime(theirs + timedelta(seconds=1), usegmt=True)

    def busy(seen):
        lines = f"HTTP/1.1 429 Slow down\r\nDate: {format_datetime(theirs, usegmt=True)}\r\nRetry-After: {after}"
        return Reply(raw=f"{lines}\r\nContent-Length: 0\r\n\r\n".encode())

    began = time.monotonic()
    ask(server, busy, GOOD)
    assert 1 <= time.monotonic() - began < 6


@pytest.mark.parametrize("asked", ["Mon, 02 Jan 2006 10:00:00 GMT", "-1", "0", "soon", "nan"])
def test_a_wait_that_has_passed_is_none(server, asked):
    began = time.monotonic()
    ask(server, Reply(429, headers={"Retry-After": asked}), GOOD)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("asked", ["3600", "Fri, 01 Jan 2100 00:00:00 GMT", "inf", "1e300"])
def test_a_wait_beyond_patience_is_said_at_once(server, asked):
    began = time.monotonic()
    caught = failed(server, Reply(429, headers={"Retry-After": asked}), GOOD)
    assert time.monotonic() - began < 2
    assert "HTTP 429 Too Many Requests" in str(caught)
    assert "and asks to wait " in str(caught)
    assert str(caught).endswith(" s. Try again then.")
    assert (caught.kind, caught.final) == ("rate", False)
    assert len(server.seen) == 1


# Clocks


def test_a_call_is_given_up_when_all_its_attempts_have_taken_too_long(server):
    patience = Patience(attempts=100, first_wait=0.05, longest_wait=0.05)
    began = time.monotonic()
    caught = failed(server, Reply(503), overall=0.4, patience=patience)
    assert time.monotonic() - began < 2
    assert "within 0.4 s, found after " in str(caught)
    assert caught.kind == "server"
    began = time.monotonic()
    caught = failed(server, Reply(200, GOOD.body, stall=3), overall=0.3, timeout=9)
    assert time.monotonic() - began < 2
    assert "no answer within 0.3 s" in str(caught)
    assert caught.kind == "timeout"


def test_a_server_that_sends_a_byte_now_and_then_does_not_hold_a_call_for_ever(server):
    import socketserver
    import threading

    class Drip(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(65536)
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            try:
                while True:
                    self.request.sendall(b" ")
                    time.sleep(0.02)
            except OSError:
                return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Drip) as drip:
        threading.Thread(target=drip.serve_forever, args=(0.01,)).start()
        url = f"http://127.0.0.1:{drip.server_address[1]}/v1"
        began = time.monotonic()
        caught = failed(server, GOOD, url=url, timeout=0.2, patience=Patience(attempts=1))
        drip.shutdown()
    assert time.monotonic() - began < 2
    assert "no answer within 0.2 s" in str(caught)


@pytest.mark.parametrize("jump", [86_400 * 365, -86_400 * 365])
def test_a_jump_of_the_systems_clock_ends_no_wait_and_begins_none(server, monkeypatch, jump):
    real = time.time
    jumped = [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + jumped[0])

    def busy(seen):
        jumped[0] += jump
        return Reply(503, headers={"Retry-After": "0.2"})

    began = time.monotonic()
    reply = ask(server, busy, GOOD, requests_per_minute=600, timeout=20, overall=50)
    assert 0.2 <= time.monotonic() - began < 5
    assert 0 < reply.latency < 5


# Replies that are odd, and answers all the same: whoever reads them decides


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": [{"message": {"content": "", "reasoning": "Let me see"}, "finish_reason": "length"}]},
        {"choices": [{"message": {"content": None, "refusal": "No."}}]},
        {"choices": [{"message": {}}], "error": None},
        {"choices": [{"message": {"content": "\x1b[31m \u202e {\"answer\""}}]},
        {"choices": [{"message": {"content": "x"}, "error": None}], "usage": "none"},
        {"choices": [{"message": {"content": "x"}}], "usage": {"total_tokens": True}},
    ],
)  # fmt: skip
def test_an_odd_answer_is_handed_on_as_it_came(server, odd):
    reply = ask(server, as_json(odd), tokens_per_minute=10**9)
    assert json.loads(reply.raw) == odd
    assert len(server.seen) == 1


@pytest.mark.parametrize("kind", ["text/html", "text/plain", "application/octet-stream", ""])
def test_an_answer_is_known_by_what_it_is_not_by_what_it_is_called(server, kind):
    assert ask(server, Reply(200, GOOD.body, {"Content-Type": kind})).raw == GOOD.body.decode()


def test_bytes_that_are_no_text_are_marked_and_the_answer_is_kept(server):
    reply = ask(server, Reply(200, b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'))
    assert json.loads(reply.raw)["choices"][0]["message"]["content"] == "\ufffd\ufffd"
    assert len(server.seen) == 1


def test_a_mark_before_the_json_is_no_part_of_it(server):
    assert ask(server, Reply(200, b"\xef\xbb\xbf" + GOOD.body)).raw == GOOD.body.decode()


# Sizes


def test_a_reply_of_five_megabytes_was_paid_for_and_is_kept(server):
    large = as_json({"choices": [{"message": {"content": "x" * 5_000_000}}]})
    assert ask(server, large).raw == large.body.decode()


def test_a_reply_larger_than_the_cap_is_refused_with_the_cap_and_not_asked_for_again(server):
    large = as_json({"choices": [{"message": {"content": "x" * 5_000_000}}]})
    caught = failed(server, large, largest_reply=1_000_000)
    assert caught.kind == "large"
    assert not caught.final
    assert "expected a reply of at most 1,000,000 bytes" in str(caught)
    assert str(caught).endswith("Lower the limit of its tokens, or allow larger replies.")
    assert len(server.seen) == 1


def test_a_reply_without_end_is_left_at_the_cap(server):
    bomb = Reply(200, b" " * 30_000_000, chunked=True)
    assert failed(server, bomb).kind == "large"


def test_a_small_body_that_unpacks_to_a_large_one_is_left_at_the_cap(server):
    import zlib

    packed = zlib.compress(b" " * 50_000_000)
    assert failed(server, Reply(200, packed, {"Content-Encoding": "deflate"}), largest_reply=10**6).kind == "large"


def test_a_refusal_of_megabytes_is_read_in_part(server):
    caught = failed(server, Reply(400, b'{"error": "' + b"x" * 5_000_000 + b'"}'))
    assert isinstance(caught, Refused)
    assert len(caught.said) == 4000


# Twice


def test_a_reply_that_comes_twice_answers_one_call_only():
    """A server that says everything twice on a connection that stays open: the echo is no answer to the next call."""

    async def twice(reader, writer):
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            asked = json.loads(await reader.readexactly(length))
            content = asked["messages"][0]["content"]
            body = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
            reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            writer.write(reply)
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(reply)
            await writer.drain()

    async def answer(reader, writer):
        try:
            await twice(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def scene():
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        async with listener, chat(Settings("m", url), patience=QUICK) as endpoint:
            said = []
            for word in ("one", "two", "three"):
                reply = await endpoint({"messages": [{"role": "user", "content": word}]})
                said.append(json.loads(reply.raw)["choices"][0]["message"]["content"])
                await asyncio.sleep(0.05)
            return said

    assert asyncio.run(scene()) == ["one", "two", "three"]


def test_a_server_that_acts_once_on_each_mark_is_paid_once_for_a_call_that_broke_off(server):
    paid = {}

    def careful(seen):
        mark = seen.headers["idempotency-key"]
        first = mark not in paid
        paid.setdefault(mark, as_json({**ANSWER, "id": f"call {len(paid)}"}))
        return Reply(200, paid[mark].body, cut=10) if first else paid[mark]

    assert json.loads(ask(server, careful).raw)["id"] == "call 0"
    assert len(server.seen) == 2
    assert len(paid) == 1


def test_two_calls_of_the_same_body_are_two_calls(server):
    server.on("/v1/chat/completions", GOOD)

    async def scene():
        async with chat(Settings("m", server.url("/v1")), patience=QUICK) as endpoint:
            await endpoint(BODY)
            await endpoint(BODY)

    asyncio.run(scene())
    assert len({one.headers["idempotency-key"] for one in server.seen}) == 2


# What a server echoes of a prompt decides nothing


HOSTILE = "insufficient_quota Incorrect API key model not found \x1b[31m"


def test_what_is_echoed_of_a_prompt_decides_nothing(server):
    echo = {
        "detail": [{"type": "missing", "loc": ["body", "x"], "msg": "Field required", "input": {"text": HOSTILE}}]
    }
    caught = failed(server, as_json(echo, 422))
    assert (caught.kind, caught.final) == ("refused", False)
    assert "(Field required)" in str(caught)
    echo = {"error": {"message": f"prompt refused: {'x' * 300} {HOSTILE}", "code": 400}}
    assert failed(server, as_json(echo, 400)).kind == "refused"


NAMES = st.sampled_from(["error", "message", "code", "detail", "choices", "metadata", "raw", "type"])
VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
)


@given(st.integers(100, 999), st.text() | st.builds(json.dumps, VALUES))
def test_no_text_whatever_breaks_the_reading_of_a_fault(status, text):
    fault = fault_of(status, text)
    assert fault.kind in ("timeout", "rate", "server", "auth", "quota", "missing", "refused")
    assert not (fault.passes and fault.final)
    assert fault.words == "" or fault.words.isprintable()
    found = fault_in(text)
    assert found is None or found.kind
