"""The client: one request, retried. Outgoing HTTP lives here, and in the two that stand on it: downloads and chats.

What may pass is tried again: a cut connection, a time-out, 408, 409, 425, 429 and 5xx, after a wait that doubles or
that the server names. What will not pass is said at once. A key travels in one header, to one address, and appears in
no message, no `repr` and no traceback.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from gatewise.errors import BadChoice, Refused, Unavailable
from gatewise.recordings.faults import fault_of
from gatewise.recordings.retries import Hiccup, Patience, patiently, retry_after

CHUNK = 1 << 16
LARGEST_REPLY = 1 << 28  # bytes of one reply that is held in memory
LARGEST_REFUSAL = 1 << 16  # bytes read of a reply that is a refusal


class Key:
    """A key that shows itself to nobody: no `repr`, no pickle and no traceback with its locals has it."""

    __slots__ = ("_bare", "_fit", "_value")

    def __init__(self, value: str) -> None:
        self._fit = value.isascii() and value.isprintable() and value == value.strip()
        self._bare = not set('"/\\') & set(value)  # so that JSON spells it as it is, or by numbers
        self._value = value

    def __repr__(self) -> str:
        return "(the key)"

    def __reduce__(self) -> str:
        raise TypeError("a key is not written down")

    def require_fit(self) -> None:
        """Raise if no header can carry the key; called where no name in sight holds it."""
        if not self._fit:
            raise BadChoice("expected a key of printable ASCII, found another (a line end?). Check where it is kept.")

    async def sign(self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Send a request with the key, in place of what aiohttp finds in .netrc."""
        if self._value:
            request.headers["Authorization"] = f"Bearer {self._value}"
        return await send(request)

    def hide(self, text: str) -> str:
        """Return a text without the key that a server said back; one under 8 characters is a dummy, and no secret.

        JSON can spell a character in several ways, and all of them are found.
        """
        if len(self._value) < 8:
            return text
        plain = text.replace(self._value, "(the key)")
        return self._spelled(plain) if "\\u00" in plain or ("\\" in plain and not self._bare) else plain

    def _spelled(self, text: str) -> str:
        letters = (rf"(?:\\?{re.escape(one)}|\\u(?i:{ord(one):04x}))" for one in self._value)
        return re.sub("".join(letters), "(the key)", text)


def place_of(url: str) -> str:
    """Return the host of an address, without user, key or query.

    >>> place_of("https://me:secret@example.org:8080/v1?key=1")
    'example.org:8080'
    """
    return urlsplit(url).netloc.rpartition("@")[2]


def address_of(url: str) -> str:
    """Return an address as messages show it, without user, key or query.

    >>> address_of("https://me:secret@example.org:8080/v1?key=1")
    'https://example.org:8080/v1'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{place_of(url)}{parts.path}"


def require_address(url: str) -> None:
    """Raise if an address is no web address, without showing it."""
    try:
        parts = urlsplit(url)
        found = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        found = False
    if not found:  # and it is not shown: whatever it is may hold a key
        raise BadChoice("expected a web address such as https://example.org/v1, found another. Check it.")


@asynccontextmanager
async def session(patience: Patience) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield an open session that takes proxies from the environment."""
    timeout = aiohttp.ClientTimeout(total=None, connect=patience.connect, sock_read=patience.silence)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as opened:
        yield opened


def refuse(status: int, reason: str | None, headers: Mapping[str, str], url: str, remedy: str) -> None:
    """Raise if a status is no success: a hiccup where it may pass, else for good."""
    if status < 400:
        return
    said, fault = status_line(status, reason, url), fault_of(status, "")
    if fault.passes:
        raise Hiccup(said, retry_after(headers), kind=fault.kind)
    raise Unavailable(f"expected {address_of(url)}, found: {said}. {remedy}", fault.kind, final=fault.final)


def status_line(status: int, reason: str | None, url: str, words: str = "") -> str:
    """Return a status as messages show it, with the server's own words where it has some."""
    told = f"HTTP {status} {ascii(reason or '')[1:-1][:200]}".rstrip()
    return f"{told} from {place_of(url)}" + (f" ({words})" if words else "")


@dataclass(frozen=True)
class Answer:
    """What a server answered, whatever it means."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


async def exchange(
    opened: aiohttp.ClientSession,
    url: str,
    sent: bytes,
    *,
    key: Key,
    largest: int,
    headers: Mapping[str, str] | None = None,
    proxy: str | None = None,
) -> Answer:
    """Return what a server answers to a body of JSON; never follows a redirect with the key in hand."""
    address = address_of(url)
    given = {"Content-Type": "application/json", **(headers or {})}
    async with opened.post(
        url, data=sent, headers=given, middlewares=(key.sign,), allow_redirects=False, proxy=proxy
    ) as reply:
        if 300 <= reply.status < 400:
            found = "found a redirect. Give the final address."
            raise Unavailable(f"expected an answer from {address}, {found}", "missing", final=True)
        refusal = reply.status >= 400
        body = bytearray()
        try:
            async for chunk in reply.content.iter_any():
                body += chunk
                if len(body) > (LARGEST_REFUSAL if refusal else largest):
                    break
        except (aiohttp.ClientError, TimeoutError):
            if not refusal:
                raise  # half an answer is none; half a refusal is one
        if len(body) > largest and not refusal:
            raise Unavailable(
                f"expected a reply of at most {largest:,} bytes from {address}, found more. "
                "Lower the limit of its tokens, or allow larger replies.",
                "large",
            )
        return Answer(reply.status, key.hide(reply.reason or ""), reply.headers, bytes(body))


async def post(
    opened: aiohttp.ClientSession,
    url: str,
    body: Mapping[str, Any],
    *,
    key: str = "",
    patience: Patience | None = None,
) -> Any:
    """Return the JSON that an endpoint answers to a JSON body."""
    kept, key = Key(key), ""  # no frame of a traceback holds it
    kept.require_fit()
    require_address(url)
    remedies = {401: "key", 402: "account", 403: "key", 404: "address"}

    async def attempt() -> Any:
        answer = await exchange(opened, url, json.dumps(body).encode(), key=kept, largest=LARGEST_REPLY)
        remedy = f"Check the {remedies.get(answer.status, 'request')}."
        refuse(answer.status, answer.reason, answer.headers, url, remedy)
        try:
            return json.loads(kept.hide(answer.body.decode("utf-8-sig", "replace")))
        except (ValueError, RecursionError):
            raise Hiccup(f"a reply that is no JSON from {place_of(url)}", kind="garbage") from None

    try:
        return await patiently(attempt, patience or Patience(), f"an answer from {place_of(url)}", hide=kept.hide)
    except Unavailable as unavailable:
        failure = hidden(unavailable, kept)
    raise failure


def hidden(unavailable: Unavailable, key: Key) -> Unavailable:
    """Return a failure anew, without the key in its words and without what it came from."""
    message = key.hide(str(unavailable))
    if isinstance(unavailable, Refused):
        return Refused(message, unavailable.status, key.hide(unavailable.said))
    return Unavailable(message, unavailable.kind, final=unavailable.final)
