"""Calls: one request and one reply as values, and the key by which a paid call is made once."""

import hashlib
import json
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

KINDS = ("answer", "p_true", "verdict", "embedding")  # what a call is for


@dataclass(frozen=True)
class Request:
    """What is asked of an endpoint: exactly this body, for this reason, for the so-manieth time.

    >>> one = Request("http://localhost/v1/chat/completions", {"model": "m"})
    >>> one.key == Request(one.endpoint, {"model": "m"}, kind="verdict").key, one.key == one.again().key
    (True, False)
    """

    endpoint: str
    body: Mapping[str, Any]
    attempt: int = 0  # an unreadable reply is asked for again as another attempt, which is another call
    kind: str = "answer"

    @cached_property
    def text(self) -> str:
        """The body as it is sent: strict JSON of ASCII, keys in the order given, which models follow in a schema."""
        return as_sent(self.body)

    @cached_property
    def key(self) -> str:
        """The SHA-256 of endpoint, exact body and attempt."""
        return key_of(self.endpoint, self.text, self.attempt)

    def again(self) -> "Request":
        """Return the next attempt at the same request."""
        return Request(self.endpoint, self.body, self.attempt + 1, self.kind)


def as_sent(body: Mapping[str, Any]) -> str:
    """Return a body as the text that is sent and hashed."""
    return _ENCODER.encode(body)


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def key_of(endpoint: str, text: str, attempt: int) -> str:
    """Return the key of a call whose body is this text."""
    return hashlib.sha256(f'["{attempt}",{json.dumps(endpoint)},{text}]'.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, verbatim, and when: only these two clock readings differ from run to run.

    Both are None for what came in a file, as the replies of a batch do.
    """

    raw: str
    started: float | None  # seconds since 1970
    latency: float | None  # seconds


class Endpoint(Protocol):
    """Whoever answers: an address, a model in this process. It raises `Unavailable` where there is no answer."""

    @property
    def name(self) -> str:
        """What the ledger knows it by: an address without keys, or a model file with its digest."""
        ...

    def __call__(self, body: Mapping[str, Any]) -> Awaitable[Reply]:
        """Return the reply to a body."""
        ...
