"""The ledger: every paid reply, once, in one SQLite file that is only ever added to. SQLite lives here only.

A row is one call: what was asked, of whom, which attempt it was, and what came back, verbatim. Its key is the hash of
the first three, so that whoever is about to ask can look first. Replies arrive from many tasks and are written by one
thread: while a commit is on its way to the disk, whatever comes in gathers, and goes with the next one.
"""

import asyncio
import hashlib
import json
import queue
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gatewise.errors import BadChoice, BrokenFile, Mistake, shown
from gatewise.recordings.calls import Reply, Request, as_sent, key_of

APPLICATION = 0x67617465  # "gate", by which `file` and we know the file
FORMAT = 1
PATIENCE = 60.0  # seconds to wait for another process's lock

_SCHEMA = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    endpoint TEXT NOT NULL,
    body TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    kind TEXT NOT NULL,
    raw BLOB NOT NULL,
    digest BLOB NOT NULL,
    started REAL,
    latency REAL
);
CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    form TEXT NOT NULL
);
CREATE TRIGGER entries_keep_the_first BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE key = NEW.key OR id = NEW.id)
BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER entries_never_change BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'a ledger is only ever added to'); END;
CREATE TRIGGER entries_never_go BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'a ledger is only ever added to'); END;
CREATE TRIGGER notes_never_change BEFORE UPDATE ON notes
BEGIN SELECT RAISE(ABORT, 'a ledger is only ever added to'); END;
CREATE TRIGGER notes_never_go BEFORE DELETE ON notes
BEGIN SELECT RAISE(ABORT, 'a ledger is only ever added to'); END;
CREATE VIEW calls AS SELECT id, lower(hex(key)) AS key, endpoint, json_extract(body, '$.model') AS model, kind,
    attempt, body, CAST(raw AS TEXT) AS raw, datetime(started, 'unixepoch') AS started, latency FROM entries;
"""
_COLUMNS = "key, endpoint, body, attempt, kind, raw, started, latency"


@dataclass(frozen=True, slots=True)
class Entry:
    """One call as the ledger keeps it."""

    key: str
    endpoint: str
    body: str  # as sent
    attempt: int
    kind: str
    raw: str
    started: float | None
    latency: float | None

    @classmethod
    def of(cls, request: Request, reply: Reply) -> Self:
        """Return the entry of a request and its reply."""
        text = request.text
        key = key_of(request.endpoint, text, request.attempt)
        given = (request.attempt, request.kind, reply.raw, reply.started, reply.latency)
        return cls(key, request.endpoint, text, *given)


@dataclass(frozen=True, slots=True)
class _Note:
    endpoint: str
    model: str
    form: str


@dataclass(frozen=True)
class Merged:
    """What a merge did: entries added, entries that were here already, and entries that were here and differ."""

    added: int
    known: int
    conflicts: int  # the reply that was here first has stayed


class Ledger:
    """Every paid reply, once. Close it, or use it in a `with`; several processes may share one file."""

    def __init__(self, path: Path, reader: sqlite3.Connection, *, readonly: bool, patience: float) -> None:
        self.path = path
        self.readonly = readonly
        self._reader = reader
        self._patience = patience
        self._inbox: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, path: str | Path, *, readonly: bool = False, patience: float = PATIENCE) -> Self:
        """Return the ledger in a file, a new one where there is none; read-only, it may stand where nobody writes."""
        path = Path(path)
        with _said(path):
            reader = _connection(path, "ro" if readonly else "rwc", patience)
            try:
                _require_ledger(reader, path, create=not readonly)
            except BaseException:
                reader.close()
                raise
        return cls(path, reader, readonly=readonly, patience=patience)

    def close(self) -> None:
        """Write what is still waiting, and close the file."""
        with self._lock:
            self._closed = True
            writer = self._writer
        if writer:
            self._inbox.put(None)
            writer.join()
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, keys: Sequence[str]) -> dict[str, Entry]:
        """Return the entries that are here, by key."""
        found: dict[str, Entry] = {}
        with _said(self.path):
            for start in range(0, len(keys), 500):
                few = [bytes.fromhex(key) for key in keys[start : start + 500]]
                marks = ",".join("?" * len(few))
                query = f"SELECT {_COLUMNS} FROM entries WHERE key IN ({marks})"  # noqa: S608 -- question marks
                for row in self._reader.execute(query, few):
                    entry = _entry(row)
                    found[entry.key] = entry
        return found

    async def put(self, request: Request, reply: Reply) -> Entry:
        """Return what is on the disk for a request after the commit: this reply, or the one that came first."""
        entry = Entry.of(request, reply)
        _require_keyless(entry.endpoint)
        loop = asyncio.get_running_loop()
        item = _Item(entry, loop.create_future(), loop)
        self._submit(item)
        kept: Entry = await item.future
        return kept

    def note(self, endpoint: str, form: str, *, model: str = "") -> None:
        """Keep what was found out about an endpoint's model: how it wants to be asked."""
        _require_keyless(endpoint)
        item = _Item(_Note(endpoint, model, form), Future(), None)
        self._submit(item)
        item.future.result()

    def noted(self, endpoint: str, *, model: str = "") -> str | None:
        """Return the newest note about an endpoint's model, if there is one."""
        with _said(self.path):
            query = "SELECT form FROM notes WHERE endpoint = ? AND model = ? ORDER BY id DESC LIMIT 1"
            row = self._reader.execute(query, (endpoint, model)).fetchone()
        return row and str(row[0])

    def __len__(self) -> int:
        with _said(self.path):
            return int(self._reader.execute("SELECT count(*) FROM entries").fetchone()[0])

    def entries(self, *, by_key: bool = False) -> Iterator[Entry]:
        """Yield every entry, in the order in which they came or by their keys; few are in memory at a time."""
        order = "key" if by_key else "id"
        with (
            _said(self.path),
            closing(self._reader.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY {order}")) as rows,  # noqa: S608
        ):
            for row in rows:
                yield _entry(row)

    def merge(self, other: "Ledger | Iterable[Entry]") -> Merged:
        """Add another ledger's entries, or exported ones, and say what happened; merging again changes nothing."""
        added = known = conflicts = 0
        entries = other.entries() if isinstance(other, Ledger) else iter(other)
        for few in _pieces(entries):
            before = self.find([one.key for one in few])
            items = []
            for entry in few:
                _require_keyless(entry.endpoint)
                items.append(_Item(entry, Future(), None))
                self._submit(items[-1])
            for entry, item in zip(few, items, strict=True):
                kept: Entry = item.future.result()
                conflicts += kept.raw != entry.raw
                new = entry.key not in before and kept.raw == entry.raw
                added += new
                known += not new and kept.raw == entry.raw
        return Merged(added, known, conflicts)

    # Writing

    def _submit(self, item: "_Item") -> None:
        with self._lock:
            if self._closed:
                raise BadChoice("expected an open ledger, found it closed. Write before it is closed.")
            if self.readonly:
                raise BadChoice(f"expected a ledger to write to, found {self.path} opened to be read. Open a copy.")
            if not self._writer:
                self._writer = threading.Thread(target=self._write, name="gatewise-ledger", daemon=True)
                self._writer.start()
            self._inbox.put(item)

    def _write(self) -> None:
        """Commit whatever has gathered, until the end."""
        connection: sqlite3.Connection | None = None
        last = False
        while not last:
            items, last = self._gathered()
            try:
                with _said(self.path):
                    connection = connection or _connection(self.path, "rw", self._patience)
                    outcomes = _commit(connection, [item.what for item in items])
            except Mistake as mistake:
                _settle(items, mistake)
            except BaseException as error:
                _settle(items, BrokenFile(f"expected to write {self.path}, found: {shown(str(error))}. Try again."))
                raise
            else:
                _settle(items, outcomes)
        if connection:
            connection.close()

    def _gathered(self) -> tuple[list["_Item"], bool]:
        """Return what is waiting to be written, at least one thing, and whether that was the last."""
        items: list[_Item] = []
        size = 0
        item = self._inbox.get()
        while item is not None:
            items.append(item)
            size += len(item.what.raw) + len(item.what.body) if isinstance(item.what, Entry) else 0
            if size > 1 << 25 or len(items) >= 1000:
                return items, False
            try:
                item = self._inbox.get_nowait()
            except queue.Empty:
                return items, False
        return items, True


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    """Something to write, and who waits for it."""

    what: Entry | _Note
    future: Any  # of asyncio with its loop, else of a thread
    loop: asyncio.AbstractEventLoop | None


def _settle(items: Sequence[_Item], outcomes: Sequence[Entry | None] | Mistake) -> None:
    """Tell everybody who waits how it went; one message an event loop."""
    loops: dict[asyncio.AbstractEventLoop | None, list[tuple[Any, Entry | None]]] = {}
    kept = [None] * len(items) if isinstance(outcomes, Mistake) else outcomes
    for item, one in zip(items, kept, strict=True):
        loops.setdefault(item.loop, []).append((item.future, one))
    error = outcomes if isinstance(outcomes, Mistake) else None

    def tell(waiting: list[tuple[Any, Entry | None]]) -> None:
        for future, one in waiting:
            if future.done():  # whoever waited has been cancelled; what was written stays
                continue
            if error:
                future.set_exception(type(error)(*error.args))
            else:
                future.set_result(one)

    for loop, waiting in loops.items():
        if loop is None:
            tell(waiting)
        else:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(tell, waiting)


def _commit(connection: sqlite3.Connection, things: Sequence[Entry | _Note]) -> list[Entry | None]:
    """Write things in one transaction; return what is kept for each entry: itself, or what came before it."""
    first: dict[str, Entry] = {}
    for one in things:
        if isinstance(one, Entry):
            first.setdefault(one.key, one)
    rows = [_row(entry) for entry in first.values()]
    connection.execute("BEGIN IMMEDIATE")
    try:
        for start in range(0, len(rows), 50):  # in one statement, so that the interpreter's lock changes hands rarely
            few = rows[start : start + 50]
            marks = ",".join(["(?,?,?,?,?,?,?,?,?)"] * len(few))
            columns = "key, endpoint, body, attempt, kind, raw, digest, started, latency"
            statement = f"INSERT OR IGNORE INTO entries ({columns}) VALUES {marks}"  # noqa: S608 -- question marks
            added = connection.execute(statement, [value for row in few for value in row]).rowcount
            if added != len(few):
                for row in few:
                    query = f"SELECT {_COLUMNS} FROM entries WHERE key = ?"  # noqa: S608
                    entry = _entry(connection.execute(query, row[:1]).fetchone())
                    first[entry.key] = entry
        for one in things:
            if isinstance(one, _Note):
                statement = "INSERT INTO notes (endpoint, model, form) VALUES (?, ?, ?)"
                connection.execute(statement, (one.endpoint, one.model, one.form))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return [first[one.key] if isinstance(one, Entry) else None for one in things]


def _row(entry: Entry) -> tuple[Any, ...]:
    raw = entry.raw.encode("utf-8", "surrogatepass")
    key, digest = bytes.fromhex(entry.key), hashlib.sha256(raw).digest()
    return (key, entry.endpoint, entry.body, entry.attempt, entry.kind, raw, digest, entry.started, entry.latency)


def _entry(row: tuple[Any, ...]) -> Entry:
    key, endpoint, body, attempt, kind, raw, started, latency = row
    return Entry(key.hex(), endpoint, body, attempt, kind, raw.decode("utf-8", "surrogatepass"), started, latency)


def _pieces(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    few: list[Entry] = []
    size = 0
    for entry in entries:
        few.append(entry)
        size += len(entry.raw) + len(entry.body)
        if size > 1 << 22 or len(few) == 500:
            yield few
            few, size = [], 0
    if few:
        yield few


def _require_keyless(endpoint: str) -> None:
    """Raise where an endpoint's name could hold a key; the name itself is not shown."""
    scheme, found, rest = endpoint.partition("://")
    if found and ("?" in rest or "#" in rest or "@" in rest.partition("/")[0]):
        raise BadChoice(
            f"expected the name of an endpoint without user, key or query, found one with them ({scheme}://…). "
            "Name the address alone."
        )


# The file


def _connection(path: Path, mode: str, patience: float) -> sqlite3.Connection:
    if mode == "ro":
        mode += _immutable(path)
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, patience, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def _immutable(path: Path) -> str:
    """Return what opens a file that nobody writes to without any file beside it: one outside write-ahead mode."""
    with path.open("rb") as stream:
        head = stream.read(20)
    return "&immutable=1" if head[18:20] == b"\x01\x01" else ""


def _require_ledger(connection: sqlite3.Connection, path: Path, *, create: bool) -> None:
    """Raise unless a file is a ledger that we can read; make it one where it is empty."""
    if create and _nature(connection) == (0, 0, 0):
        _until_unlocked(lambda: connection.execute("PRAGMA journal_mode = WAL"), PATIENCE)
        connection.execute("BEGIN IMMEDIATE")
        if _nature(connection) == (0, 0, 0):  # else another process was faster
            for statement in _statements(_SCHEMA):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    application, version, _ = _nature(connection)
    if application != APPLICATION:
        raise BrokenFile(
            f"expected a ledger in {path}, found a database of another kind. Name the ledger, or a new file."
        )
    if version != FORMAT:
        raise BrokenFile(
            f"expected a ledger of format {FORMAT} in {path}, found format {version}. Use a gatewise that knows it."
        )
    if create:
        _until_unlocked(lambda: connection.execute("PRAGMA journal_mode = WAL"), PATIENCE)


def _nature(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return application, format and number of things in the schema."""
    ask = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
    application, version, things = (int(connection.execute(one).fetchone()[0]) for one in ask)
    return application, version, things


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script one by one, so that all run in one transaction."""
    held = ""
    for line in script.splitlines():
        held += line + "\n"
        if held.strip() and sqlite3.complete_statement(held):
            yield held
            held = ""


def _until_unlocked(act: Any, patience: float) -> None:
    """Do what SQLite refuses at once, without waiting, while another process is at it."""
    end = time.monotonic() + patience
    while True:
        try:
            act()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Turn what SQLite says into what was expected, what was found and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        found, remedy = _REASONS.get(code, (shown(str(error)), "Check the file and its folder."))
        raise BrokenFile(f"expected a ledger in {path}, found {found}. {remedy}") from None
    except OSError as error:
        raise BrokenFile(f"expected a ledger in {path}, found: {error.strerror}. Check the path.") from None


_REASONS = {
    sqlite3.SQLITE_FULL: (
        "no room on the disk",
        "What was not stored is not marked as stored. Make room and run the same command again.",
    ),
    sqlite3.SQLITE_IOERR: (
        "that the disk refuses to read or write (full, over its quota, or failing)",
        "What was not stored is not marked as stored. Make room or check the disk, and run the same command again.",
    ),
    sqlite3.SQLITE_BUSY: (
        "it locked by another process",
        "Wait until the other one is done, or end it (lsof names it), and run the same command again.",
    ),
    sqlite3.SQLITE_READONLY: (
        "it read-only",
        "Make file and folder writable, or copy the ledger to where you may write.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "that it cannot be opened or made there",
        "Check that the folder exists and can be written to.",
    ),
    sqlite3.SQLITE_NOTADB: ("a file of another kind", "Name the ledger, or a new file."),
    sqlite3.SQLITE_CORRUPT: (
        "it damaged",
        "Run gatewise ledger verify, and merge what can still be read into a new ledger.",
    ),
}


# Lines


def export_lines(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield entries as lines of JSON, in pure ASCII; give them by key, and the same ledger gives the same bytes."""
    for one in entries:
        head = {"key": one.key, "endpoint": one.endpoint, "attempt": one.attempt, "kind": one.kind}
        tail = {"raw": one.raw, "started": one.started, "latency": one.latency}
        yield f'{json.dumps(head)[:-1]}, "body": {one.body}, {json.dumps(tail, allow_nan=False)[1:]}\n'.encode()


def read_lines(lines: Iterable[bytes], name: str = "the file") -> Iterator[Entry]:
    """Yield the entries of exported lines; a line whose key is not that of what it holds is refused."""
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            body = as_sent(row["body"])
            entry = Entry(
                row["key"],
                row["endpoint"],
                body,
                row["attempt"],
                row["kind"],
                row["raw"],
                row["started"],
                row["latency"],
            )
            fits = entry.key == key_of(entry.endpoint, body, entry.attempt) and isinstance(entry.raw, str)
        except (ValueError, KeyError, TypeError, RecursionError):
            fits = False
        if not fits:
            raise BrokenFile(
                f"expected an exported call in line {number:,} of {name}, found something else, or a changed one. "
                "Export the ledger again."
            )
        yield entry
