"""The store: one file of one kind, only ever added to, by whatever tool has it in hand."""

import os
import random
import shutil
import sqlite3
from contextlib import suppress

import pytest

from disks import locked, small_disk
from gatewise.errors import BrokenFile, Mistake
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.entries import Entry
from gatewise.recordings.store import Note, Shelf, Store

ENDPOINT = "http://localhost/v1/chat/completions"


def entry(n=0, raw=None, **more):
    body = {"model": "m", "messages": [{"role": "user", "content": f"number {n} of some more words"}]}
    return Entry.of(Request(ENDPOINT, body, **more), Reply(raw or f"reply {n}", 1e9 + n, 0.5))


def filled(path, count=10):
    store = Store.open(path, 1.0)
    store.commit([entry(n) for n in range(count)])
    store.close()
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "l.sqlite"


@pytest.fixture
def store(path):
    opened = Store.open(path, 0.2)
    yield opened
    opened.close()


# Only ever added to


def test_nothing_is_changed_or_removed_by_any_tool(path):
    filled(path)
    other = sqlite3.connect(path)
    other.execute("INSERT INTO notes (endpoint, model, form) VALUES ('e', 'm', 'f')")
    other.execute("INSERT INTO dictionaries (words) VALUES (x'00')")
    for table in ("entries", "notes", "dictionaries"):
        for statement in (f"UPDATE {table} SET id = 99", f"DELETE FROM {table}"):
            with pytest.raises(sqlite3.IntegrityError, match="only ever added to"):
                other.execute(statement)
    columns = "key, endpoint, body, attempt, kind, raw, digest, started, latency, pack"
    replaced = columns.replace("raw,", "x'00',")
    for values in (f"id, {replaced}", f"id, {replaced.replace('key,', 'zeroblob(32),')}", f"NULL, {replaced}"):
        other.execute(f"INSERT OR REPLACE INTO entries (id, {columns}) SELECT {values} FROM entries WHERE id = 3")
    other.commit()
    other.close()
    again = Store.open(path, 1.0)
    assert [one.raw for one in again.entries()] == [f"reply {n}" for n in range(10)]
    assert list(again.flaws()) == []
    again.close()


def test_a_row_that_is_there_is_passed_over_and_the_rows_beside_it_are_stored(store):
    store.commit([entry(3), entry(70)])
    kept = store.commit([entry(n, f"other {n}") for n in range(120)])
    assert [one.raw for one in kept] == [f"{'reply' if n in (3, 70) else 'other'} {n}" for n in range(120)]
    assert store.count() == store.last() == 120


def test_every_commit_is_on_the_disk(store):
    assert store.rows("PRAGMA synchronous") == [(2,)]
    assert store.rows("PRAGMA journal_mode") == [("wal",)]
    again = store.again()
    assert again.rows("PRAGMA synchronous") == [(2,)]
    again.close()


def test_the_view_shows_calls_for_reading(store):
    store.commit([entry(1, '{"usage": {"cost": 0.5}}'), entry(2, "a \ud800")])
    rows = store.rows("SELECT kind, attempt, started, json_extract(raw, '$.usage.cost') FROM calls LIMIT 1")
    assert rows == [("answer", 0, "2001-09-09 01:46:41", 0.5)]
    key, question = store.rows("SELECT key, json_extract(body, '$.messages[#-1].content') FROM calls LIMIT 1")[0]
    assert (key, question) == (entry(1).key, "number 1 of some more words")


# A copy to ship


def test_a_copy_holds_the_same_calls_packed_in_one_file(path, store, tmp_path):
    entries = [entry(n, f"reply {n} \ud800") for n in range(50)]
    store.commit([*entries, Note("e", "m", "old"), Note("e", "m", "new")])
    store.copy_to(tmp_path / "copy.sqlite")
    assert sorted(os.listdir(tmp_path)) == ["copy.sqlite", "l.sqlite", "l.sqlite-shm", "l.sqlite-wal"]
    copy = Store.open(tmp_path / "copy.sqlite", 1.0, readonly=True)
    assert list(copy.entries()) == sorted(entries, key=lambda one: one.key)
    assert list(copy.notes()) == [Note("e", "m", "new")]
    assert copy.rows("PRAGMA journal_mode") == [("delete",)]
    assert copy.rows("SELECT body, raw FROM calls WHERE body IS NOT NULL OR raw IS NOT NULL") == []
    assert list(copy.flaws()) == []
    assert [copy.checked(row)[1] for row in range(1, 51)] == [""] * 50
    copy.close()


def test_the_same_calls_make_the_same_copy_in_whatever_order_they_came(tmp_path):
    for name, order in (("a", range(40)), ("b", reversed(range(40)))):
        store = Store.open(tmp_path / name, 1.0)
        for n in order:
            store.commit([entry(n)])
        store.copy_to(tmp_path / f"{name}.sqlite")
        store.close()
    assert (tmp_path / "a.sqlite").read_bytes() == (tmp_path / "b.sqlite").read_bytes()


def test_a_copy_that_is_written_to_again_is_a_ledger_like_others(path, store, tmp_path):
    store.commit([entry(1)])
    store.copy_to(tmp_path / "copy.sqlite")
    copy = Store.open(tmp_path / "copy.sqlite", 1.0)
    kept = copy.commit([entry(1, "other"), entry(2)])
    assert [one.raw for one in kept] == ["reply 1", "reply 2"]
    assert {one.raw for one in copy.entries()} == {"reply 1", "reply 2"}
    copy.close()


def test_a_copy_of_nothing_and_a_copy_over_an_old_one(store, tmp_path):
    store.copy_to(tmp_path / "copy.sqlite")
    store.commit([entry(1)])
    store.copy_to(tmp_path / "copy.sqlite")
    copy = Store.open(tmp_path / "copy.sqlite", 1.0, readonly=True)
    assert copy.count() == 1
    copy.close()


# Files that are none


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello, this is text\n" * 100, "found a file of another kind"),
        (b"SQLite format 3\x00" + b"\xff" * 500, "another kind|damaged"),
        (b"{", "found a file of another kind"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_left_as_it_was(path, content, said, readonly):
    path.write_bytes(content)
    with pytest.raises(BrokenFile, match=said):
        Store.open(path, 1.0, readonly=readonly)
    assert path.read_bytes() == content


@pytest.mark.parametrize("readonly", [False, True])
def test_another_database_is_refused_and_left_as_it_was(path, readonly):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE t (x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(BrokenFile, match="found a database of another kind"):
        Store.open(path, 1.0, readonly=readonly)
    assert path.read_bytes() == before


@pytest.mark.parametrize("readonly", [False, True])
def test_a_file_of_a_newer_format_is_refused(path, readonly):
    other = sqlite3.connect(filled(path))
    other.execute("PRAGMA user_version = 2")
    other.close()
    with pytest.raises(BrokenFile, match=r"format 1 .*, found format 2\. Use the gatewise that wrote it"):
        Store.open(path, 1.0, readonly=readonly)


def test_an_empty_file_becomes_a_ledger_but_is_none_to_read(path):
    path.touch()
    with pytest.raises(BrokenFile, match="found an empty file"):
        Store.open(path, 1.0, readonly=True)
    Store.open(path, 1.0).close()
    Store.open(path, 1.0, readonly=True).close()


def test_what_is_no_place_for_a_file_is_said(tmp_path):
    with pytest.raises(BrokenFile, match="found a folder"):
        Store.open(tmp_path, 1.0)
    with pytest.raises(BrokenFile, match=r"expected a folder for the ledger .*, found none"):
        Store.open(tmp_path / "no" / "l.sqlite", 1.0)
    with pytest.raises(BrokenFile, match="found no such file"):
        Store.open(tmp_path / "l.sqlite", 1.0, readonly=True)


@pytest.mark.parametrize("name", ["a b?c#d%41.sqlite", "é\udcff.sqlite", ":memory:", "file:x.sqlite"])
def test_any_name_is_a_name(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filled(tmp_path / name, 3)
    assert os.listdir(tmp_path) == [name]
    again = Store.open(tmp_path / name, 1.0, readonly=True)
    assert again.count() == 3
    again.close()


def test_a_file_cut_short_is_refused(path):
    whole = filled(path, 200).read_bytes()
    for share in (0.1, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(len(whole) * share)])
        for readonly in (True, False):
            with pytest.raises(BrokenFile, match="cut short"):
                Store.open(path, 1.0, readonly=readonly)


def test_no_damage_passes_unseen_and_none_is_more_than_a_mistake(path, tmp_path):
    whole = filled(path, 60).read_bytes()
    store = Store.open(path, 1.0, readonly=True)
    before = {one.key: (one.endpoint, one.body, one.attempt, one.raw) for one in store.entries()}
    store.close()
    chance = random.Random(4)
    broken, seen = tmp_path / "broken.sqlite", 0
    for _ in range(120):
        content = bytearray(whole)
        start = chance.randrange(100, len(content))
        for place in range(start, min(start + chance.choice((1, 1, 8, 400)), len(content))):
            content[place] ^= chance.randrange(1, 256)
        broken.write_bytes(content)
        try:
            store = Store.open(broken, 1.0, readonly=True)
        except Mistake:
            seen += 1
            continue
        found, flaws = {}, list(store.flaws())
        try:
            last = store.last()
        except Mistake:
            last = 60
        for row in range(1, last + 1):
            one, problem = store.checked(row)
            if problem:
                flaws.append(problem)
            else:
                found[one.key] = (one.endpoint, one.body, one.attempt, one.raw)
        try:
            for _ in store.entries():
                pass
        except Mistake:
            assert flaws
        store.close()
        assert found.items() <= before.items()
        assert flaws or found == before
        seen += bool(flaws)
    assert seen > 50


# Where nobody may write, where there is no room, where somebody else is


def test_on_a_read_only_disk_a_ledger_is_read_and_not_opened_to_be_written(tmp_path):
    with small_disk(tmp_path / "disk") as (disk, make_read_only):
        plain = Store.open(filled(disk / "l.sqlite"), 1.0)
        plain.copy_to(disk / "copy.sqlite")
        plain.close()
        make_read_only()
        for name in ("l.sqlite", "copy.sqlite"):
            store = Store.open(disk / name, 1.0, readonly=True)
            assert store.count() == 10
            store.close()
            with pytest.raises(BrokenFile, match=r"(may only be read|cannot be opened).* copy the ledger"):
                Store.open(disk / name, 1.0)
        with pytest.raises(BrokenFile, match="cannot be opened there"):
            Store.open(disk / "new.sqlite", 1.0)


def test_a_ledger_that_was_left_in_the_middle_on_a_read_only_disk_is_never_read_without_its_end(tmp_path):
    with small_disk(tmp_path / "disk") as (disk, make_read_only):
        store = Store.open(tmp_path / "l.sqlite", 1.0)
        store.commit([entry(n) for n in range(10)])  # all of it stands in the -wal
        for end in ("", "-wal"):
            shutil.copy(tmp_path / f"l.sqlite{end}", disk)
        store.close()
        make_read_only()
        with pytest.raises(BrokenFile, match="with the -wal beside it, to where you may write"):
            Store.open(disk / "l.sqlite", 1.0, readonly=True)


def test_a_ledger_is_read_while_it_is_written(path, store):
    store.commit([entry(1)])
    reader = Store.open(path, 1.0, readonly=True)
    assert reader.count() == 1
    store.commit([entry(2)])
    assert reader.count() == 2
    reader.close()


def test_where_there_is_no_room_nothing_is_stored_and_all_that_was_stored_stays(tmp_path):
    with small_disk(tmp_path / "disk") as (disk, _):
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * (256 << 10))
        store = Store.open(disk / "l.sqlite", 1.0)
        done = 0
        with suppress(BrokenFile):
            for done in range(1000):
                store.commit([entry(done, f"{done} " * 2000), entry(-1 - done)])
        assert 0 < done < 999
        with pytest.raises(BrokenFile, match=r"no room left.*not marked as stored\. Make room"):
            store.commit([entry(done, f"{done} " * 2000), entry(-1 - done)])
        assert store.count() == 2 * done
        with pytest.raises(BrokenFile, match="no room left"):
            store.copy_to(disk / "copy.sqlite")
        assert sorted(os.listdir(disk)) == ["ballast", "l.sqlite", "l.sqlite-shm", "l.sqlite-wal"]
        ballast.unlink()
        store.commit([entry(done)])
        assert (store.count(), list(store.flaws())) == (2 * done + 1, [])
        store.close()


def test_a_lock_of_another_process_is_waited_for_and_then_named(path):
    filled(path)
    with locked(path):
        with pytest.raises(BrokenFile, match=r"l\.sqlite, found it locked by another process for 0\.1 s\. Let the"):
            Store.open(path, 0.1)
        reader = Store.open(path, 0.1, readonly=True)  # readers are not kept out
        assert reader.count() == 10
        reader.close()
    Store.open(path, 0.1).close()


def test_a_file_that_was_moved_or_replaced_is_not_written_into(path, store, tmp_path):
    store.commit([entry(1)])
    path.rename(tmp_path / "moved.sqlite")
    for _ in range(2):
        with pytest.raises(BrokenFile, match=r"moved, deleted or replaced while in use.*put it back"):
            store.commit([entry(2)])
        with pytest.raises(BrokenFile, match="moved, deleted or replaced"):
            store.again()
        assert not path.exists()
    (tmp_path / "moved.sqlite").rename(path)
    store.commit([entry(2)])
    assert store.count() == 2


# The shelf


def test_a_shelf_keeps_the_first_reply_of_a_key_and_counts_what_nobody_took():
    with Shelf() as shelf:
        assert [shelf.add("a", "1"), shelf.add("a", "2"), shelf.add("b\ud800", "\ud800")] == [True, False, True]
        assert len(list(shelf.rest())) == 2
        assert shelf.take(["a", "c"]) == {"a": "1"}
        assert len(list(shelf.rest())) == 1
        assert shelf.take(["a", "b\ud800"]) == {"a": "1", "b\ud800": "\ud800"}
        assert list(shelf.rest()) == []
