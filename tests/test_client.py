import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gatewise.errors import BadChoice, Mistake, Unavailable
from gatewise.recordings import client
from gatewise.recordings.client import Patience, download, place_of, post, session
from server import Reply, Server, as_json, closed_port, hosted, redirect

QUICK = Patience(attempts=3, first_wait=0.01, longest_wait=2.0, connect=2.0, silence=0.2)
BODY = bytes(range(256)) * 2000  # 512,000 bytes, no two places within a period alike
OTHER = BODY[::-1]
KEY = "sk-very-secret-0123456789"
DAY = "Mon, 02 Feb 2026 10:00:00 GMT"


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


def left(path):
    """Return the names of what lies in a file's folder."""
    return sorted(one.name for one in path.parent.iterdir())


def starts(server):
    return [one.start for one in server.seen]


# A download arrives whole


def test_a_file_arrives_whole_and_leaves_nothing_beside_it(server, path):
    fetch(server.on("/f", hosted(BODY)), path, size=len(BODY))
    assert path.read_bytes() == BODY
    assert left(path) == ["file.bin"]
    assert len(server.seen) == 1
    assert server.seen[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("script", [hosted(BODY, chunked=True), Reply(200, BODY, length=-1)])
def test_a_file_of_unsaid_length_arrives_whole_with_its_size_known_or_not(server, path, script):
    fetch(server.on("/f", script), path)
    assert path.read_bytes() == BODY
    fetch(server.url("/f"), path, size=len(BODY))
    assert path.read_bytes() == BODY


def test_an_empty_file_arrives(server, path):
    fetch(server.on("/f", hosted(b"")), path, size=0)
    assert path.read_bytes() == b""


def test_a_redirect_of_a_download_is_followed(server, path):
    server.on("/there", hosted(BODY))
    fetch(server.on("/f", redirect("/there", 307)), path)
    assert path.read_bytes() == BODY


def test_progress_counts_up_to_the_whole_and_goes_on_where_a_cut_left_it(server, path):
    counts = []
    url = server.on("/f", hosted(BODY, cuts=[200_000]))
    fetch(url, path, progress=lambda done, total: counts.append((done, total)))
    done = [one for one, _ in counts]
    assert done == sorted(done)
    assert done[-1] == len(BODY)
    assert {total for _, total in counts} == {len(BODY)}


# What was cut off is continued, if it is still the same file


@pytest.mark.parametrize(("tag", "modified"), [('"one"', None), (None, DAY), ('W/"one"', DAY)])
def test_a_cut_download_goes_on_where_it_broke_off(server, path, tag, modified):
    script = hosted(BODY, tag=tag, modified=modified, cuts=[200_000, 100_000])
    fetch(server.on("/f", script), path)
    assert path.read_bytes() == BODY
    assert starts(server) == [None, 200_000, 300_000]
    mark = DAY if modified else tag
    assert [one.headers.get("if-range") for one in server.seen] == [None, mark, mark]


def test_what_an_earlier_run_left_is_continued_by_the_next(server, path):
    url = server.on("/f", hosted(BODY, cuts=[200_000]))
    said = refused(fetch, url, path, patience=Patience(attempts=1))
    assert "200,000 bytes" in said
    assert "after 1 try" in said
    assert not path.exists()
    fetch(url, path)
    assert path.read_bytes() == BODY
    assert starts(server) == [None, 200_000]
    assert left(path) == ["file.bin"]


def test_a_file_that_changed_in_between_is_fetched_anew_never_mixed(server, path):
    server.on("/f", hosted(BODY, cuts=[200_000]), hosted(OTHER, tag='"two"'))
    fetch(server.url("/f"), path)
    assert path.read_bytes() == OTHER
    assert starts(server) == [None, 200_000]


def test_a_server_that_sends_the_rest_of_a_changed_file_makes_no_mixture(server, path):
    def careless(seen):  # looks at Range, never at If-Range
        return hosted(OTHER, tag='"two"')(
            seen if seen.start is None else type(seen)("GET", "/f", {"range": seen.headers["range"]}, b"")
        )

    server.on("/f", hosted(BODY, cuts=[200_000]), careless)
    fetch(server.url("/f"), path)
    assert path.read_bytes() == OTHER
    assert starts(server) == [None, 200_000, None]


def test_a_rest_that_names_no_tag_keeps_the_one_that_is_known(server, path):
    def terse(seen):
        span = f"bytes {seen.start}-{len(BODY) - 1}/{len(BODY)}"
        return Reply(206, BODY[seen.start :], {"Content-Range": span}, cut=50_000)

    server.on("/f", hosted(BODY, cuts=[200_000]), terse, hosted(BODY))
    fetch(server.url("/f"), path)
    assert path.read_bytes() == BODY
    assert starts(server) == [None, 200_000, 250_000]


@pytest.mark.parametrize("tag", ['"one"', None, 'W/"one"'])
def test_a_server_that_knows_no_ranges_is_asked_for_the_whole_again(server, path, tag):
    script = hosted(BODY, tag=tag, ranges=False, cuts=[200_000, 300_000])
    fetch(server.on("/f", script), path)
    assert path.read_bytes() == BODY
    assert starts(server) == ([None, 200_000, 300_000] if tag == '"one"' else [None, None, None])


@pytest.mark.parametrize("tag", ['"one"', None])
def test_a_download_that_never_gets_further_is_given_up(server, path, tag):
    url = server.on("/f", hosted(BODY, tag=tag, ranges=False, cuts=[200_000] * 50))
    said = refused(fetch, url, path)
    assert "broke off after 200,000 bytes" in said
    assert len(server.seen) <= 2 * QUICK.attempts


def test_a_download_that_gets_further_each_time_is_not_given_up(server, path):
    fetch(server.on("/f", hosted(BODY, cuts=[60_000] * 8)), path)
    assert path.read_bytes() == BODY
    assert starts(server) == [None, *range(60_000, 500_000, 60_000)]


def test_a_part_beyond_the_end_of_the_file_is_thrown_away(server, path):
    url = server.on("/f", hosted(BODY))
    path.parent.mkdir()
    path.with_name("file.bin.part").write_bytes(BODY + b"more")
    path.with_name("file.bin.part.json").write_text(json.dumps({"url": url, "tag": '"one"'}))
    fetch(url, path)
    assert path.read_bytes() == BODY
    assert starts(server) == [len(BODY) + 4, None]


def test_a_part_that_was_whole_when_the_process_died_arrives(server, path):
    url = server.on("/f", hosted(BODY))
    path.parent.mkdir()
    path.with_name("file.bin.part").write_bytes(BODY)
    path.with_name("file.bin.part.json").write_text(json.dumps({"url": url, "tag": '"one"'}))
    fetch(url, path, size=len(BODY))
    assert path.read_bytes() == BODY


def test_a_server_that_answers_416_for_ever_is_given_up(server, path):
    said = refused(fetch, server.on("/f", Reply(416)), path)
    assert "the part that is already here" in said


@pytest.mark.parametrize("note", ["", "{", "[]", "7", '{"url": 1}', '{"tag": "\\"one\\""}', '{"url": "x", "tag": 3}'])
def test_a_part_whose_note_cannot_be_trusted_is_not_continued(server, path, note):
    path.parent.mkdir()
    path.with_name("file.bin.part").write_bytes(OTHER[:1000])
    path.with_name("file.bin.part.json").write_text(note)
    fetch(server.on("/f", hosted(BODY)), path)
    assert path.read_bytes() == BODY
    assert starts(server) == [None]


def test_a_part_of_another_address_is_not_continued(server, path):
    refused(fetch, server.on("/a", hosted(BODY, cuts=[1000])), path, patience=Patience(attempts=1))
    fetch(server.on("/b", hosted(OTHER)), path)
    assert path.read_bytes() == OTHER
    assert starts(server) == [None, None]


@pytest.mark.parametrize("span", ["bytes 7-9/10", "bytes */10", "", "lines 0-3/4", "bytes x-y/z"])
def test_another_part_than_was_asked_for_is_not_taken(server, path, span):
    server.on("/f", hosted(BODY, cuts=[200_000]), Reply(206, b"xyz", {"Content-Range": span}), hosted(BODY))
    fetch(server.url("/f"), path)
    assert path.read_bytes() == BODY


# Wrong lengths


def test_a_file_of_another_length_than_is_known_is_refused_at_once_before_its_body(server, path):
    said = refused(fetch, server.on("/f", hosted(BODY)), path, size=7)
    assert "expected 7 bytes" in said
    assert "found 512,000" in said
    assert len(server.seen) == 1
    assert not path.exists()


def test_a_body_shorter_than_its_stated_length_is_not_taken(server, path):
    said = refused(fetch, server.on("/f", Reply(200, BODY, length=len(BODY) + 1)), path)
    assert "broke off after 512,000 bytes" in said
    assert not path.exists()


@pytest.mark.parametrize("body", [BODY[:-1], BODY + b"x"])
def test_a_body_of_unsaid_length_that_is_not_the_known_one_is_not_taken(server, path, body):
    said = refused(fetch, server.on("/f", Reply(200, body, chunked=True)), path, size=len(BODY))
    assert "512,000" in said
    assert left(path) in ([], ["file.bin.part.json"])


def test_a_stream_without_end_is_left_once_it_is_longer_than_the_file_can_be(server, path):
    counts = []
    url = server.on("/f", Reply(200, BODY * 20, chunked=True))
    refused(fetch, url, path, size=1000, progress=lambda done, total: counts.append(done))
    assert max(counts, default=0) < len(BODY)
    assert not path.exists()


# What may pass is tried again; what will not is said at once


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_refusal_that_may_pass_is_tried_again(server, path, status):
    fetch(server.on("/f", Reply(status), Reply(status), hosted(BODY)), path)
    assert path.read_bytes() == BODY
    assert len(server.seen) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_a_refusal_that_will_not_pass_is_said_at_once(server, path, status):
    said = refused(fetch, server.on("/f", Reply(status, b"no such file")), path)
    assert f"HTTP {status}" in said
    assert server.url("/f") in said
    assert said.endswith("Choose another source.")
    assert len(server.seen) == 1
    assert left(path) == []


def test_patience_ends_and_the_message_says_after_how_many_tries_and_why(server, path):
    said = refused(fetch, server.on("/f", Reply(503)), path)
    assert f"expected {server.url('/f')}, found after 3 tries: HTTP 503 Service Unavailable" in said
    assert said.endswith("Try again later.")
    assert len(server.seen) == 3


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


def test_silence_is_cut_short_and_the_download_goes_on(server, path):
    def stalling(seen):
        reply = hosted(BODY)(seen)
        return Reply(reply.status, reply.body, reply.headers, stall=200_000)

    server.on("/f", stalling, hosted(BODY))
    fetch(server.url("/f"), path)
    assert path.read_bytes() == BODY
    assert starts(server) == [None, 200_000]


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


def test_nobody_at_home_is_said_with_the_place(path):
    url = f"http://127.0.0.1:{closed_port()}/f"
    said = refused(fetch, url, path)
    assert url in said
    assert "after 3 tries" in said


@pytest.mark.parametrize("script", [{"/f": "/f"}, {"/f": "/g", "/g": "/f"}])
def test_a_redirect_loop_is_left_and_said_once(server, path, script):
    for place, target in script.items():
        server.on(place, redirect(target))
    said = refused(fetch, server.url("/f"), path)
    assert server.url("/f") in said
    assert "redirects" in said
    assert len(server.seen) <= 11


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/f", "http://", "http://[::1", "gopher:x"])
def test_a_redirect_to_no_web_address_is_not_followed(server, path, place):
    said = refused(fetch, server.on("/f", redirect(place)), path)
    assert "address" in said
    assert len(server.seen) == 1
    assert not path.exists()


@pytest.mark.parametrize("url", ["", "nowhere", "/f", "http://", "file:///etc/passwd", "http://[::1/f", "ftp://h/f"])
def test_what_is_no_web_address_is_said_at_once(path, url):
    for call in (lambda: fetch(url, path), lambda: ask(url)):
        began = time.monotonic()
        assert "address" in refused(call)
        assert time.monotonic() - began < 1


def test_a_place_that_cannot_be_written_is_said(server, tmp_path):
    (tmp_path / "taken").write_text("a file, no folder")
    said = refused(fetch, server.on("/f", hosted(BODY)), tmp_path / "taken" / "file.bin")
    assert str(tmp_path / "taken") in said
    assert said.endswith("Choose another place.")
    assert server.seen == []


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


def test_waits_double_up_to_the_longest_and_never_vanish(server, monkeypatch):
    waits = []

    async def note(seconds):
        waits.append(seconds)

    monkeypatch.setattr(client.asyncio, "sleep", note)
    patience = Patience(attempts=9, first_wait=1, longest_wait=20, silence=2)
    refused(ask, server.on("/v", Reply(500)), patience=patience)
    bounds = [1, 2, 4, 8, 16, 20, 20, 20]
    assert len(waits) == len(bounds)
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))


def test_a_cancelled_download_leaves_a_part_that_goes_on(server, path):
    def slow(seen):
        reply = hosted(BODY)(seen)
        return Reply(reply.status, reply.body, reply.headers, stall=200_000)

    async def interrupted():
        reached = asyncio.Event()
        task = asyncio.create_task(
            download(url, path, patience=Patience(), progress=lambda done, _: done == 200_000 and reached.set())
        )
        await asyncio.wait_for(reached.wait(), 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    url = server.on("/f", slow, hosted(BODY))
    asyncio.run(interrupted())
    fetch(url, path)
    assert path.read_bytes() == BODY
    assert starts(server) == [None, 200_000]
