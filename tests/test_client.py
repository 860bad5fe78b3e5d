import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gatewise.errors import BadChoice, Mistake, Unavailable
from gatewise.recordings import client
from gatewise.recordings.client import Key, place_of, post, session
from gatewise.recordings.downloads import download
from gatewise.recordings.retries import Patience
from server import Reply, Server, as_json, closed_port, hosted, redirect

QUICK = Patience(attempts=3, first_wait=0.01, longest_wait=2.0, connect=2.0, silence=0.2)
BODY = bytes(range(256)) * 2000  # 512,000 bytes, no two places within a period alike
KEY = "sk-very-secret-0123456789"


@pytest.fixture
def server():
    with Server() as one:
        yield one


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "file.bin"


def fetch(url, path, **settings):
    asyncio.run(download(url, path, **{"patience": QUICK, **settings}))


def ask(url, body=None, *, key="", patience=QUICK):
    async def once():
        async with session(patience) as opened:
            return await post(opened, url, body or {"a": 1}, key=key, patience=patience)

    return asyncio.run(once())


def refused(call, *args, **settings):
    """Return the message of the mistake that a call ends in."""
    with pytest.raises(Mistake) as caught:
        call(*args, **settings)
    return str(caught.value)


def test_a_wait_that_the_server_names_in_seconds_is_kept(server):
    url = server.on("/v", Reply(429, headers={"Retry-After": "0.3"}), as_json({"ok": True}))
    began = time.monotonic()
    assert ask(url) == {"ok": True}
    assert 0.3 <= time.monotonic() - began < 2


def test_a_wait_that_the_server_names_as_a_date_is_kept(server):
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=1), usegmt=True)  # cut to whole seconds
    url = server.on("/v", Reply(503, headers={"Retry-After": soon}), as_json(1))
    assert ask(url) == 1
    assert len(server.seen) == 2


PASSED = "Mon, 02 Jan 2006 10:00:00 GMT"


@pytest.mark.parametrize("value", ["-5", PASSED, "soon", "nan", "", "Mon, 99 Foo 2026 10:00:00 GMT", "²"])
def test_a_wait_that_has_passed_or_makes_no_sense_does_not_hold_up(server, value):
    value = value.encode().decode("latin-1")
    url = server.on("/v", Reply(429, headers={"Retry-After": value}), as_json(1))
    began = time.monotonic()
    assert ask(url) == 1
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("value", ["86400", "1e300", "inf", "Fri, 01 Jan 2100 00:00:00 GMT"])
def test_a_wait_that_is_absurdly_long_is_said_instead_of_waited(server, value):
    began = time.monotonic()
    said = refused(ask, server.on("/v", Reply(429, headers={"Retry-After": value})))
    assert time.monotonic() - began < 1
    assert "HTTP 429" in said
    assert "asks to wait" in said
    assert len(said) < 300
    assert len(server.seen) == 1


def test_silence_without_end_is_given_up(server, path):
    patience = Patience(attempts=2, first_wait=0.01, silence=0.1)
    said = refused(fetch, server.on("/f", Reply(200, BODY, stall=0)), path, patience=patience)
    assert "after 2 tries" in said
    said = refused(ask, server.on("/v", Reply(200, b"{}", stall=1)), patience=patience)
    assert "no answer within 0.1 s" in said


def test_a_server_that_hangs_up_is_tried_again(server, path):
    url = server.on("/f", Reply(raw=b""), Reply(raw=b""), Reply(raw=b""), hosted(BODY))
    fetch(url, path)
    assert path.read_bytes() == BODY
    assert ask(server.on("/v", Reply(raw=b""), as_json(2))) == 2


@pytest.mark.parametrize("url", ["", "nowhere", "/f", "http://", "file:///etc/passwd", "http://[::1/f", "ftp://h/f"])
def test_what_is_no_web_address_is_said_at_once(path, url):
    for call in (lambda: fetch(url, path), lambda: ask(url)):
        began = time.monotonic()
        assert "address" in refused(call)
        assert time.monotonic() - began < 1


# Calls and keys


def test_a_call_sends_its_body_as_json_and_its_key_in_one_header_only(server):
    assert ask(server.on("/v", as_json({"ok": [1]})), {"text": "é\ud800"}, key=KEY) == {"ok": [1]}
    (seen,) = server.seen
    assert seen.method == "POST"
    assert seen.json == {"text": "é\ud800"}
    assert seen.headers.pop("authorization") == f"Bearer {KEY}"
    assert KEY not in str((seen.path, seen.headers, seen.body))
    ask(server.url("/v"))
    assert "authorization" not in server.seen[1].headers


def test_keys_of_another_tool_kept_in_netrc_do_not_take_the_place_of_the_key(server, tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert ask(server.on("/v", as_json(1)), key=KEY) == 1
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_call_never_follows_a_redirect_with_the_key_in_hand(server, status):
    server.on("/there", as_json(1))
    said = refused(ask, server.on("/v", redirect("/there", status)), key=KEY)
    assert "redirect" in said
    assert server.paths() == ["/v"]
    assert KEY not in said


@pytest.mark.parametrize(
    "reply",
    [
        *(Reply(status, KEY.encode()) for status in (400, 401, 402, 403, 404, 418, 429, 500)),
        Reply(200, f"no JSON but {KEY}".encode()),
        Reply(429, headers={"Retry-After": "99999"}),
        redirect(f"/there?key={KEY}"),
        Reply(200, KEY.encode(), cut=3),
        Reply(200, KEY.encode(), stall=3),
        Reply(raw=b""),
        Reply(raw=f"HTTP/1.1 401 the key {KEY} is wrong\r\nContent-Length: 0\r\n\r\n".encode()),
        Reply(raw=f"{KEY} is no HTTP\r\n\r\n".encode()),
    ],
)
def test_a_key_stands_in_no_message_and_in_no_cause(server, reply):
    url = server.on("/v", reply)
    for place in (url, url.replace("http://", f"http://me:{KEY}@"), f"{url}?key={KEY}"):
        with pytest.raises(Unavailable) as caught:
            ask(place, key=KEY, patience=Patience(attempts=2, first_wait=0.01, longest_wait=1, silence=0.1))
        told, error = "", caught.value
        while error is not None:
            told += f"{error} {error!r}"
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        assert KEY not in told
        assert server.place in told


def test_a_key_stands_in_no_message_where_nobody_is_at_home():
    said = refused(ask, f"http://me:{KEY}@127.0.0.1:{closed_port()}/v?key={KEY}", key=KEY)
    assert KEY not in said
    for url in (f"http://me:{KEY}@[::1/v", f"{KEY}", f"file://{KEY}/x", f"http://h:{KEY}/"):
        assert KEY not in refused(ask, url, key=KEY)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nX: y", "sk-pass\u00e9", "\u2026", "a\0b", " x"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(server, key):
    with pytest.raises(BadChoice) as caught:
        ask(server.on("/v", as_json(1)), key=key)
    assert "key" in str(caught.value)
    assert KEY not in str(caught.value)
    assert server.seen == []


@pytest.mark.parametrize(("status", "remedy"), [(401, "key"), (403, "key"), (402, "account"), (404, "address")])
def test_a_refused_call_says_what_to_check(server, status, remedy):
    said = refused(ask, server.on("/v", as_json({"error": "x"}, status)), key=KEY)
    assert said.endswith(f"Check the {remedy}.")
    assert len(server.seen) == 1


def test_a_reply_that_is_no_json_is_asked_for_again(server):
    deep = b"[" * 200_000
    url = server.on("/v", Reply(200, b"<html>busy</html>"), Reply(200, b""), Reply(200, b"\xff{}"), as_json([3]))
    patience = Patience(attempts=5, first_wait=0.01)
    assert ask(url, patience=patience) == [3]
    said = refused(ask, server.on("/w", Reply(200, b'{"a": 1')))
    assert "after 3 tries: a reply that is no JSON" in said
    assert "no JSON" in refused(ask, server.on("/d", Reply(200, deep)))


def test_a_reply_larger_than_memory_should_hold_is_refused(server, monkeypatch):
    monkeypatch.setattr(client, "LARGEST_REPLY", 100_000)
    said = refused(ask, server.on("/v", Reply(200, b'"' + b"x" * 200_000 + b'"')))
    assert "at most 100,000 bytes" in said
    assert len(server.seen) == 1
    assert ask(server.on("/w", Reply(200, b'"' + b"x" * 99_998 + b'"'))) == "x" * 99_998


def test_a_reason_that_a_terminal_would_obey_is_shown_tame(server):
    for raw in (b"HTTP/1.1 404 \x1b[31mred\r\nContent-Length: 0\r\n\r\n", b"\x1b[31mno HTTP at all\r\n\r\n"):
        said = refused(ask, server.on("/v", Reply(raw=raw)))
        assert said.isprintable()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://example.org/v1", "example.org"),
        ("https://me:secret@example.org:8080/v1?key=1", "example.org:8080"),
        ("https://a@b@example.org", "example.org"),
        ("http://[::1]:80/x", "[::1]:80"),
    ],
)
def test_the_place_of_an_address_has_no_user_and_no_query(url, place):
    assert place_of(url) == place


@pytest.mark.parametrize("value", ["sk-canary-0815", 'sk/"canary\\0815'])
def test_a_key_is_hidden_however_json_spells_it(value):
    key = Key(value)
    slashed = json.dumps(value)[1:-1].replace("/", "\\/")
    numbered = "".join(f"\\u{ord(one):04{kind}}" for one, kind in zip(value, "xX" * 20, strict=False))
    for spelled in (value, json.dumps(value)[1:-1], slashed, numbered, value[:3] + numbered[18:]):
        assert key.hide(f'a\\n "{spelled}" b') == 'a\\n "(the key)" b'
    assert key.hide("sk\\u002dnothing\\u0041") == "sk\\u002dnothing\\u0041"
