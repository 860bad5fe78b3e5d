import asyncio
import json
import logging
import pickle
import ssl
import subprocess
import threading
import time
import traceback
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import pytest

from gatewise.errors import BadChoice, Mistake, Refused, Unavailable
from gatewise.recordings.calls import Request
from gatewise.recordings.chats import chat
from gatewise.recordings.endpoints import Settings
from gatewise.recordings.retries import Patience
from server import Reply, Server, as_json, closed_port, redirect

QUICK = Patience(attempts=2, first_wait=0.01, longest_wait=2.0, connect=2.0)
ANSWER = {"choices": [{"message": {"content": "yes"}}], "usage": {"total_tokens": 20}}
GOOD = as_json(ANSWER)
KEY = "sk-canary-0123456789"
PATH = "/v1/chat/completions"


@pytest.fixture
def server():
    with Server() as one:
        yield one


def body(word="Who?"):
    return {"model": "m", "messages": [{"role": "user", "content": word}], "max_tokens": 9}


def play(url, scene, *, key="", patience=QUICK, **settings):
    """Return what a scene with an open endpoint returns."""

    async def whole():
        async with chat(Settings("m", url, **settings), key=key, patience=patience) as endpoint:
            return await scene(endpoint)

    return asyncio.run(whole())


def all_of(*words):
    """Return a scene that asks for several things at once, and what each ends in."""

    async def scene(endpoint):
        return await asyncio.gather(*(endpoint(body(word)) for word in words), return_exceptions=True)

    return scene


async def one(endpoint):
    return await endpoint(body())


# What is sent, and what comes back


def test_exactly_the_bytes_that_are_hashed_are_sent(server):
    server.on(PATH, GOOD)
    odd = {"model": "m", "z": [1.5, None], "messages": [{"role": "user", "content": "é \ud800 \u202e \x00"}]}
    play(server.url("/v1"), lambda endpoint: endpoint(odd))
    (seen,) = server.seen
    assert seen.body.decode() == Request("", odd).text
    assert seen.headers["content-type"] == "application/json"
    assert seen.method == "POST"


def test_an_answer_comes_back_word_for_word_with_its_clock(server):
    server.on(PATH, Reply(200, b' {"choices":\n[{"message": {"content": "\\u00e9 \xc3\xa9"}}]} \n', delay=0.05))
    before = time.time()
    reply = play(server.url("/v1"), one)
    assert reply.raw == ' {"choices":\n[{"message": {"content": "\\u00e9 é"}}]} \n'
    assert before <= reply.started <= time.time()
    assert 0.05 <= reply.latency < 5


def test_the_latency_is_that_of_the_answer_without_the_waits_before_it(server):
    server.on(PATH, Reply(503, headers={"Retry-After": "0.5"}), GOOD)
    assert play(server.url("/v1"), one).latency < 0.5


def test_an_endpoint_is_known_by_its_address(server):
    assert chat(Settings("m", "https://example.org/v1/")).name == "https://example.org/v1/chat/completions"


def test_a_connection_is_used_again():
    connections = 0

    async def answer(reader, writer):
        nonlocal connections
        connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(GOOD.body), GOOD.body))
        writer.close()

    async def scene():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
            url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
            async with chat(Settings("m", url, concurrency=2), patience=QUICK) as endpoint:
                await asyncio.gather(*(endpoint(body()) for _ in range(20)))

    asyncio.run(scene())
    assert connections <= 2


# Paces


def test_no_more_calls_are_under_way_than_are_allowed(server):
    now, most, lock = 0, 0, threading.Lock()

    def count(change):
        nonlocal now, most
        with lock:
            now += change
            most = max(most, now)

    class Counted(Reply):
        def __getattribute__(self, name):
            if name == "delay":
                count(1)
                time.sleep(0.02)
                count(-1)
            return super().__getattribute__(name)

    server.on(PATH, Counted(200, GOOD.body))
    replies = play(server.url("/v1"), all_of(*"abcdefgh"), concurrency=3)
    assert {reply.raw for reply in replies} == {GOOD.body.decode()}
    assert most == 3


def test_a_call_that_waits_to_be_tried_again_holds_no_permit(server):
    def busy_once(seen):
        first = sum(one.body == seen.body for one in server.seen) == 1
        return Reply(503) if first and seen.json["messages"][0]["content"] == "slow" else GOOD

    server.on(PATH, busy_once)
    patience = Patience(attempts=2, first_wait=0.4)
    began = time.monotonic()
    play(server.url("/v1"), all_of("slow", "a", "b", "c"), concurrency=1, patience=patience)
    assert [one.json["messages"][0]["content"] for one in server.seen] == ["slow", "a", "b", "c", "slow"]
    assert time.monotonic() - began < 5


def test_requests_keep_to_their_rate(server):
    server.on(PATH, GOOD)
    began = time.monotonic()
    play(server.url("/v1"), all_of(*"abcdef"), requests_per_minute=600)
    assert 0.5 <= time.monotonic() - began < 5


def test_tokens_keep_to_their_rate_as_the_replies_count_them(server):
    server.on(PATH, GOOD)  # 20 tokens each, 50 a second
    began = time.monotonic()
    play(server.url("/v1"), all_of(*"abcd"), tokens_per_minute=3000, concurrency=1)
    assert 1.1 <= time.monotonic() - began < 5


def test_after_a_named_wait_of_one_call_the_others_wait_too(server):
    server.on(PATH, Reply(429, headers={"Retry-After": "0.4"}), GOOD)

    async def scene(endpoint):
        first = asyncio.create_task(endpoint(body("a")))
        while not server.seen:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # until the refusal is here
        began = time.monotonic()
        await endpoint(body("b"))
        waited = time.monotonic() - began
        await first
        return waited

    assert 0.2 <= play(server.url("/v1"), scene) < 5


def test_a_long_queue_is_no_reason_to_give_up(server):
    server.on(PATH, Reply(200, GOOD.body, delay=0.15))
    replies = play(server.url("/v1"), all_of(*"abcdefgh"), concurrency=1, overall=1.0)
    assert {reply.raw for reply in replies} == {GOOD.body.decode()}


# The circuit


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (Reply(401), "auth"),
        (as_json({"error": {"code": "insufficient_quota", "message": "Pay."}}, 429), "quota"),
        (as_json({"error": {"code": 402, "message": "Insufficient credits"}}), "quota"),
        (as_json({"error": {"message": "model 'm' not found"}}, 404), "missing"),
    ],
)
def test_after_a_final_failure_no_further_call_is_sent_and_each_says_the_same(server, script, kind):
    server.on(PATH, script, GOOD)

    async def scene(endpoint):
        queued = await all_of(*"abcdef")(endpoint)
        began = time.monotonic()
        later = await all_of(*"gh")(endpoint)
        assert time.monotonic() - began < 1
        return [*queued, *later]

    ended = play(server.url("/v1"), scene, concurrency=1)
    assert len(server.seen) == 1
    assert {(type(one), one.kind, one.final) for one in ended} == {(Unavailable, kind, True)}
    assert len({str(one) for one in ended}) == 1
    assert len({id(one) for one in ended}) == len(ended)


def test_a_final_failure_wakes_those_who_wait_for_their_turn(server):
    server.on(PATH, Reply(503), Reply(401))
    began = time.monotonic()
    patience = Patience(attempts=5, first_wait=60)
    ended = play(server.url("/v1"), all_of(*"abcdef"), requests_per_minute=240, patience=patience)
    assert time.monotonic() - began < 5
    assert len(server.seen) == 2
    assert {one.kind for one in ended} == {"auth"}


def test_those_who_fail_at_the_same_time_say_the_same_too(server):
    def wrong(seen):
        return as_json({"error": {"message": f"request {len(server.seen)} has no valid key"}}, 401)

    server.on(PATH, wrong)
    ended = play(server.url("/v1"), all_of(*"abcdef"), concurrency=6)
    assert len({str(one) for one in ended}) == 1


def test_what_was_on_its_way_when_the_circuit_broke_still_counts(server):
    def answer(seen):
        slow = seen.json["messages"][0]["content"] == "slow"
        return Reply(200, GOOD.body, delay=0.3) if slow else Reply(402)

    server.on(PATH, answer)
    slow, broke = play(server.url("/v1"), all_of("slow", "broke"))
    assert slow.raw == GOOD.body.decode()
    assert broke.final


def test_a_refused_request_does_not_break_the_circuit(server):
    server.on(PATH, Reply(400), GOOD)

    async def scene(endpoint):
        with pytest.raises(Refused):
            await endpoint(body())
        return await endpoint(body())

    assert play(server.url("/v1"), scene).raw == GOOD.body.decode()


def test_until_a_named_wait_beyond_patience_is_over_no_call_is_sent(server):
    server.on(PATH, Reply(429, headers={"Retry-After": "0.5"}), GOOD)

    async def scene(endpoint):
        ended = [*(await all_of(*"abc")(endpoint)), *(await all_of("d")(endpoint))]
        asked = len(server.seen)
        await asyncio.sleep(0.6)
        return ended, asked, await endpoint(body())

    patience = Patience(attempts=3, first_wait=0.01, longest_wait=0.1)
    ended, asked, reply = play(server.url("/v1"), scene, concurrency=1, patience=patience)
    assert asked == 1
    assert {(one.kind, one.final) for one in ended} == {("rate", False)}
    assert len({str(one) for one in ended}) == 1
    assert "asks to wait 0.5 s. Try again then." in str(ended[0])
    assert reply.raw == GOOD.body.decode()


def test_a_cancelled_call_leaves_its_place_to_the_next(server):
    server.on(PATH, Reply(200, GOOD.body, stall=0), GOOD)

    async def scene(endpoint):
        task = asyncio.create_task(endpoint(body()))
        while not server.seen:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await endpoint(body())

    assert play(server.url("/v1"), scene, concurrency=1).raw == GOOD.body.decode()


# Proxies and certificates


def test_a_named_proxy_is_asked_in_place_of_the_address(server):
    server.on("http://nobody.invalid/v1/chat/completions", GOOD)
    reply = play("http://nobody.invalid/v1", one, proxy=server.url(""))
    assert reply.raw == GOOD.body.decode()
    assert server.seen[0].headers["host"] == "nobody.invalid"


def test_the_environments_proxy_is_asked_and_its_password_is_no_ones_business(server, monkeypatch):
    server.on("http://nobody.invalid/v1/chat/completions", GOOD)
    monkeypatch.setenv("http_proxy", f"http://me:{KEY}@{server.place}")
    assert play("http://nobody.invalid/v1", one).raw == GOOD.body.decode()
    assert server.seen[0].headers["proxy-authorization"].startswith("Basic ")
    monkeypatch.setenv("http_proxy", f"http://me:{KEY}@127.0.0.1:{closed_port()}")
    with pytest.raises(Unavailable) as caught:
        play("http://nobody.invalid/v1", one)
    assert "canary" not in f"{caught.value}{caught.value!r}{chat(Settings('m', 'http://nobody.invalid/v1'))!r}"


def test_none_is_no_proxy_whatever_the_environment_says(server, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("NO_PROXY", "")
    server.on(PATH, GOOD)
    assert play(server.url("/v1"), one, proxy="none").raw == GOOD.body.decode()
    with pytest.raises(Unavailable):
        play(server.url("/v1"), one)


def test_a_proxy_of_the_environment_is_read_as_other_tools_read_it(server, monkeypatch):
    server.on("http://nobody.invalid/v1/chat/completions", GOOD)
    monkeypatch.setenv("http_proxy", server.place)
    assert play("http://nobody.invalid/v1", one).raw == GOOD.body.decode()
    monkeypatch.setenv("http_proxy", f"socks5://me:{KEY}@127.0.0.1:1080")
    with pytest.raises(BadChoice, match="expected an HTTP proxy in the environment's http_proxy") as caught:
        play("http://nobody.invalid/v1", one)
    assert "canary" not in str(caught.value)


def test_a_proxy_that_refuses_is_said(server):
    server.on(PATH, Reply(407))
    with pytest.raises(Unavailable) as caught:
        play("http://nobody.invalid/v1", one, proxy=server.url(""))
    assert caught.value.kind in ("auth", "missing")


@pytest.fixture
def certificate(tmp_path):
    """A certificate for 127.0.0.1 that nobody vouches for but itself, and its key."""
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=here"
    extension = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]]
    try:
        subprocess.run([*command.split(), *extension], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here to make a certificate with")
    return files


@pytest.fixture
def tls_server(server, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server._listener.socket = context.wrap_socket(server._listener.socket, server_side=True)
    server.on(PATH, GOOD)
    return f"https://{server.place}/v1"


def test_a_server_is_trusted_by_the_file_of_its_authority(tls_server, certificate):
    assert play(tls_server, one, ca=str(certificate[0])).raw == GOOD.body.decode()


def test_a_server_that_nobody_vouches_for_gets_no_key_and_the_file_is_asked_for(tls_server, server):
    with pytest.raises(Unavailable) as caught:
        play(tls_server, one, key=KEY)
    assert "found a certificate that nobody here vouches for" in str(caught.value)
    assert str(caught.value).endswith("Name the file of its authority.")
    assert (caught.value.final, server.seen) == (True, [])


@pytest.mark.parametrize("text", [None, "", "no certificate"])
def test_a_file_that_is_no_certificate_is_said_before_any_call(tmp_path, text):
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadChoice, match="PEM certificates") as caught:
        chat(Settings("m", "https://example.org/v1", ca=str(path)))
    assert str(path) in str(caught.value)


# Keys


def test_the_key_goes_into_one_header_only(server, tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server.on(PATH, GOOD)
    play(server.url("/v1"), one, key=KEY)
    (seen,) = server.seen
    headers = dict(seen.headers)
    assert headers.pop("authorization") == f"Bearer {KEY}"
    assert KEY not in str((seen.path, headers, seen.body))
    play(server.url("/v1"), one)
    assert "authorization" not in server.seen[1].headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed_with_the_key_in_hand(server, status):
    server.on(PATH, redirect("/there", status))
    server.on("/there", GOOD)
    with pytest.raises(Unavailable):
        play(server.url("/v1"), one, key=KEY)
    assert server.paths() == [PATH]


ECHO = f'{{"error": {{"message": "the key {KEY} is wrong", "code": "{KEY}", "param": "{KEY}"}}}}'.encode()
PADDED = b"x" * 190 + KEY.encode()  # where a text that is cut too early shows half of it


@pytest.mark.parametrize(
    "script",
    [
        *(Reply(status, ECHO) for status in (400, 401, 402, 403, 404, 408, 409, 413, 418, 422, 429, 500, 501, 503)),
        *(Reply(status, PADDED) for status in (400, 401, 404, 500)),
        Reply(400, b"\n" * 3990 + KEY.encode()),
        Reply(200, ECHO),
        Reply(200, f"no JSON but {KEY}".encode(), {"Content-Type": f"text/{KEY}"}),
        Reply(200, KEY.encode(), {"Content-Encoding": "gzip"}),
        Reply(200, KEY.encode(), {"Content-Encoding": KEY}),
        Reply(200, f'{{"choices": [{{"error": {{"code": 400, "message": "{KEY}"}}}}]}}'.encode()),
        Reply(429, ECHO, {"Retry-After": "99999"}),
        Reply(429, ECHO, {"Retry-After": KEY}),
        redirect(f"/there?key={KEY}"),
        Reply(200, KEY.encode(), cut=3),
        Reply(200, KEY.encode(), stall=3),
        Reply(200, KEY.encode(), delay=1),
        Reply(200, KEY.encode(), cut=3, reset=True),
        Reply(200, KEY.encode() * 1000),
        Reply(raw=b""),
        Reply(raw=f"HTTP/1.1 401 the key {KEY} is wrong\r\nContent-Length: 0\r\n\r\n".encode()),
        Reply(raw=b"HTTP/1.1 401 " + PADDED + b"\r\nContent-Length: 0\r\n\r\n"),
        Reply(raw=b"HTTP/1.1 500 " + PADDED + b"\r\nContent-Length: 0\r\n\r\n"),
        Reply(raw=f"{KEY} is no HTTP\r\n\r\n".encode()),
        Reply(raw=PADDED[5:] + b" is no HTTP\r\n\r\n"),
        Reply(raw=f"HTTP/1.1 200 OK\r\n{KEY}\r\n\r\n".encode()),
        Reply(raw=f"HTTP/1.1 200 OK\r\nContent-Length: {KEY}\r\n\r\n".encode()),
    ],
    ids=lambda script: str(script.status),
)
def test_a_key_shows_on_no_path_of_failure(server, caplog, script):
    caplog.set_level(logging.DEBUG)
    server.on(PATH, script)

    async def scene(endpoint):
        return [*(await all_of("a")(endpoint)), *(await all_of("b")(endpoint))]

    patience = Patience(attempts=2, first_wait=0.01, longest_wait=1)
    timeout = 0.1 if script.delay or script.stall else 20
    ended = play(server.url("/v1"), scene, key=KEY, patience=patience, timeout=timeout, largest_reply=10_000)
    for error in ended:
        assert isinstance(error, Mistake)
        assert "canary" not in told(error)
    assert "canary" not in caplog.text


def told(error):
    """Return everything that an error tells whoever asks, down to the values in the frames that it went through."""
    said = ""
    while error is not None:
        said += f"{error} {error!r} {error.args} {vars(error)} {pickle.dumps(str(error))!r}"
        walked = traceback.TracebackException.from_exception(error, capture_locals=True)
        for frame in walked.stack:
            if Path(__file__).parent not in Path(frame.filename).parents:  # the tests themselves know it
                said += str(frame.locals)
        error = error.__cause__ or error.__context__
    return said


def test_a_key_shows_in_nothing_that_an_endpoint_is_made_of(server):
    endpoint = chat(Settings("m", server.url("/v1"), key_env="SOME_KEY"), key=KEY)
    assert "canary" not in f"{endpoint!r} {endpoint} {vars(endpoint)} {json.dumps(vars(endpoint), default=repr)}"
    for copied in (pickle.dumps, deepcopy):
        with pytest.raises(TypeError, match="written down"):
            copied(endpoint._key)


@pytest.mark.parametrize(
    "key", [f"{KEY}\n", f"{KEY}\r\nX: y", "sk-canary\u00e9", "\u2026 canary", "canary\0", " canary"]
)
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key):
    with pytest.raises(BadChoice) as caught:
        chat(Settings("m", "http://localhost/v1"), key=key)
    assert "canary" not in told(caught.value)


def test_an_answer_that_says_the_key_is_kept_without_it(server):
    server.on(PATH, as_json({"choices": [{"message": {"content": f"Your key is {KEY}."}}]}))
    reply = play(server.url("/v1"), one, key=KEY)
    assert json.loads(reply.raw)["choices"][0]["message"]["content"] == "Your key is (the key)."


@pytest.mark.parametrize("key", ["x", "EMPTY", "ollama"])
def test_a_dummy_key_changes_no_answer(server, key):
    server.on(PATH, as_json({"choices": [{"message": {"content": "x EMPTY ollama"}}]}))
    assert "x EMPTY ollama" in play(server.url("/v1"), one, key=key).raw


def test_an_address_where_nobody_has_answered_is_tried_a_few_times_and_a_known_one_longer(server):
    patience = Patience(attempts=9, first_wait=0.001, longest_wait=0.002, connect=2.0)
    with pytest.raises(Unavailable, match="found after 4 tries"):
        play(f"http://127.0.0.1:{closed_port()}/v1", lambda endpoint: endpoint(body()), patience=patience)
    server.on(PATH, GOOD, *[Reply(raw=b"")] * 20)

    async def known(endpoint):
        await endpoint(body())
        return await endpoint(body("What?"))

    with pytest.raises(Unavailable, match="found after 9 tries"):
        play(server.url("/v1"), known, patience=patience)
