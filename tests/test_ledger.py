"""The ledger, on real files: what is acknowledged is on the disk, once, and stays as it was."""

import asyncio
import sqlite3

import pytest

from gatewise.errors import BadChoice, BrokenFile
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.entries import export_lines, read_lines
from gatewise.recordings.ledger import Ledger

ENDPOINT = "http://localhost/v1/chat/completions"


def request(n=0, **more):
    return Request(ENDPOINT, {"model": "m", "messages": [{"role": "user", "content": f"number {n}"}], **more})


def put_all(ledger, pairs):
    async def run():
        return await asyncio.gather(*(ledger.put(one, reply) for one, reply in pairs))

    return asyncio.run(run())


def filled(path, count=10):
    with Ledger.open(path) as ledger:
        put_all(ledger, [(request(n), Reply(f"reply {n}", 1e9 + n, 0.5)) for n in range(count)])
    return path


def test_what_was_put_is_found_after_closing_and_opening_again(tmp_path):
    path = filled(tmp_path / "l.sqlite", 1200)
    with Ledger.open(path) as ledger:
        keys = [request(n).key for n in range(1300)]
        found = ledger.find(keys)
        assert list(map(found.get, keys[1200:])) == [None] * 100
        assert [found[key].raw for key in keys[:1200]] == [f"reply {n}" for n in range(1200)]
        one = found[keys[7]]
        assert (one.body, one.attempt, one.kind) == (request(7).text, 0, "answer")
        assert (one.started, one.latency) == (1e9 + 7, 0.5)
        assert len(ledger) == 1200


def test_the_first_reply_wins_and_is_what_put_returns(tmp_path):
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        first, second, other = put_all(
            ledger,
            [
                (request(1), Reply("a", 1.0, 1.0)),
                (request(1), Reply("b", 2.0, 1.0)),
                (request(2), Reply("c", 3.0, 1.0)),
            ],
        )
        (third,) = put_all(ledger, [(request(1), Reply("d", 4.0, 1.0))])
        assert (first.raw, second.raw, third.raw, other.raw) == ("a", "a", "a", "c")
        assert [one.raw for one in ledger.entries()] == ["a", "c"]


def test_nothing_is_changed_or_deleted_by_any_tool(tmp_path):
    path = filled(tmp_path / "l.sqlite")
    other = sqlite3.connect(path)
    for statement in ("UPDATE entries SET raw = x'00'", "DELETE FROM entries WHERE id = 1"):
        with pytest.raises(sqlite3.IntegrityError, match="only ever added to"):
            other.execute(statement)
    other.execute("INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE id = 2")
    other.execute(
        "INSERT OR REPLACE INTO entries SELECT 3, x'00', '', body, 0, kind, raw, digest, 0, 0, NULL FROM entries"
    )
    other.commit()
    other.close()
    with Ledger.open(path) as ledger:
        assert [one.raw for one in ledger.entries()] == [f"reply {n}" for n in range(10)]


def test_an_endpoint_that_could_hold_a_key_is_refused_and_not_shown(tmp_path):
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        for name in ("https://me:canary@h/v1", "https://h/v1?key=canary", "https://h/v1#canary"):
            with pytest.raises(BadChoice, match="without user, key or query") as caught:
                put_all(ledger, [(Request(name, {}), Reply("", 0.0, 0.0))])
            assert "canary" not in str(caught.value)
        put_all(ledger, [(Request("local:m@sha256:00", {}), Reply("", 0.0, 0.0))])


def test_lone_surrogates_survive(tmp_path):
    raw = "a \ud800 \udfff \x00 \u202e é 😀 \r\n"
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        put_all(ledger, [(request(0, text=raw), Reply(raw, 0.0, 0.0))])
        (entry,) = ledger.entries()
        assert entry.raw == raw
        (line,) = export_lines([entry])
        assert line.isascii()
        assert list(read_lines([line])) == [entry]


def test_notes_are_kept_by_endpoint_and_model_and_the_newest_wins(tmp_path):
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        assert ledger.noted("e") is None
        ledger.note("e", "one", model="m")
        ledger.note("e", "two", model="m")
        ledger.note("e", "three")
        assert (ledger.noted("e", model="m"), ledger.noted("e")) == ("two", "three")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello, this is text\n" * 100, "another kind"),
        (b"SQLite format 3\x00" + b"\xff" * 500, "another kind|damaged"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, content, said):
    path = tmp_path / "other"
    path.write_bytes(content)
    for readonly in (False, True):
        with pytest.raises(BrokenFile, match=said):
            Ledger.open(path, readonly=readonly)
    assert path.read_bytes() == content
