"""The ledger, on real files and in real processes: what is acknowledged is on the disk, once, and stays as it was."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
import tracemalloc
from collections import Counter

import pytest

from disks import locked, small_disk
from gatewise.errors import BadChoice, BrokenFile
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.ledger import Flaw, Ledger, Merged
from gatewise.recordings.store import Store

ENDPOINT = "http://localhost/v1/chat/completions"


def request(n=0, **more):
    return Request(ENDPOINT, {"model": "m", "messages": [{"role": "user", "content": f"number {n}"}]}, **more)


def put_all(ledger, pairs, at_once=64):
    """Put all pairs, some at once; return what is kept, or the mistake, of each."""

    async def run():
        gate = asyncio.Semaphore(at_once)

        async def one(asked, said):
            async with gate:
                return await ledger.put(asked, Reply(said, 1e9, 0.5))

        return await asyncio.gather(*(one(*pair) for pair in pairs), return_exceptions=True)

    return asyncio.run(run())


def fill(path, numbers, text="reply"):
    with Ledger.open(path) as ledger:
        put_all(ledger, [(request(n), f"{text} {n}") for n in numbers])
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "l.sqlite"


def test_what_was_put_is_found_after_closing_and_opening_again(path):
    fill(path, range(1200))
    with Ledger.open(path) as ledger:
        keys = [request(n).key for n in range(1300)]
        found = ledger.find(keys)
        assert list(map(found.get, keys[1200:])) == [None] * 100
        assert [found[key].raw for key in keys[:1200]] == [f"reply {n}" for n in range(1200)]
        one = found[keys[7]]
        assert (one.body, one.attempt, one.kind) == (request(7).text, 0, "answer")
        assert (one.started, one.latency) == (1e9, 0.5)
        assert len(ledger) == 1200
        assert ledger.find([]) == {}


def test_the_first_reply_wins_and_is_what_put_returns(path):
    with Ledger.open(path) as ledger:
        kept = put_all(ledger, [(request(1), "a"), (request(1), "b"), (request(2), "c"), (request(1).again(), "d")])
        assert [one.raw for one in kept] == ["a", "a", "c", "d"]
        assert [one.raw for one in put_all(ledger, [(request(1), "e")])] == ["a"]
        assert [one.raw for one in ledger.entries()] == ["a", "c", "d"]


def test_two_ledgers_of_one_file_agree_on_the_first_reply(path):
    with Ledger.open(path) as one, Ledger.open(path) as other:
        put_all(one, [(request(1), "a")])
        assert other.find([request(1).key])[request(1).key].raw == "a"
        assert put_all(other, [(request(1), "b")])[0].raw == "a"


def test_replies_that_come_while_a_commit_is_on_its_way_go_together(path, monkeypatch):
    groups = []
    commit = Store.commit
    monkeypatch.setattr(Store, "commit", lambda self, things: (groups.append(len(things)), commit(self, things))[1])
    with Ledger.open(path) as ledger:
        put_all(ledger, [(request(n), "x") for n in range(2000)], at_once=500)
    assert sum(groups) == 2000
    assert len(groups) < 200


def test_a_large_reply_and_a_large_body_and_any_text_come_back(path):
    raw = "é" * (5 << 20) + " \ud800 \udfff \x00 \u202e 😀 \r\n"
    asked = Request(ENDPOINT, {"text": "\ud800 \x00 \u202e" + "x" * (1 << 20)})
    with Ledger.open(path) as ledger:
        put_all(ledger, [(asked, raw)])
        (entry,) = ledger.entries()
        assert entry.raw == raw
        assert json.loads(entry.body) == asked.body
        assert list(ledger.verify()) == []


def test_an_endpoint_that_could_hold_a_key_is_refused_before_anything_is_written(path):
    with Ledger.open(path) as ledger:
        for name in ("https://me:canary@h/v1", "https://h/v1?key=canary"):
            (mistake,) = put_all(ledger, [(Request(name, {}), "x")])
            assert isinstance(mistake, BadChoice)
            with pytest.raises(BadChoice, match="without user, key or query"):
                ledger.note(name, "form")
        assert len(ledger) == 0
    assert b"canary" not in path.read_bytes()


def test_notes_are_kept_by_endpoint_and_model_and_the_newest_counts(path):
    with Ledger.open(path) as ledger:
        assert ledger.noted("e") is None
        ledger.note("e", "one", model="m")
        ledger.note("e", "two", model="m")
        ledger.note("e", "three")
    with Ledger.open(path, readonly=True) as ledger:
        assert (ledger.noted("e", model="m"), ledger.noted("e"), ledger.noted("f")) == ("two", "three", None)


def test_a_note_is_written_from_within_a_running_loop(path):
    async def run(ledger):
        putting = asyncio.ensure_future(ledger.put(request(1), Reply("x", None, None)))
        await asyncio.sleep(0)
        ledger.note("e", "form")
        await putting

    with Ledger.open(path) as ledger:
        asyncio.run(run(ledger))
        assert (ledger.noted("e"), len(ledger)) == ("form", 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_cannot_be_written_at_all_is_told_and_the_next_reply_is_written(path):
    with Ledger.open(path) as ledger:
        odd = [(Request(ENDPOINT, {"n": n}, attempt=1 << 70), "x") for n in range(40)]
        assert all("found: 'Python int too large" in str(one) for one in put_all(ledger, odd))
        assert put_all(ledger, [(request(1), "x")])[0].raw == "x"
        assert len(ledger) == 1


# Ends


def test_whoever_is_cancelled_leaves_the_reply_in_the_ledger(path):
    async def run(ledger):
        putting = [asyncio.ensure_future(ledger.put(request(n), Reply("x", None, None))) for n in range(50)]
        await asyncio.sleep(0)
        for one in putting[::2]:
            one.cancel()
        return await asyncio.gather(*putting, return_exceptions=True)

    with Ledger.open(path) as ledger:
        ends = asyncio.run(run(ledger))
    assert sum(isinstance(one, asyncio.CancelledError) for one in ends) == 25
    with Ledger.open(path) as ledger:
        assert len(ledger) == 50


def test_closing_writes_what_waits_even_when_the_loop_has_ended(path):
    async def run(ledger):
        for n in range(300):
            asyncio.ensure_future(ledger.put(request(n), Reply("x", None, None)))  # noqa: RUF006
        await asyncio.sleep(0)

    with Ledger.open(path) as ledger:
        asyncio.run(run(ledger))
    with Ledger.open(path) as ledger:
        assert len(ledger) == 300
    assert os.listdir(path.parent) == ["l.sqlite"]


def test_a_closed_ledger_and_one_to_read_take_nothing(path):
    with Ledger.open(path) as ledger:
        pass
    ledger.close()
    (mistake,) = put_all(ledger, [(request(1), "x")])
    assert "found it closed" in str(mistake)
    with Ledger.open(path, readonly=True) as ledger:
        (mistake,) = put_all(ledger, [(request(1), "x")])
        assert "opened to be read. Copy it, and open the copy" in str(mistake)


def test_the_process_may_go_elsewhere_while_the_ledger_is_open(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    with Ledger.open("l.sqlite") as ledger:
        monkeypatch.chdir(tmp_path / "there")
        put_all(ledger, [(request(1), "x")])
        assert ledger.size() > 0
        ledger.require_room(1)
    assert os.listdir() == []


# Memory


def test_entries_stream_and_puts_leave_nothing_behind(path):
    text = "x" * 20_000
    with Ledger.open(path) as ledger:
        put_all(ledger, [(request(-1), text)])
        tracemalloc.start()
        for start in range(0, 1000, 100):
            put_all(ledger, [(request(n), text) for n in range(start, start + 100)], at_once=20)
        left, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert sum(len(one.raw) for one in ledger.entries()) == 1001 * 20_000
        ledger.stats()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert left < 1_000_000
    assert peak - left < 1_000_000


# Merging


def test_merging_is_idempotent_and_counts_conflicts(tmp_path):
    fill(tmp_path / "a", range(700))
    fill(tmp_path / "b", range(500, 1200))
    fill(tmp_path / "c", range(1190, 1210), "otherwise")
    with Ledger.open(tmp_path / "a") as one, Ledger.open(tmp_path / "b") as other, Ledger.open(tmp_path / "c") as odd:
        other.note("e", "form", model="m")
        assert one.merge(other) == Merged(added=500, known=200, conflicts=0)
        assert one.merge(other) == Merged(added=0, known=700, conflicts=0)
        assert one.merge(odd) == Merged(added=10, known=0, conflicts=10)
        assert one.merge(odd.entries()) == Merged(added=0, known=10, conflicts=10)
        assert one.merge(one) == Merged(added=0, known=1210, conflicts=0)
        assert one.notes() == {("e", "m"): "form"}
        assert {entry.raw.split()[0] for entry in one.find([request(n).key for n in range(1200)]).values()} == {
            "reply"
        }


def test_what_stands_twice_in_a_merge_is_added_once(path):
    with Ledger.open(path) as ledger:
        put_all(ledger, [(request(1), "a")])
        twice = list(ledger.entries()) * 2
    with Ledger.open(path.with_name("new")) as ledger:
        assert ledger.merge(twice) == Merged(added=1, known=1, conflicts=0)


def test_a_flaw_names_its_row_and_the_rest_is_sound(path):
    import sqlite3

    fill(path, range(20))
    with Ledger.open(path) as ledger:
        keys = [one.key for one in ledger.entries()]
    other = sqlite3.connect(path)
    other.execute("DROP TRIGGER entries_never_change")
    other.execute("DROP TRIGGER entries_never_go")
    other.execute("UPDATE entries SET body = replace(body, 'number', 'Number') WHERE id = 5")
    other.execute("UPDATE entries SET raw = 7 WHERE id = 6")
    other.execute("UPDATE entries SET pack = 9 WHERE id = 7")
    other.execute("DELETE FROM entries WHERE id = 8")
    other.execute("CREATE TRIGGER odd AFTER INSERT ON notes BEGIN SELECT 1; END")
    other.commit()
    other.close()
    with Ledger.open(path, readonly=True) as ledger:
        flaws = list(ledger.verify())
        assert [(one.row, one.key) for one in flaws if one.row] == [(5, keys[4]), (6, ""), (7, ""), (8, "")]
        assert Flaw(8, "", "it is missing") in flaws
        assert sorted(one.problem.split(",")[0] for one in flaws if not one.row) == [
            "'odd' is no part of a ledger",
            "entries_never_change",
            "entries_never_go",
        ]
        with pytest.raises(BrokenFile, match=r"a value of another type.*Run gatewise ledger verify"):
            list(ledger.entries())
        assert {one.key for one in ledger.sound()} == set(keys) - set(keys[4:8])


# Faults: in each the right sentence, nothing lost, nothing marked as stored


def held_to(ledger, pairs, kept):
    """Assert that exactly what was acknowledged is there."""
    done = {asked.key for (asked, _), one in zip(pairs, kept, strict=True) if not isinstance(one, Exception)}
    assert set(ledger.find([asked.key for asked, _ in pairs])) == done
    return done


def test_a_full_disk_is_told_to_everybody_who_waits_and_nothing_is_marked_as_stored(tmp_path):
    with small_disk(tmp_path / "disk") as (disk, _):
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * (300 << 10))
        with Ledger.open(disk / "l.sqlite", patience=1.0) as ledger:
            with pytest.raises(BrokenFile, match=r"expected 64 MiB of room .* found 0 MiB\. Nothing is lost: make"):
                ledger.require_room()
            pairs = [(request(n), f"{n} " * 2500) for n in range(200)]
            kept = put_all(ledger, pairs, at_once=16)
            done = held_to(ledger, pairs, kept)
            assert 0 < len(done) < 200
            mistakes = [one for one in kept if isinstance(one, Exception)]
            assert {type(one) for one in mistakes} == {BrokenFile}
            assert all(
                "found no room left to write. What was not stored is not marked" in str(one) for one in mistakes
            )
            ballast.unlink()
            assert put_all(ledger, [pairs[-1]])[0].raw == pairs[-1][1]  # there is room again: it goes on
            assert list(ledger.verify()) == []
        with Ledger.open(disk / "l.sqlite", readonly=True) as ledger:
            assert len(ledger) == len(done | {pairs[-1][0].key})


LIMITED = """
import asyncio, resource, sys
from test_ledger import Ledger, put_all, request, held_to
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
with Ledger.open(sys.argv[1]) as ledger:
    pairs = [(request(n), f"{n} " * 2500) for n in range(200)]
    kept = put_all(ledger, pairs, at_once=16)
    done = held_to(ledger, pairs, kept)
    assert 0 < len(done) < 200, len(done)
    print(next(str(one) for one in kept if isinstance(one, Exception)))
"""


def run(code, *arguments):
    here = os.path.dirname(__file__)
    path = os.pathsep.join([here, *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_a_quota_is_like_a_full_disk(path):
    done = run(LIMITED, path)
    assert done.returncode == 0, done.stderr
    assert "found that the disk refuses to be read or written (full, over a quota" in done.stdout
    assert "not marked as stored" in done.stdout
    with Ledger.open(path) as ledger:
        assert list(ledger.verify()) == []


def test_a_short_lock_of_another_process_is_waited_for(path):
    with Ledger.open(path, patience=20.0) as ledger:

        async def hold():
            with locked(path):
                putting = asyncio.ensure_future(ledger.put(request(1), Reply("x", None, None)))
                await asyncio.sleep(0.3)
                assert not putting.done()
                assert ledger.find([request(1).key]) == {}
            return await putting

        assert asyncio.run(hold()).raw == "x"


def test_a_long_lock_is_named_to_everybody_who_waits_and_afterwards_it_goes_on(path):
    with Ledger.open(path, patience=0.2) as ledger:
        pairs = [(request(n), "x") for n in range(30)]
        with locked(path):
            mistakes = put_all(ledger, pairs)
            assert all("found it locked by another process for 0.2 s" in str(one) for one in mistakes)
            held_to(ledger, pairs, mistakes)
        assert held_to(ledger, pairs, put_all(ledger, pairs)) == {asked.key for asked, _ in pairs}


def test_a_ledger_that_is_deleted_while_in_use_is_missed_at_once(path):
    with Ledger.open(path) as ledger:
        put_all(ledger, [(request(1), "x")])
        path.unlink()
        (mistake,) = put_all(ledger, [(request(2), "x")])
        assert "moved, deleted or replaced while in use" in str(mistake)
    assert not path.exists()


# Processes


WRITER = """
import asyncio, os, sys
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.ledger import Ledger

start, step, count, tasks = map(int, sys.argv[2:])

async def work(ledger, numbers):
    for n in numbers:
        request = Request("http://localhost/v1/chat/completions", {"model": "m", "n": n})
        if request.key not in ledger.find([request.key]):
            await ledger.put(request, Reply(f"reply {n} " + "x" * 500, 1.0, 1.0))
            os.write(1, f"{request.key}\\n".encode())

async def main(ledger):
    numbers = iter(range(start, start + count * step, step))
    await asyncio.gather(*(work(ledger, numbers) for _ in range(tasks)))

with Ledger.open(sys.argv[1]) as ledger:
    asyncio.run(main(ledger))
"""


def writer(path, start=0, step=1, count=100_000, tasks=32):
    command = [sys.executable, "-c", WRITER, *map(str, (path, start, step, count, tasks))]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_what_was_acknowledged_is_there_after_each_of_ten_kills(path):
    chance = random.Random(7)
    acknowledged = Counter()
    for _ in range(10):
        one = writer(path)
        first = one.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.25))
        one.kill()
        lines = [first, *one.stdout.read().splitlines(keepends=True)]
        one.stdout.close()
        assert one.wait() == -9
        acknowledged.update(line.decode().strip() for line in lines if line.endswith(b"\n"))
        with Ledger.open(path) as ledger:
            assert set(ledger.find(list(acknowledged))) == set(acknowledged)
    assert len(acknowledged) > 100
    assert max(acknowledged.values()) == 1  # what was acknowledged was found, and not written anew
    with Ledger.open(path, readonly=True) as ledger:
        assert list(ledger.verify()) == []
        assert {one.raw.strip("x") for one in ledger.entries()} == {f"reply {n} " for n in range(len(ledger))}


def test_several_processes_make_and_fill_one_ledger_together(path):
    ours = [writer(path, start, 1, 300, 16) for start in (0, 0, 150, 300)]
    acknowledged = [line for one in ours for line in one.communicate()[0].split()]
    assert [one.returncode for one in ours] == [0] * 4
    with Ledger.open(path, readonly=True) as ledger:
        assert len(ledger) == 600
        assert list(ledger.verify()) == []
        assert set(ledger.find([line.decode() for line in acknowledged])) == {one.key for one in ledger.entries()}
