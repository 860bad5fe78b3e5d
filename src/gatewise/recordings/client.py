"""The client: one request, retried; and chat completions at a pace. With `downloads`, the only outgoing HTTP.

What may pass is tried again: a cut connection, a time-out, 408, 409, 425, 429 and 5xx, after a wait that doubles or
that the server names. What will not pass is said at once; what no other call can better ends them all. Keys travel in
one header and appear in no message, no `repr` and no traceback. No change of the system's clock moves a wait.
"""

import asyncio
import json
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from uuid import uuid4

import aiohttp

from gatewise.errors import BadChoice, Refused, Unavailable
from gatewise.recordings.calls import Reply, as_sent
from gatewise.recordings.endpoints import Settings
from gatewise.recordings.faults import LONGEST_SAID, Fault, fault_in, fault_of
from gatewise.recordings.paces import Pace

T = TypeVar("T")

CHUNK = 1 << 16
LARGEST_REPLY = 1 << 28  # bytes of one reply that is held in memory
LARGEST_REFUSAL = 1 << 16  # bytes read of a reply that is none


@dataclass(frozen=True)
class Patience:
    """How often a request is tried without any progress, and how long to wait in between, in seconds."""

    attempts: int = 5
    first_wait: float = 0.5
    longest_wait: float = 60.0
    connect: float = 20.0
    silence: float = 60.0  # without a byte


CALLS = Patience(attempts=8)  # a call costs money and an endpoint is busy for minutes


class Hiccup(Exception):
    """An attempt that failed in a way that may pass."""

    def __init__(
        self, reason: str, wait: float | None = None, progressed: bool = False, kind: str = "network"
    ) -> None:
        super().__init__(reason)
        self.wait = wait
        self.progressed = progressed
        self.kind = kind


class _Key:
    """A key that shows itself to nobody: no `repr`, no pickle, no traceback with its locals has it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not (value.isascii() and value.isprintable() and value == value.strip()):
            raise BadChoice("expected a key of printable ASCII, found another (a line end?). Check where it is kept.")
        self._value = value

    def __repr__(self) -> str:
        return "(the key)"

    def __reduce__(self) -> str:
        raise TypeError("a key is not written down")

    async def sign(self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Send a request with the key, in place of what aiohttp finds in .netrc."""
        if self._value:
            request.headers["Authorization"] = f"Bearer {self._value}"
        return await send(request)

    def hide(self, text: str) -> str:
        """Return a text without the key that a server said back; one under 8 characters is a dummy, and no secret."""
        return text.replace(self._value, "(the key)") if len(self._value) >= 8 else text


async def patiently(
    attempt: Callable[[], Awaitable[T]],
    patience: Patience,
    what: str,
    *,
    rest: Callable[[float], Awaitable[None]] | None = None,
    overall: float | None = None,
) -> T:
    """Return what an attempt returns, trying again after hiccups as often as patience allows, for so long overall.

    What is raised is raised outside of every `except`: the library's own errors carry headers, and the key in them.
    """
    failures = 0
    clock = asyncio.get_running_loop().time
    end = None if overall is None else clock() + overall
    while True:
        failure: Hiccup | Unavailable
        try:
            async with asyncio.timeout_at(end) as limit:
                return await attempt()
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, aiohttp.TooManyRedirects) as error:
            loop = isinstance(error, aiohttp.TooManyRedirects)
            found = "too many redirects" if loop else "a redirect to what is no web address"
            failure = Unavailable(f"expected {what}, found {found}. Choose another address.")
        except TimeoutError:
            silence = overall if limit.expired() else patience.silence
            failure = Hiccup(f"no answer within {silence:g} s", kind="timeout")
        except aiohttp.ClientError as error:
            failure = Hiccup(reason_of(error))
        except Hiccup as hiccup:
            failure = hiccup
        if isinstance(failure, Unavailable):
            raise failure
        failures = 1 if failure.progressed else failures + 1
        if failure.wait is not None and failure.wait > patience.longest_wait:
            asked = f"{failure}, and asks to wait {failure.wait:,.10g} s"
            raise Unavailable(f"expected {what}, found: {asked}. Try again then.", failure.kind)
        wait = min(patience.first_wait * 2 ** (failures - 1), patience.longest_wait)
        wait *= random.uniform(0.5, 1.0)  # noqa: S311 -- so that many clients do not come back at once
        if failure.wait is not None:
            wait = failure.wait
        late = end is not None and clock() + wait >= end
        if failures >= patience.attempts or late:
            tries = "1 try" if failures == 1 else f"{failures} tries"
            within = f" within {overall:g} s" if late else ""
            raise Unavailable(
                f"expected {what}{within}, found after {tries}: {failure}. Try again later.", failure.kind
            )
        await (rest or asyncio.sleep)(wait)


def reason_of(error: Exception) -> str:
    """Return what an error says, as one tame line."""
    said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)  # the rest is its address
    reason = said.partition("\n")[0] or type(error).__name__
    return ascii(reason)[1:-1][:200]


def refuse(status: int, reason: str | None, headers: Mapping[str, str], url: str, remedy: str) -> None:
    """Raise if a status is no success: a hiccup where it may pass, else for good."""
    if status < 400:
        return
    said = status_line(status, reason, url)
    fault = fault_of(status, "")
    if fault.passes:
        raise Hiccup(said, retry_after(headers), kind=fault.kind)
    raise Unavailable(f"expected {address_of(url)}, found: {said}. {remedy}", fault.kind, final=fault.final)


def status_line(status: int, reason: str | None, url: str, words: str = "") -> str:
    """Return a status as messages show it."""
    told = f"HTTP {status} {ascii(reason or '')[1:-1][:100]}".rstrip()
    return f"{told} from {place_of(url)}" + (f" ({words})" if words else "")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, as a number or as a date; None where it asks for no wait.

    A date is measured from the server's own: what its clock and ours disagree by is no wait.
    """
    value = headers.get("Retry-After", "")
    try:
        wait = float(value)
    except ValueError:
        from datetime import UTC, datetime

        until, now = _date(value), _date(headers.get("Date", ""))
        wait = 0.0 if until is None else (until - (now or datetime.now(UTC))).total_seconds()
    return wait if wait > 0 else None  # what is no number is no wait


def _date(value: str) -> Any:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    return date if date.tzinfo else None  # "-0000" names no zone


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


@dataclass(frozen=True)
class _Answer:
    status: int
    reason: str | None
    headers: Mapping[str, str]
    body: bytes


async def _exchange(
    opened: aiohttp.ClientSession, url: str, sent: bytes, key: _Key, largest: int, **more: Any
) -> _Answer:
    """Return what a server answers to a body; never follows a redirect with the key in hand."""
    place = address_of(url)
    headers = {"Content-Type": "application/json"} | more.pop("headers", {})
    async with opened.post(
        url, data=sent, headers=headers, middlewares=(key.sign,), allow_redirects=False, **more
    ) as reply:
        if 300 <= reply.status < 400:
            raise Unavailable(
                f"expected an answer from {place}, found a redirect. Give the final address.", "missing", final=True
            )
        body = bytearray()
        try:
            async for chunk in reply.content.iter_any():
                body += chunk
                if len(body) > (largest if reply.status < 300 else LARGEST_REFUSAL):
                    break
        except (aiohttp.ClientError, TimeoutError):
            if reply.status < 300:
                raise  # half an answer is none; half a refusal is one
        if reply.status < 300 and len(body) > largest:
            raise Unavailable(
                f"expected a reply of at most {largest:,} bytes from {place}, found more. "
                "Check the address, or allow larger replies.",
                "large",
            )
        return _Answer(reply.status, reply.reason, reply.headers, bytes(body))


async def post(
    opened: aiohttp.ClientSession,
    url: str,
    body: Mapping[str, Any],
    *,
    key: str = "",
    patience: Patience | None = None,
) -> Any:
    """Return the JSON that an endpoint answers to a JSON body."""
    secret, key = _Key(key), ""  # no frame of a traceback holds it
    require_address(url)
    remedies = {401: "key", 402: "account", 403: "key", 404: "address"}
    failure: Unavailable

    async def attempt() -> Any:
        answer = await _exchange(opened, url, json.dumps(body).encode(), secret, LARGEST_REPLY)
        remedy = f"Check the {remedies.get(answer.status, 'request')}."
        refuse(answer.status, answer.reason, answer.headers, url, remedy)
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise Hiccup(f"a reply that is no JSON from {place_of(url)}", kind="garbage") from None

    try:
        return await patiently(attempt, patience or Patience(), f"an answer from {place_of(url)}")
    except Unavailable as unavailable:
        failure = Unavailable(secret.hide(str(unavailable)), unavailable.kind, final=unavailable.final)
    raise failure


# Chat completions


class Chat:
    """An endpoint over HTTP, open between `async with`. After a final failure no further call is sent."""

    def __init__(self, settings: Settings, key: _Key, patience: Patience) -> None:
        self.name = settings.address
        self._settings = settings
        self._key = key
        self._patience = patience
        self._pace = Pace(settings.concurrency, settings.requests_per_minute, settings.tokens_per_minute)
        self._shut: Unavailable | None = None  # what every call fails with
        self._shut_until = float("inf")
        self._proxy = _proxy_for(settings)
        self._tls = _tls(settings.ca)
        self._opened: aiohttp.ClientSession

    def __repr__(self) -> str:
        return f"Chat({self.name!r})"

    async def __aenter__(self) -> "Chat":
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout, connect=self._patience.connect)
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        self._opened = aiohttp.ClientSession(timeout=timeout, connector=connector)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.close()

    async def __call__(self, body: Mapping[str, Any]) -> Reply:
        """Return the reply to a body, word for word as it came, but for the key where a server says it back."""
        sent = as_sent(body).encode()
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        tokens = len(sent) // 4 + int(limit)  # a guess, until the reply says
        headers = {"Idempotency-Key": uuid4().hex}  # where a server knows it, a call tried twice is paid once
        failure: Unavailable

        async def attempt() -> Reply:
            async with self._pace.turn(tokens):
                self._require_open()
                return await self._once(sent, headers, tokens)

        what = f"an answer from {place_of(self.name)}"
        patience = self._patience
        try:
            return await patiently(attempt, patience, what, rest=self._pace.rest, overall=self._settings.overall)
        except Refused as refused:
            failure = refused
        except Unavailable as unavailable:
            failure = Unavailable(self._key.hide(str(unavailable)), unavailable.kind, final=unavailable.final)
            if failure.final:
                self._shut = failure
                self._pace.give_up()
        raise failure

    def _require_open(self) -> None:
        if self._shut and asyncio.get_running_loop().time() < self._shut_until:
            raise Unavailable(str(self._shut), self._shut.kind, final=self._shut.final)

    async def _once(self, sent: bytes, headers: Mapping[str, str], tokens: int) -> Reply:
        clock = asyncio.get_running_loop().time
        started, start = time.time(), clock()
        largest = self._settings.largest_reply
        answer = await _exchange(
            self._opened, self.name, sent, self._key, largest, headers=headers, proxy=self._proxy
        )
        latency = clock() - start
        raw = self._key.hide(answer.body.decode("utf-8-sig", "replace"))
        fault = fault_in(raw) if answer.status < 300 else fault_of(answer.status, raw)
        if fault is None:
            self._pace.correct(tokens, _tokens_in(raw, tokens))
            return Reply(raw, started, latency)
        self._pace.correct(tokens, 0)
        raise self._failure(fault, answer, raw)

    def _failure(self, fault: Fault, answer: _Answer, raw: str) -> Exception:
        place, settings = place_of(self.name), self._settings
        if answer.status < 300:
            told = f"a reply of status 200 from {place} that holds no answer ({fault.words or fault.kind})"
        else:
            told = status_line(answer.status, answer.reason, self.name, fault.words)
        if fault.passes:
            wait = retry_after(answer.headers)
            if wait is not None and fault.kind == "rate":
                self._pace.hold(min(wait, self._patience.longest_wait))
            return Hiccup(told, wait, kind=fault.kind)
        if fault.kind == "refused":
            message = f"expected an answer from {place}, found: {told}. Check the request."
            return Refused(self._key.hide(message), answer.status, raw[:LONGEST_SAID])
        key = f"the key in {settings.key_env}" if settings.key_env else "the key: none is named"
        remedies = {
            "auth": f"Check {key}",
            "quota": "Top up the account or raise its limit; what was answered is kept",
            "missing": f"Check the model {settings.model} and the address {self.name}",
        }
        message = f"expected an answer from {place}, found: {told}. {remedies.get(fault.kind, 'Check the request')}."
        return Unavailable(message, fault.kind, final=fault.final)


def chat(settings: Settings, *, key: str = "", patience: Patience = CALLS) -> Chat:
    """Return the endpoint of a model, to be opened with `async with`; the key is the value, wherever it is kept."""
    secret, key = _Key(key), ""
    return Chat(settings, secret, patience)


def _tokens_in(raw: str, guessed: int) -> int:
    usage = json.loads(raw).get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and total >= 0 else guessed


def _proxy_for(settings: Settings) -> str | None:
    """Return the proxy that leads to an endpoint: the one that is named, else the environment's."""
    if settings.proxy:
        return None if settings.proxy == "none" else settings.proxy
    parts = urlsplit(settings.url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _tls(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca:
        try:
            context.load_verify_locations(ca)
        except OSError as error:  # an SSLError is one
            raise BadChoice(
                f"expected a file of PEM certificates at {ca}, found: {error.strerror}. Name another."
            ) from None
    return context
