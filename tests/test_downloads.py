import asyncio
import json

import pytest

from gatewise.errors import Mistake
from gatewise.recordings.downloads import download
from gatewise.recordings.retries import Patience
from server import Reply, Server, closed_port, hosted, redirect

QUICK = Patience(attempts=3, first_wait=0.01, longest_wait=2.0, connect=2.0, silence=0.2)
BODY = bytes(range(256)) * 2000  # 512,000 bytes, no two places within a period alike
OTHER = BODY[::-1]
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


def test_silence_is_cut_short_and_the_download_goes_on(server, path):
    def stalling(seen):
        reply = hosted(BODY)(seen)
        return Reply(reply.status, reply.body, reply.headers, stall=200_000)

    server.on("/f", stalling, hosted(BODY))
    fetch(server.url("/f"), path)
    assert path.read_bytes() == BODY
    assert starts(server) == [None, 200_000]


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


def test_a_place_that_cannot_be_written_is_said(server, tmp_path):
    (tmp_path / "taken").write_text("a file, no folder")
    said = refused(fetch, server.on("/f", hosted(BODY)), tmp_path / "taken" / "file.bin")
    assert str(tmp_path / "taken") in said
    assert said.endswith("Choose another place.")
    assert server.seen == []


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
