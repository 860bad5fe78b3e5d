"""The client: one request, retried, and a download that resumes. Outgoing HTTP lives here only.

What may pass is tried again: a cut connection, a time-out, 408, 425, 429 and 5xx, after a wait that doubles or that
the server names. What will not pass is said at once. Keys travel in one header and appear in no message.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp

from gatewise.errors import BadChoice, Mistake, Unavailable

T = TypeVar("T")
Progress = Callable[[int, int | None], None]  # bytes done, of how many where known

CHUNK = 1 << 16
LARGEST_REPLY = 1 << 28  # bytes of one reply that is held in memory


@dataclass(frozen=True)
class Patience:
    """How often a request is tried without any progress, and how long to wait in between, in seconds."""

    attempts: int = 5
    first_wait: float = 0.5
    longest_wait: float = 60.0
    connect: float = 20.0
    silence: float = 60.0  # without a byte


class _Hiccup(Exception):
    """An attempt that failed in a way that may pass."""

    def __init__(self, reason: str, wait: float | None = None, progressed: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.progressed = progressed


async def _patiently(attempt: Callable[[], Awaitable[T]], patience: Patience, what: str) -> T:
    """Return what an attempt returns, trying again after hiccups as often as patience allows."""
    failures = 0
    while True:
        try:
            try:
                return await attempt()
            except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, aiohttp.TooManyRedirects) as error:
                loop = isinstance(error, aiohttp.TooManyRedirects)
                found = "too many redirects" if loop else "a redirect to what is no web address"
                raise Unavailable(f"expected {what}, found {found}. Choose another address.") from None
            except TimeoutError:
                raise _Hiccup(f"no answer within {patience.silence:g} s") from None
            except aiohttp.ClientError as error:
                raise _Hiccup(_said(error)) from None
        except _Hiccup as hiccup:
            failures = 1 if hiccup.progressed else failures + 1
            wait = min(patience.first_wait * 2 ** (failures - 1), patience.longest_wait)
            wait *= random.uniform(0.5, 1.0)  # noqa: S311 -- so that many clients do not come back at once
            if hiccup.wait is not None and hiccup.wait > patience.longest_wait:
                asked = f"{hiccup}, and asks to wait {hiccup.wait:,.10g} s"
                raise Unavailable(f"expected {what}, found: {asked}. Try again then.") from None
            if failures >= patience.attempts:
                tries = "1 try" if failures == 1 else f"{failures} tries"
                raise Unavailable(f"expected {what}, found after {tries}: {hiccup}. Try again later.") from None
            await asyncio.sleep(wait if hiccup.wait is None else hiccup.wait)


def _said(error: Exception) -> str:
    said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)  # the rest is its address
    reason = said.partition("\n")[0] or type(error).__name__
    return ascii(reason)[1:-1][:200]


def _refuse(status: int, reason: str | None, headers: Mapping[str, str], url: str, remedy: str) -> None:
    """Raise if a status is no success: a hiccup where it may pass, else for good."""
    if status < 400:
        return
    said = f"HTTP {status} {ascii(reason or '')[1:-1]}".rstrip() + f" from {place_of(url)}"
    if status in (408, 425, 429) or status >= 500:
        raise _Hiccup(said, _retry_after(headers.get("Retry-After")))
    raise Unavailable(f"expected {address_of(url)}, found: {said}. {remedy}")


def _retry_after(value: str | None) -> float | None:
    """Return the seconds that a server asks to wait, given as a number or as a date."""
    if not value:
        return None
    try:
        return max(0.0, float(value))  # in this order, what is no number is no wait
    except ValueError:
        pass
    try:
        from datetime import UTC, datetime

        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


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


def _require_address(url: str) -> None:
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


# Downloads


async def download(
    url: str,
    path: Path,
    *,
    size: int | None = None,
    patience: Patience | None = None,
    progress: Progress = lambda done, total: None,
) -> None:
    """Fetch a file to a path; what an earlier try left beside it, as `.part`, is continued where the server allows.

    The part is continued only if the server says that the file is still the same one. `size` is the length that the
    file must have, where it is known.
    """
    _require_address(url)
    patience = patience or Patience()
    furthest = 0  # of all attempts: what only comes as far again is no progress
    part, note = path.with_name(path.name + ".part"), path.with_name(path.name + ".part.json")
    async with session(patience) as opened:

        async def attempt() -> None:
            nonlocal furthest
            have, tag = _resumable(part, note, url)
            headers = {"Accept-Encoding": "identity"}
            if have:
                headers |= {"Range": f"bytes={have}-", "If-Range": tag}
            async with opened.get(url, headers=headers) as reply:
                if reply.status == 416:  # nothing after what is there, or another file
                    part.unlink(missing_ok=True)
                    raise _Hiccup("the server does not know the part that is already here", 0.0)
                _refuse(reply.status, reply.reason, reply.headers, url, "Choose another source.")
                start, total = _extent(reply, have)
                if start and _tag(reply.headers) not in ("", tag):  # whatever If-Range asked for
                    part.unlink()
                    raise _Hiccup("the file has changed since its first part", 0.0)
                if size is not None and total is not None and total != size:
                    raise Unavailable(
                        f"expected {size:,} bytes at {address_of(url)}, found {total:,}. Choose another source."
                    )
                if not start:
                    part.unlink(missing_ok=True)  # before another tag stands beside it
                    note.write_text(json.dumps({"url": url, "tag": _tag(reply.headers)}), "utf-8")
                done = start
                try:
                    with part.open("r+b" if start else "wb") as out:
                        out.seek(start)
                        out.truncate()
                        async for chunk in reply.content.iter_chunked(CHUNK):
                            out.write(chunk)
                            done += len(chunk)
                            progress(done, total)
                            if size is not None and done > size:
                                break
                except (aiohttp.ClientError, TimeoutError) as error:
                    reason = f"the connection broke off after {done:,} bytes ({_said(error)})"
                    progressed, furthest = done > furthest, max(done, furthest)
                    raise _Hiccup(reason, progressed=progressed) from None
            if done != (total if total is not None else done) or (size is not None and done != size):
                part.unlink()
                raise _Hiccup(f"{done:,} bytes where {(total if size is None else size):,} were expected")

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            await _patiently(attempt, patience, address_of(url))
            part.replace(path)
            note.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"expected to write {path}, found: {error.strerror}. Choose another place.") from None


def _resumable(part: Path, note: Path, url: str) -> tuple[int, str]:
    """Return how much of a file is there, and the tag by which the server knows it; (0, "") if it must start anew."""
    try:
        noted = json.loads(note.read_text("utf-8"))
        have = part.stat().st_size
    except (OSError, ValueError):
        return 0, ""
    same = isinstance(noted, dict) and noted.get("url") == url and isinstance(noted.get("tag"), str)
    return (have, noted["tag"]) if same and noted["tag"] and have else (0, "")


def _tag(headers: Mapping[str, str]) -> str:
    """Return what a server knows a file's bytes by, "" where it does not say."""
    tag = headers.get("ETag", "")
    if tag.startswith("W/") or not tag:  # a weak tag does not promise the same bytes
        return headers.get("Last-Modified", "")
    return tag


def _extent(reply: aiohttp.ClientResponse, have: int) -> tuple[int, int | None]:
    """Return where a reply starts in the file, and how long the whole file is, where it says so."""
    if reply.status != 206:
        return 0, reply.content_length
    unit, _, rest = reply.headers.get("Content-Range", "").partition(" ")
    span, _, total = rest.partition("/")
    start = span.partition("-")[0]
    if unit != "bytes" or start != str(have):
        raise _Hiccup("the server answered with another part than was asked for")
    return have, int(total) if total.isdecimal() else None


# Calls


async def post(
    opened: aiohttp.ClientSession,
    url: str,
    body: Mapping[str, Any],
    *,
    key: str = "",
    patience: Patience | None = None,
) -> Any:
    """Return the JSON that an endpoint answers to a JSON body; never follows a redirect with the key in hand."""
    _require_address(url)
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise BadChoice("expected a key of printable ASCII, found another (a line end?). Check where it is kept.")
    patience = patience or Patience()
    address = address_of(url)

    async def sign(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if key:  # here, where it takes the place of what aiohttp finds in .netrc
            request.headers["Authorization"] = f"Bearer {key}"
        return await send(request)

    async def attempt() -> Any:
        async with opened.post(url, json=body, middlewares=(sign,), allow_redirects=False) as reply:
            if 300 <= reply.status < 400:
                raise Unavailable(f"expected an answer from {address}, found a redirect. Give the final address.")
            remedies = {
                401: "Check the key.",
                402: "Check the account.",
                403: "Check the key.",
                404: "Check the address.",
            }
            _refuse(reply.status, reply.reason, reply.headers, url, remedies.get(reply.status, "Check the request."))
            raw = bytearray()
            async for chunk in reply.content.iter_chunked(CHUNK):
                raw += chunk
                if len(raw) > LARGEST_REPLY:
                    raise Unavailable(
                        f"expected a reply of at most {LARGEST_REPLY:,} bytes from {address}, found more. "
                        "Check the address."
                    )
            try:
                return json.loads(raw)
            except (ValueError, RecursionError):
                raise _Hiccup(f"a reply that is no JSON from {place_of(url)}") from None

    try:
        return await _patiently(attempt, patience, f"an answer from {place_of(url)}")
    except Mistake as mistake:
        if len(key) < 8 or key not in str(mistake):  # a shorter one is a dummy, and a part of many words
            raise
        raise Unavailable(str(mistake).replace(key, "(the key)")) from None  # the server said it back
