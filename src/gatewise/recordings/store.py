"""The store: a ledger's file. Its schema, its rows, and what SQLite says about it in words. SQLite lives here only.

Nothing in it is ever changed or removed, which triggers see to whatever tool has the file in hand. Every commit is on
the disk when it returns.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from gatewise.errors import BrokenFile, shown
from gatewise.recordings.entries import (
    Entry,
    dictionary_of,
    flaw_of,
    packed,
    raw_bytes,
    raw_digest,
    raw_text,
    unpacked,
)

APPLICATION = 0x67617465  # "gate": what the file says that it is
FORMAT = 1
PATIENCE = 60.0  # seconds to wait for another process's lock

_ADDED_TO = "a ledger is only ever added to"
_SCHEMA = [
    """CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,  -- SHA-256 of endpoint, body and attempt
    endpoint TEXT NOT NULL,
    body NOT NULL,             -- as sent; a blob where packed
    attempt INTEGER NOT NULL,
    kind TEXT NOT NULL,
    raw BLOB NOT NULL,         -- the reply in UTF-8, packed or not
    digest BLOB NOT NULL,      -- SHA-256 of the reply, not packed
    started REAL,              -- seconds since 1970
    latency REAL,              -- seconds
    pack INTEGER               -- the dictionary with which body and reply are packed; null: neither is
)""",
    """CREATE TABLE notes (
    id INTEGER PRIMARY KEY, endpoint TEXT NOT NULL, model TEXT NOT NULL, form TEXT NOT NULL
)""",
    "CREATE TABLE dictionaries (id INTEGER PRIMARY KEY, words BLOB NOT NULL)",
    """CREATE TRIGGER entries_keep_the_first BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE key = NEW.key OR id = NEW.id) BEGIN SELECT RAISE(IGNORE); END""",
    *(
        f"CREATE TRIGGER {table}_never_{word} BEFORE {act} ON {table} BEGIN SELECT RAISE(ABORT, '{_ADDED_TO}'); END"
        for table in ("entries", "notes", "dictionaries")
        for word, act in (("change", "UPDATE"), ("go", "DELETE"))
    ),
    """CREATE VIEW calls AS SELECT
    id, lower(hex(key)) AS key, endpoint, kind, attempt,
    CASE WHEN pack IS NULL THEN body END AS body,
    CASE WHEN pack IS NULL THEN CAST(raw AS TEXT) END AS raw,
    datetime(started, 'unixepoch') AS started, latency
FROM entries""",
]
_COLUMNS = "key, endpoint, body, attempt, kind, raw, digest, started, latency, pack"


@dataclass(frozen=True, slots=True)
class Note:
    """What was found out about an endpoint's model: how it wants to be asked."""

    endpoint: str
    model: str
    form: str


class Store:
    """One connection to a ledger's file."""

    def __init__(self, path: Path, connection: sqlite3.Connection, patience: float) -> None:
        self.path = path
        self.patience = patience
        self.place = path.absolute()
        self._connection = connection
        self._words: dict[int, bytes] = dict(connection.execute("SELECT id, words FROM dictionaries"))
        self._identity = _identity(self.place)

    @classmethod
    def open(cls, path: Path, patience: float, *, readonly: bool = False) -> Self:
        """Return an open ledger file; made, where there is none and it is not only to be read."""
        with _said(path, patience):
            connection = _readable(path, patience) if readonly else _writable(path, patience)
            try:
                return cls(path, connection, patience)
            except BaseException:
                connection.close()
                raise

    def again(self) -> "Store":
        """Return another connection to the same file, for another thread."""
        self._require_in_place()
        with self._saying():
            other = Store(self.path, _connection(self.place, "rw", self.patience), self.patience)
        other.place, other._identity = self.place, self._identity  # wherever the process has gone meanwhile
        return other

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with self._saying(), closing(self._connection.cursor()) as cursor:
            return cursor.execute(query, values).fetchall()

    def find(self, keys: Sequence[str]) -> Iterator[Entry]:
        """Yield the entries of these keys that are here."""
        for start in range(0, len(keys), 500):  # SQLite knows a largest number of variables
            few = [bytes.fromhex(key) for key in keys[start : start + 500]]
            query = f"SELECT {_COLUMNS}, id FROM entries WHERE key IN ({','.join('?' * len(few))})"  # noqa: S608
            for row in self.rows(query, few):
                with self._saying():
                    yield _entry(row, self._words)

    def entries(self, *, by_key: bool = False) -> Iterator[Entry]:
        """Yield every entry, in the order in which they came or by their keys; one is in memory at a time."""
        order = "key" if by_key else "id"
        with self._saying(), closing(self._connection.cursor()) as cursor:
            for row in cursor.execute(f"SELECT {_COLUMNS}, id FROM entries ORDER BY {order}"):  # noqa: S608
                yield _entry(row, self._words)

    def notes(self) -> Iterator[Note]:
        """Yield all notes, in the order in which they came."""
        for row in self.rows("SELECT endpoint, model, form FROM notes ORDER BY id"):
            yield Note(*map(str, row))

    def count(self) -> int:
        """Return how many entries there are."""
        return int(self.rows("SELECT count(*) FROM entries")[0][0])

    def last(self) -> int:
        """Return the row of the newest entry, 0 where there is none."""
        try:
            return int(self.rows("SELECT ifnull(max(id), 0) FROM entries")[0][0])
        except BrokenFile:
            return self.count()  # by the index: the table's own end cannot be read

    def checked(self, row: int) -> tuple[Entry | None, str]:
        """Return the entry of a row, None where it cannot be read, and what is wrong with it, if anything."""
        try:
            found = self.rows(f"SELECT {_COLUMNS}, id FROM entries WHERE id = ?", (row,))  # noqa: S608
            if not found:
                return None, "it is missing"
            entry = _entry(found[0], self._words)
            return entry, flaw_of(entry, found[0][6])
        except (BrokenFile, ValueError) as error:
            return None, f"it cannot be read: {shown(str(error))}"

    def flaws(self) -> Iterator[str]:
        """Yield what is wrong with the file and its schema; rows are checked one by one."""
        try:
            for (line,) in self.rows("PRAGMA integrity_check"):
                if line != "ok":
                    yield f"SQLite says: {shown(' '.join(str(line).split()))}"
        except BrokenFile as mistake:
            yield str(mistake)
        things = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
        try:
            kept = set(self.rows(things))
        except BrokenFile as mistake:
            yield str(mistake)
            return
        with closing(sqlite3.connect(":memory:")) as model:
            for statement in _SCHEMA:
                model.execute(statement)
            made = set(model.execute(things))
        names = {name for name, _ in made}
        yield from (
            f"{name}, which a ledger is made with, is missing or was changed" for name, _ in sorted(made - kept)
        )
        others = sorted(name for name, _ in kept if name not in names and not name.startswith("sqlite_"))
        yield from (f"{shown(name)} is no part of a ledger" for name in others)

    def commit(self, things: Sequence[Entry | Note]) -> list[Entry | None]:
        """Write things in one transaction; return what is kept for each entry: itself, or what came before it."""
        self._require_in_place()
        with self._saying():
            return _commit(self._connection, things, self._words)

    def copy_to(self, path: Path) -> None:
        """Write a small copy to ship: by key, packed, in one file without write-ahead, whole or not at all."""
        _require_file(path, made=True)
        draft = path.absolute().with_name(f".{path.name}.draft")
        words = dictionary_of(self.entries(by_key=True))
        with _said(path, self.patience):
            draft.unlink(missing_ok=True)
            try:
                with closing(sqlite3.connect(_uri(draft, "rwc"), uri=True, isolation_level=None)) as connection:
                    connection.execute("BEGIN")
                    _make(connection)
                    if words:
                        connection.execute("INSERT INTO dictionaries (id, words) VALUES (1, ?)", (words,))
                    for entry in self.entries(by_key=True):
                        connection.execute(_insert(1), _row(entry, words))
                    newest = {(one.endpoint, one.model): one for one in self.notes()}
                    for _, note in sorted(newest.items()):
                        connection.execute(_NOTE, (note.endpoint, note.model, note.form))
                    connection.execute("COMMIT")
                    connection.execute("VACUUM")
                os.replace(draft, path)
            finally:
                draft.unlink(missing_ok=True)

    def _saying(self) -> Any:
        return _said(self.path, self.patience)

    def _require_in_place(self) -> None:
        """Raise where the file has been moved or deleted: SQLite would go on writing into what nobody will find."""
        if _identity(self.place) != self._identity:
            raise BrokenFile(
                f"expected the ledger at {self.path}, found that it was moved, deleted or replaced while in use. "
                "Whatever was acknowledged is in the file that was moved: put it back and run the same command again."
            )


class Shelf:
    """A private place on the disk where replies wait for their requests; gone when it is closed."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        with _said(_SHELF, 0.0):
            self._connection.execute("PRAGMA journal_mode = OFF")
            self._connection.execute("CREATE TABLE replies (key BLOB PRIMARY KEY, raw BLOB, taken INTEGER DEFAULT 0)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Throw away what is there."""
        self._connection.close()

    def add(self, key: str, raw: str) -> bool:
        """Put a reply there unless there is one of the key; say whether it was put."""
        with _said(_SHELF, 0.0):
            statement = "INSERT OR IGNORE INTO replies (key, raw) VALUES (?, ?)"
            return self._connection.execute(statement, (raw_bytes(key), raw_bytes(raw))).rowcount == 1

    def take(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the replies of some keys, at most a few hundred, by key."""
        marks = ",".join("?" * len(keys))
        values = list(map(raw_bytes, keys))
        with _said(_SHELF, 0.0):
            self._connection.execute(f"UPDATE replies SET taken = 1 WHERE key IN ({marks})", values)  # noqa: S608
            found = self._connection.execute(f"SELECT key, raw FROM replies WHERE key IN ({marks})", values)  # noqa: S608
            return {raw_text(key): raw_text(raw) for key, raw in found}

    def rest(self) -> Iterator[str]:
        """Yield the keys of the replies that nobody has taken."""
        with _said(_SHELF, 0.0):
            for (key,) in self._connection.execute("SELECT key FROM replies WHERE NOT taken"):
                yield raw_text(key)


_SHELF = Path("(the folder for temporary files)")
_NOTE = "INSERT INTO notes (endpoint, model, form) VALUES (?, ?, ?)"
_WIDTH = len(_COLUMNS.split(","))


def _insert(count: int) -> str:
    marks = ",".join([f"({','.join('?' * _WIDTH)})"] * count)
    return f"INSERT OR IGNORE INTO entries ({_COLUMNS}) VALUES {marks}"  # noqa: S608 -- question marks


def _commit(
    connection: sqlite3.Connection, things: Sequence[Entry | Note], words: Mapping[int, bytes]
) -> list[Entry | None]:
    """Write things in one transaction; return what is kept for each entry: itself, or what came before it."""
    kept: dict[str, Entry] = {}
    for one in things:
        if isinstance(one, Entry):
            kept.setdefault(one.key, one)
    keys, rows = list(kept), [_row(entry) for entry in kept.values()]
    connection.execute("BEGIN IMMEDIATE")
    try:
        for start in range(0, len(rows), 50):  # many in one statement, for each gives the interpreter's lock away
            few = rows[start : start + 50]
            cursor = connection.execute(_insert(len(few)), [value for row in few for value in row])
            if cursor.rowcount == len(few):
                first = int(cursor.lastrowid or 0) - len(few) + 1  # they stand one after the other
                for place, key in enumerate(keys[start : start + 50]):
                    kept[key] = replace(kept[key], row=first + place)
            else:
                for row in few:
                    query = f"SELECT {_COLUMNS}, id FROM entries WHERE key = ?"  # noqa: S608
                    entry = _entry(connection.execute(query, row[:1]).fetchone(), words)
                    kept[entry.key] = entry
        notes = [(one.endpoint, one.model, one.form) for one in things if isinstance(one, Note)]
        connection.executemany(_NOTE, notes)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return [kept[one.key] if isinstance(one, Entry) else None for one in things]


def _row(entry: Entry, words: bytes = b"") -> tuple[Any, ...]:
    """Return an entry as it is stored, packed where there are words to pack it with."""
    raw = raw_bytes(entry.raw)
    key, digest = bytes.fromhex(entry.key), raw_digest(raw)
    texts = (packed(entry.body.encode(), words), packed(raw, words), 1) if words else (entry.body, raw, None)
    body, raw_, pack = texts
    head = (key, entry.endpoint, body, entry.attempt, entry.kind, raw_, digest)
    return (*head, entry.started, entry.latency, pack)


def _entry(row: tuple[Any, ...], words: Mapping[int, bytes]) -> Entry:
    """Return a stored entry; raises ValueError where it is none."""
    key, endpoint, body, attempt, kind, raw, _, started, latency, pack, place = row
    shapes = (bytes, str, str if pack is None else bytes, int, str, bytes, bytes)
    if any(type(one) is not shape for one, shape in zip(row, shapes, strict=False)):
        raise ValueError("a value of another type than it was stored as")
    if pack is not None:
        if pack not in words:
            raise ValueError(f"dictionary {pack} is missing")
        body, raw = unpacked(body, words[pack]).decode(), unpacked(raw, words[pack])
    return Entry(key.hex(), endpoint, body, attempt, kind, raw_text(raw), started, latency, place)


# The file


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return found.st_dev, found.st_ino


def _connection(path: Path, mode: str, patience: float) -> sqlite3.Connection:
    connection = sqlite3.connect(_uri(path, mode), patience, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
    except BaseException:
        connection.close()
        raise
    return connection


def _writable(path: Path, patience: float) -> sqlite3.Connection:
    """Return a connection to a ledger that can be written to, here and now; made, where the file is empty."""
    _require_file(path, made=True)
    size = _size_when_still(path)
    connection = _connection(path, "rwc", patience)
    try:
        if _nature(connection) == (0, 0, 0):
            connection.execute("BEGIN IMMEDIATE")
            if _nature(connection) == (0, 0, 0):  # else another process was faster
                _make(connection)
            connection.execute("COMMIT")
        _require_ledger(connection, path)
        _require_whole(connection, path, size)
        _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone(), patience)
        connection.execute("BEGIN IMMEDIATE")  # before anything is paid for: may we, can we?
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


def _readable(path: Path, patience: float) -> sqlite3.Connection:
    """Return a connection to a ledger that is only read; to a file alone, where nothing stands beside it.

    The file is not opened by other means than SQLite's: to close it would let go of locks that this process holds.
    """
    _require_file(path, made=False)
    alone = not any(_beside(path, end).exists() for end in ("-wal", "-journal"))
    size = _size_when_still(path)
    try:
        connection = _connection(path, "ro", patience)
    except sqlite3.OperationalError as error:  # in write-ahead mode, where SQLite may make no file beside it
        if not alone or error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        connection = _connection(path, "ro&immutable=1", patience)
    try:
        if alone and connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete":
            connection.close()
            connection = _connection(path, "ro&immutable=1", patience)
        _require_ledger(connection, path)
        _require_whole(connection, path, size)
    except BaseException:
        connection.close()
        raise
    return connection


def _make(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _nature(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return application, format and number of things in the schema."""
    ask = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
    application, version, things = (int(connection.execute(one).fetchone()[0]) for one in ask)
    return application, version, things


def _require_file(path: Path, *, made: bool) -> None:
    if path.is_dir():
        raise BrokenFile(f"expected a ledger at {path}, found a folder. Name a file in it.")
    if not made and not path.exists():
        raise BrokenFile(f"expected a ledger at {path}, found no such file. Check the path.")
    if made and not path.absolute().parent.is_dir():
        raise BrokenFile(f"expected a folder for the ledger {path}, found none. Make it first.")
    if path.is_file() and 0 < path.stat().st_size < 512:  # which SQLite would take for an empty one, and write over
        raise BrokenFile(
            f"expected a ledger in {path}, found a file of another kind. Name the ledger, or a new file."
        )


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _size_when_still(path: Path) -> int:
    """Return the size of a file while nothing waits to be written into it, else 0."""
    wal = _beside(path, "-wal")
    return 0 if not path.exists() or (wal.exists() and wal.stat().st_size) else path.stat().st_size


def _require_whole(connection: sqlite3.Connection, path: Path, size: int) -> None:
    """Raise where the last page is cut, which SQLite would fill up with zeros; a lack of pages it finds itself."""
    if size % int(connection.execute("PRAGMA page_size").fetchone()[0]):
        raise BrokenFile(f"expected a whole ledger in {path}, found it cut short. Restore a copy of it.")


def _require_ledger(connection: sqlite3.Connection, path: Path) -> None:
    application, version, things = _nature(connection)
    if application != APPLICATION:
        found = "a database of another kind" if things else "an empty file"
        raise BrokenFile(f"expected a ledger in {path}, found {found}. Name the ledger, or a new file.")
    if version != FORMAT:
        raise BrokenFile(
            f"expected a ledger of format {FORMAT} in {path}, found format {version}. Use the gatewise that wrote "
            "it, or a newer one."
        )


def _patiently(act: Callable[[], Any], patience: float) -> None:
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
def _said(path: Path, patience: float) -> Iterator[None]:
    """Turn what SQLite says into what was expected, what was found and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        told = (f"that SQLite says {shown(str(error))}", "Run gatewise ledger verify.")
        found, remedy = _REASONS.get(code, told)
        if code == sqlite3.SQLITE_BUSY:
            found += f" for {patience:g} s"
        raise BrokenFile(f"expected a ledger in {path}, found {found}. {remedy}") from None
    except ValueError as error:
        raise BrokenFile(
            f"expected whole entries in {path}, found one that cannot be read: {shown(str(error))}. "
            "Run gatewise ledger verify."
        ) from None
    except OSError as error:
        raise BrokenFile(f"expected a ledger in {path}, found: {error.strerror}. Check the path.") from None


_AGAIN = "What was not stored is not marked as stored. Make room, and run the same command again."
_REASONS = {
    sqlite3.SQLITE_FULL: ("no room left to write", _AGAIN),
    sqlite3.SQLITE_IOERR: ("that the disk refuses to be read or written (full, over a quota, or failing)", _AGAIN),
    sqlite3.SQLITE_BUSY: (
        "it locked by another process",
        "Let the other one finish, or end it (fuser names it), and run the same command again.",
    ),
    sqlite3.SQLITE_READONLY: (
        "that it may only be read",
        "Make the file and its folder writable, or copy the ledger to where you may write.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "that it cannot be opened there",
        "Make the file and its folder writable, or copy the ledger, with the -wal beside it, to where you may write.",
    ),
    sqlite3.SQLITE_NOTADB: ("a file of another kind", "Name the ledger, or a new file."),
    sqlite3.SQLITE_CORRUPT: (
        "it damaged or cut short",
        "Restore a copy of it, or take what can still be read: gatewise ledger merge NEW OLD --salvage.",
    ),
}
