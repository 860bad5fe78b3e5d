"""Entries: one call as the ledger keeps it, as a line of JSON, packed, checked and counted. No database here."""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from gatewise.errors import BadChoice, BrokenFile
from gatewise.recordings.calls import Reply, Request, as_sent, key_of
from gatewise.recordings.readings import Unreadable
from gatewise.recordings.replies import Completion, read_reply

LARGEST = 1 << 30  # bytes of a packed text when it is unpacked


@dataclass(frozen=True)
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
    row: int = field(default=0, compare=False)  # its place in the ledger, 0 where it is not from one

    @classmethod
    def of(cls, request: Request, reply: Reply) -> Self:
        """Return the entry of a request and its reply."""
        given = (request.attempt, request.kind, reply.raw, reply.started, reply.latency)
        return cls(request.key, request.endpoint, request.text, *given)

    @cached_property
    def completion(self) -> Completion | Unreadable:
        """The completion in the reply, or why there is none."""
        return read_reply(self.raw)

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.body) + len(self.raw)


def raw_bytes(raw: str) -> bytes:
    """Return a reply as it is stored: UTF-8, a lone surrogate by its own three bytes."""
    return raw.encode("utf-8", "surrogatepass")


def raw_text(raw: bytes) -> str:
    """Return a stored reply as it came."""
    return raw.decode("utf-8", "surrogatepass")


def raw_digest(raw: bytes) -> bytes:
    """Return the SHA-256 of a stored reply, by which a flipped bit is found."""
    return hashlib.sha256(raw).digest()


def flaw_of(entry: Entry, digest: bytes) -> str:
    """Return what about a stored entry is not what it was when it was written, or nothing."""
    if entry.key != key_of(entry.endpoint, entry.body, entry.attempt):
        return "endpoint, body or attempt is not what its key was made of"
    if digest != raw_digest(raw_bytes(entry.raw)):
        return "the reply is not what its digest was made of"
    return ""


def require_keyless(endpoint: str) -> None:
    """Raise where an endpoint's name could hold a key; the name itself is not shown."""
    _, found, rest = endpoint.partition("://")
    if found and ("?" in rest or "#" in rest or "@" in rest.partition("/")[0]):
        raise BadChoice(
            "expected the name of an endpoint without user, key or query, found one that has them. "
            "Name the address alone, and give the key by its own setting."
        )


# Lines


def export_lines(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield entries as lines of JSON, in pure ASCII; given by key, the same ledger gives the same bytes."""
    for one in entries:
        head = {"key": one.key, "endpoint": one.endpoint, "attempt": one.attempt, "kind": one.kind}
        tail = {"raw": one.raw, "started": one.started, "latency": one.latency}
        yield f'{json.dumps(head)[:-1]}, "body": {one.body}, {json.dumps(tail, allow_nan=False)[1:]}\n'.encode()


_SHAPES: dict[str, type | tuple[type, ...]] = {
    "key": str, "endpoint": str, "attempt": int, "kind": str, "body": dict, "raw": str,
    "started": (int, float, type(None)), "latency": (int, float, type(None)),
}  # fmt: skip


def read_lines(lines: Iterable[bytes], name: str = "the file") -> Iterator[Entry]:
    """Yield the entries of exported lines; a line whose key is not that of what it holds is refused."""
    for number, line in enumerate(lines, 1):
        entry = _read(line)
        if entry is None:
            raise BrokenFile(
                f"expected an exported call in line {number:,} of {name}, found something else, or a call that was "
                "changed or cut short. Export the ledger again."
            )
        yield entry


def _read(line: bytes) -> Entry | None:
    try:
        row: Any = json.loads(line)
        if not isinstance(row, dict) or any(not isinstance(row.get(one), shape) for one, shape in _SHAPES.items()):
            return None
        body = as_sent(row.pop("body"))
        entry = Entry(body=body, **{one: row[one] for one in _SHAPES if one != "body"})
        return entry if entry.key == key_of(entry.endpoint, body, entry.attempt) else None
    except (ValueError, KeyError, RecursionError):
        return None


# Packing


def dictionary_of(entries: Iterable[Entry]) -> bytes:
    """Return what the first entries have in common with the others: words for zlib, which knows at most 32 kB."""
    words = b""
    for entry in entries:
        words += raw_bytes(entry.raw) + entry.body.encode()
        if len(words) >= 1 << 15:
            break
    return words[: 1 << 15]


def packed(content: bytes, words: bytes) -> bytes:
    """Return content compressed with the words that are known beforehand."""
    press = zlib.compressobj(9, zdict=words)
    return press.compress(content) + press.flush()


def unpacked(content: bytes, words: bytes) -> bytes:
    """Return what was packed; raises ValueError where it was something else."""
    press = zlib.decompressobj(zdict=words)
    try:
        whole = press.decompress(content, LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not press.eof:
        raise ValueError("cut short, or too large")
    return whole


# Counting


@dataclass
class Count:
    """What the calls of one endpoint, model and kind add up to."""

    calls: int = 0
    again: int = 0  # second and further attempts
    input_tokens: int = 0
    output_tokens: int = 0
    without_usage: int = 0
    cost: Fraction = field(default_factory=Fraction)  # exact, so that no order changes the sum
    without_cost: int = 0  # replies that name no cost of their own
    latency: Fraction = field(default_factory=Fraction)
    without_latency: int = 0  # they came in a file


@dataclass
class Tally:
    """What a ledger's entries add up to, by endpoint, model and kind."""

    counts: dict[tuple[str, str, str], Count] = field(default_factory=dict)
    first: float | None = None  # when the first call was started, in seconds since 1970
    last: float | None = None

    def add(self, entry: Entry) -> None:
        """Count one entry."""
        one = self.counts.setdefault((entry.endpoint, _model(entry.body), entry.kind), Count())
        usage = _usage(entry.raw)
        one.calls += 1
        one.again += entry.attempt > 0
        given, taken = (_number(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
        one.input_tokens += int(given or 0)
        one.output_tokens += int(taken or 0)
        one.without_usage += given is None
        cost = _number(usage.get("cost"))
        one.cost += Fraction(cost or 0)
        one.without_cost += cost is None
        one.latency += Fraction(entry.latency or 0)
        one.without_latency += entry.latency is None
        if entry.started is not None:
            self.first = min(entry.started, self.first if self.first is not None else entry.started)
            self.last = max(entry.started, self.last if self.last is not None else entry.started)


def utc(seconds: float) -> str:
    """Return a moment as it is read.

    >>> utc(0)
    '1970-01-01T00:00:00Z'
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "no date"


def _model(body: str) -> str:
    try:
        return str(json.loads(body).get("model", ""))
    except (ValueError, AttributeError, RecursionError):
        return ""


def _usage(raw: str) -> dict[str, Any]:
    try:
        usage = json.loads(raw)["usage"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return usage if isinstance(usage, dict) else {}


def _number(value: object) -> float | int | None:
    """Return a finite number that is not negative, else None."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    return value if fits else None  # type: ignore[return-value]
