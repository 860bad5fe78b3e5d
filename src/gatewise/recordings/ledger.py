"""The ledger: every paid reply, once, in one file that is only ever added to.

An entry is one call: what was asked, of whom, which attempt it was, and what came back, verbatim. Its key is the hash
of the first three, so that whoever is about to ask can look first. Replies arrive from many tasks and are written by
one thread: while a commit is on its way to the disk, whatever comes in gathers, and goes with the next one.
"""

import asyncio
import queue
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gatewise.errors import BadChoice, BrokenFile, Mistake, shown
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.entries import Entry, Tally, require_keyless
from gatewise.recordings.store import PATIENCE, Note, Store

ROOM = 64 << 20  # bytes that should be free before something is asked that will have to be kept


Progress = Callable[[int, int], None]  # rows done, of how many


@dataclass(frozen=True)
class Merged:
    """What a merge did: entries added, entries that were here already, and entries that were here and differ."""

    added: int = 0
    known: int = 0
    conflicts: int = 0  # the reply that was here first has stayed


@dataclass(frozen=True)
class Flaw:
    """Something about a ledger that is not as it was written; `row` is the entry's id, None for the whole file."""

    row: int | None
    key: str
    problem: str


class Ledger:
    """Every paid reply, once. Close it, or use it in a `with`; several processes may share one file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(f"{folder}/l.sqlite") as ledger:
    ...     kept = asyncio.run(ledger.put(Request("local:m", {"n": 1}), Reply("said", None, None)))
    ...     ledger.find([kept.key])[kept.key].raw
    'said'
    """

    def __init__(self, store: Store, *, readonly: bool) -> None:
        self.path = store.path
        self.readonly = readonly
        self._store = store  # what is read; the writer has one of its own
        self._inbox: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, path: str | Path, *, readonly: bool = False, patience: float = PATIENCE) -> Self:
        """Return the ledger in a file, a new one where there is none; read-only, it may stand where nobody writes.

        `patience` is how many seconds to wait while another process holds the file.
        """
        return cls(Store.open(Path(path), patience, readonly=readonly), readonly=readonly)

    def close(self) -> None:
        """Write what is still waiting, and close the file."""
        with self._lock:
            writer, self._writer, self._closed = self._writer, None, True
            self._inbox.put(None)
        if writer:
            writer.join()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._store.count()

    # Reading

    def find(self, keys: Sequence[str]) -> dict[str, Entry]:
        """Return the entries that are here, by key."""
        return {entry.key: entry for entry in self._store.find(keys)}

    def entries(self, *, by_key: bool = False) -> Iterator[Entry]:
        """Yield every entry, in the order in which they came or by their keys; one is in memory at a time."""
        return self._store.entries(by_key=by_key)

    def noted(self, endpoint: str, *, model: str = "") -> str | None:
        """Return the newest note about an endpoint's model, if there is one."""
        return self.notes().get((endpoint, model))

    def notes(self) -> dict[tuple[str, str], str]:
        """Return the newest note on every endpoint and model."""
        return {(one.endpoint, one.model): one.form for one in self._store.notes()}

    def last(self) -> int:
        """Return how many rows were ever written: the number of entries, where none is damaged."""
        return self._store.last()

    def stats(self, progress: Progress = lambda done, total: None) -> Tally:
        """Return what the entries add up to, by endpoint, model and kind."""
        tally, total = Tally(), self._store.last()
        for done, entry in enumerate(self.entries(), 1):
            tally.add(entry)
            if done % 256 == 0:
                progress(done, total)
        return tally

    def verify(self, progress: Progress = lambda done, total: None) -> Iterator[Flaw]:
        """Yield every flaw: of the file, of its schema, and of each row, whose key and digest are made anew."""
        for problem in self._store.flaws():
            yield Flaw(None, "", problem)
        total = self._store.last()
        for row in range(1, total + 1):
            entry, problem = self._store.checked(row)
            if problem:
                yield Flaw(row, entry.key if entry else "", problem)
            if row % 256 == 0:
                progress(row, total)

    def sound(self) -> Iterator[Entry]:
        """Yield the entries that can be read and are what they were: all that a damaged ledger still gives."""
        for row in range(1, self._store.last() + 1):
            entry, problem = self._store.checked(row)
            if entry and not problem:
                yield entry

    def size(self) -> int:
        """Return how many bytes the ledger takes on the disk."""
        place = self._store.place
        beside = (place, place.with_name(f"{place.name}-wal"))
        return sum(one.stat().st_size for one in beside if one.exists())

    def require_room(self, room: int = ROOM) -> None:
        """Raise where the disk is nearly full, before something is paid for that could not be kept."""
        free = shutil.disk_usage(self._store.place.parent).free
        if free < room:
            raise BrokenFile(
                f"expected {room >> 20:,} MiB of room beside {self.path}, found {free >> 20:,} MiB. Nothing is lost: "
                "make room, and run the same command again."
            )

    def copy_to(self, path: str | Path) -> None:
        """Write a small copy to ship: by key, packed, in one file without write-ahead, whole or not at all."""
        self._store.copy_to(Path(path))

    # Writing

    async def put(self, request: Request, reply: Reply) -> Entry:
        """Return what is on the disk for a request after the commit: this reply, or the one that came first."""
        entry = Entry.of(request, reply)
        require_keyless(entry.endpoint)
        loop = asyncio.get_running_loop()
        item = _Item(entry, loop.create_future(), loop)
        self._submit(item)
        kept: Entry = await item.future
        return kept

    def note(self, endpoint: str, form: str, *, model: str = "") -> None:
        """Keep what was found out about an endpoint's model: how it wants to be asked. The newest note counts."""
        require_keyless(endpoint)
        item = _Item(Note(endpoint, model, form), Future(), None)
        self._submit(item)
        item.future.result()

    def merge(self, other: "Ledger | Iterable[Entry]") -> Merged:
        """Add another ledger's entries, or exported ones, and say what happened; merging again changes nothing."""
        added = known = conflicts = 0
        for few in _groups(other.entries() if isinstance(other, Ledger) else other):
            before = self.find([one.key for one in few])
            items = [_Item(one, Future(), None) for one in few]
            for entry, item in zip(few, items, strict=True):
                require_keyless(entry.endpoint)
                self._submit(item)
            for entry, item in zip(few, items, strict=True):
                kept: Entry = item.future.result()
                same, new = kept.raw == entry.raw, entry.key not in before
                added, known, conflicts = added + (same and new), known + (same and not new), conflicts + (not same)
                before.setdefault(entry.key, kept)
        if isinstance(other, Ledger):
            here = self.notes()
            for (endpoint, model), form in other.notes().items():
                if (endpoint, model) not in here:
                    self.note(endpoint, form, model=model)
        return Merged(added, known, conflicts)

    def _submit(self, item: "_Item") -> None:
        with self._lock:
            if self._closed:
                raise BadChoice("expected an open ledger, found it closed. Write before it is closed.")
            if self.readonly:
                raise BadChoice(
                    f"expected a ledger to write to, found {self.path} opened to be read. Copy it, and open the copy."
                )
            if not self._writer:
                self._writer = threading.Thread(target=self._write, name="gatewise-ledger", daemon=True)
                self._writer.start()
            self._inbox.put(item)

    def _write(self) -> None:
        """Commit whatever has gathered, until the end."""
        store: Store | None = None
        last = False
        while not last:
            items, last = self._gathered()
            try:
                store = store or self._store.again()
                outcomes = store.commit([item.what for item in items])
            except Mistake as mistake:
                _settle(items, mistake)
            except BaseException as error:
                self._give_up(items, error)
                raise
            else:
                _settle(items, outcomes)
        if store:
            store.close()

    def _give_up(self, items: list["_Item"], error: BaseException) -> None:
        """Tell everybody who waits that the writer has ended; the next reply starts another one."""
        with self._lock:
            self._writer = None
            with suppress(queue.Empty):
                while True:
                    item = self._inbox.get_nowait()
                    items += [item] if item else []
        _settle(
            items, BrokenFile(f"expected to write {self.path}, found: {shown(str(error))}. Check what is written.")
        )

    def _gathered(self) -> tuple[list["_Item"], bool]:
        """Return what is waiting to be written, at least one thing, and whether that was the last."""
        items: list[_Item] = []
        size = 0
        item = self._inbox.get()
        while item is not None:
            items.append(item)
            size += item.what.size if isinstance(item.what, Entry) else 0
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

    what: Entry | Note
    future: Any  # asyncio's with its loop, else a thread's
    loop: asyncio.AbstractEventLoop | None


def _settle(items: Sequence[_Item], outcomes: Sequence[Entry | None] | Mistake) -> None:
    """Tell everybody who waits how it went; one message an event loop."""
    kept = [outcomes] * len(items) if isinstance(outcomes, Mistake) else outcomes
    loops: dict[asyncio.AbstractEventLoop | None, list[tuple[Any, Any]]] = {}
    for item, one in zip(items, kept, strict=True):
        loops.setdefault(item.loop, []).append((item.future, one))
    for loop, waiting in loops.items():
        if loop is None:
            _tell(waiting)
        else:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_tell, waiting)


def _tell(waiting: Sequence[tuple[Any, Any]]) -> None:
    for future, one in waiting:
        if future.done():  # whoever waited was cancelled; what was written stays
            continue
        if isinstance(one, Mistake):
            future.set_exception(type(one)(*one.args))  # one for each, for each has a traceback of its own
        else:
            future.set_result(one)


def _groups(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    few: list[Entry] = []
    size = 0
    for entry in entries:
        few.append(entry)
        size += entry.size
        if size > 1 << 22 or len(few) == 500:
            yield few
            few, size = [], 0
    if few:
        yield few
