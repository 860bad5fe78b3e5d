"""Retries: an attempt, made again after what may pass, as often and as long as patience allows.

Waits double, or are what the server names; they run on the event loop's clock, which no change of the system's clock
moves. What is raised is raised outside of every `except`: the library's own errors carry headers, and keys in them.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import aiohttp

from gatewise.errors import Unavailable

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """How often a request is tried without any progress, and how long to wait in between, in seconds."""

    attempts: int = 5
    first_wait: float = 0.5
    longest_wait: float = 60.0
    connect: float = 20.0
    silence: float = 60.0  # without a byte


class Hiccup(Exception):
    """An attempt that failed in a way that may pass; `late` where it only ran out of the time for all."""

    def __init__(
        self,
        reason: str,
        wait: float | None = None,
        *,
        progressed: bool = False,
        kind: str = "network",
        late: bool = False,
    ) -> None:
        super().__init__(reason)
        self.wait = wait
        self.progressed = progressed
        self.kind = kind
        self.late = late


async def patiently(
    attempt: Callable[[], Awaitable[T]],
    patience: Patience,
    what: str,
    *,
    rest: Callable[[float], Awaitable[None]] | None = None,
    within: Callable[[], tuple[float, float]] = lambda: (float("inf"), 0.0),
    attempts: Callable[[], int] | None = None,
    hide: Callable[[str], str] = str,
) -> T:
    """Return what an attempt returns, trying again after hiccups.

    `within` says when all attempts must be over, on the loop's clock, and how long that is in all; `attempts` how
    many there may be at most, as things stand; `hide` takes out of an error's text what must not be shown.
    """
    failures = 0
    before: Hiccup | None = None
    while True:
        failure: Hiccup | Unavailable
        try:
            return await attempt()
        except Hiccup as hiccup:
            failure = before if before and hiccup.late else hiccup
        except (aiohttp.ClientError, TimeoutError) as error:
            failure = _failure(error, patience, what, hide)
        if isinstance(failure, Unavailable):
            raise failure
        before, failures = failure, 1 if failure.progressed else failures + 1
        if failure.wait is not None and failure.wait > patience.longest_wait:
            raise Unavailable(later(what, str(failure), failure.wait), failure.kind)
        wait = min(patience.first_wait * 2 ** (failures - 1), patience.longest_wait)
        wait *= random.uniform(0.5, 1.0)  # noqa: S311 -- so that many clients do not come back at once
        if failure.wait is not None:
            wait = max(wait, failure.wait) if failure.wait else 0.0
        end, overall = within()
        late = asyncio.get_running_loop().time() + wait >= end
        most = min(patience.attempts, attempts() if attempts else patience.attempts)
        if failures >= most or late:
            tries = "1 try" if failures == 1 else f"{failures} tries"
            bound = f" within {overall:g} s" if late else ""
            raise Unavailable(
                f"expected {what}{bound}, found after {tries}: {failure}. Try again later.", failure.kind
            )
        await (rest or asyncio.sleep)(wait)


def later(what: str, said: str, wait: float) -> str:
    """Return the sentence for a server that asks to wait longer than patience allows."""
    return f"expected {what}, found: {said}, and asks to wait {wait:,.10g} s. Try again then."


def _failure(error: Exception, patience: Patience, what: str, hide: Callable[[str], str]) -> Hiccup | Unavailable:
    """Return what an error of the connection means."""
    reason = reason_of(error, hide)
    match error:
        case aiohttp.TooManyRedirects():
            return Unavailable(f"expected {what}, found too many redirects. Choose another address.")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return Unavailable(
                f"expected {what}, found a redirect to what is no web address. Choose another address."
            )
        case aiohttp.ConnectionTimeoutError():
            return Hiccup(f"no connection within {patience.connect:g} s", kind="timeout")
        case TimeoutError():
            return Hiccup(f"no answer within {patience.silence:g} s", kind="timeout")
        case aiohttp.ClientConnectorCertificateError():
            found = f"found a certificate that nobody here vouches for ({reason})"
            return Unavailable(f"expected {what}, {found}. Name the file of its authority.", final=True)
        case aiohttp.ClientConnectorSSLError() if _SPEAKS_NO_TLS & set(str(error.os_error).upper().split()):
            found = "found no TLS at that address"
            return Unavailable(f"expected {what}, {found}. Should it begin with http://?", final=True)
        case aiohttp.ClientHttpProxyError(status=407):
            found = "found a proxy that wants a user and a password"
            return Unavailable(f"expected {what}, {found}. Give them in the environment's proxy.", "auth", final=True)
        case aiohttp.ClientHttpProxyError():
            return Hiccup(f"a proxy that answers HTTP {error.status} ({reason})")
        case aiohttp.ClientResponseError():
            return Hiccup(f"what is no HTTP ({reason})", kind="garbage")
    return Hiccup(reason)


_SPEAKS_NO_TLS = {"WRONG_VERSION_NUMBER]", "RECORD_LAYER_FAILURE]", "HTTP_REQUEST]", "UNKNOWN_PROTOCOL]"}


def reason_of(error: Exception, hide: Callable[[str], str] = str) -> str:
    """Return what an error says, as one tame line."""
    said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)  # the rest is its address
    reason = hide(said).partition("\n")[0] or type(error).__name__
    return ascii(reason)[1:-1][:200]


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
