import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gatewise.errors import Unavailable
from gatewise.recordings import retries
from gatewise.recordings.retries import Hiccup, Patience, patiently, retry_after


@pytest.fixture
def waits(monkeypatch):
    """Notes what is waited, and does not wait."""
    noted = []

    async def note(seconds):
        noted.append(seconds)

    monkeypatch.setattr(retries.asyncio, "sleep", note)
    return noted


def failing(*hiccups):
    """Return an attempt that fails with each in turn, then with the last for ever."""
    left = list(hiccups)

    async def attempt():
        one = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(one, Exception):
            raise one
        return one

    return attempt


def tried(attempt, **settings):
    return asyncio.run(
        patiently(attempt, Patience(attempts=9, first_wait=1, longest_wait=20), "an answer", **settings)
    )


def test_waits_double_up_to_the_longest_and_never_vanish(waits):
    with pytest.raises(Unavailable):
        tried(failing(Hiccup("busy")))
    bounds = [1, 2, 4, 8, 16, 20, 20, 20]
    assert len(waits) == len(bounds)
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))


def test_waits_differ_from_client_to_client(waits):
    for _ in range(5):
        assert tried(failing(Hiccup("busy"), 1)) == 1
    assert len(set(waits)) == 5


def test_a_wait_that_the_server_names_is_kept_and_none_is_none(waits):
    assert tried(failing(Hiccup("busy", 7.5), Hiccup("moved", 0.0), 1)) == 1
    assert waits == [7.5, 0.0]


def test_a_named_wait_shorter_than_ours_does_not_make_us_hurry(waits):
    assert tried(failing(*[Hiccup("busy", 0.001)] * 4, 1)) == 1
    assert waits[-1] >= 4


def test_a_wait_beyond_patience_is_said_in_place_of_being_waited(waits):
    with pytest.raises(Unavailable, match=r"found: HTTP 429, and asks to wait 86,400 s\. Try again then\.") as caught:
        tried(failing(Hiccup("HTTP 429", 86_400, kind="rate")))
    assert (waits, caught.value.kind, caught.value.final) == ([], "rate", False)


def test_progress_begins_the_count_anew(waits):
    again = [Hiccup("cut", progressed=True)] * 30
    assert tried(failing(*again, 1)) == 1
    assert max(waits) <= 1


def test_no_wait_is_begun_that_ends_too_late(waits):
    def within():
        return asyncio.get_running_loop().time() + 3, 5.0

    with pytest.raises(Unavailable, match="an answer within 5 s, found after 3 tries: busy") as caught:
        tried(failing(Hiccup("busy", 1), Hiccup("busy", 2), Hiccup("busy", 4, kind="server")), within=within)
    assert len(waits) == 2
    assert caught.value.kind == "server"


def test_running_out_of_time_hides_no_reason(waits):
    def within():
        return asyncio.get_running_loop().time(), 5.0

    late = Hiccup("no answer within 0.1 s", kind="timeout", late=True)
    with pytest.raises(Unavailable, match="no answer"):
        tried(failing(late), within=within)
    ends = iter([1e9, 1e9, 0.0])
    with pytest.raises(Unavailable, match="found after 3 tries: busy") as caught:
        tried(failing(Hiccup("odd"), Hiccup("busy", kind="rate"), late), within=lambda: (next(ends), 5.0))
    assert caught.value.kind == "rate"


def test_what_ends_it_carries_nothing_of_what_it_came_from(waits):
    with pytest.raises(Unavailable) as caught:
        tried(failing(TimeoutError("secret")))
    assert caught.value.kind == "timeout"
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


SERVER = datetime(2031, 5, 1, 12, tzinfo=UTC)  # years from our clock


def dated(seconds):
    return format_datetime(SERVER + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"Retry-After": "3"}, 3),
        ({"Retry-After": "0.25"}, 0.25),
        ({"Retry-After": "0"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": dated(30), "Date": dated(0)}, 30),  # by the server's clock, whatever ours says
        ({"Retry-After": dated(-30), "Date": dated(0)}, None),
        ({"Retry-After": "Mon, 02 Jan 2006 10:00:00 GMT"}, None),
        ({"Retry-After": "Mon, 02 Jan 2006 10:00:00 -0000"}, None),
        ({"Retry-After": dated(5), "Date": "yesterday"}, pytest.approx(1e8, rel=1)),
    ],
)
def test_the_wait_that_a_server_asks_for(headers, wait):
    assert retry_after(headers) == wait
