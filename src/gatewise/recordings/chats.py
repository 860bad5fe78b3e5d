"""Chats: a model behind an OpenAI-compatible address, called at a pace; after a final failure, called no more."""

import asyncio
import json
import ssl
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from uuid import uuid4

import aiohttp

from gatewise.errors import BadChoice, Refused, Unavailable
from gatewise.recordings.calls import Reply, as_sent
from gatewise.recordings.client import Answer, Key, exchange, hidden, place_of, status_line
from gatewise.recordings.endpoints import Settings
from gatewise.recordings.faults import LONGEST_SAID, Fault, fault_in, fault_of
from gatewise.recordings.paces import Pace
from gatewise.recordings.retries import Hiccup, Patience, later, patiently, retry_after

STRANGER = 4  # tries while nobody has answered at an address at all: it may well be the wrong one
CALLS = Patience(attempts=10)  # about two minutes: an endpoint may be busy for as long


def chat(settings: Settings, *, key: str = "", patience: Patience = CALLS) -> "Chat":
    """Return the endpoint of a model, to be opened with `async with`; the caller keeps the key."""
    kept, key = Key(key), ""  # no frame of a traceback holds it
    kept.require_fit()
    return Chat(settings, kept, patience)


class Chat:
    """An endpoint over HTTP. What no other call can better is found out once, and told to each in the same words."""

    def __init__(self, settings: Settings, key: Key, patience: Patience) -> None:
        self.name = settings.address
        self._settings = settings
        self._key = key
        self._patience = patience
        self._met = False  # whether anybody has answered, whatever it was
        self._what = f"an answer from {place_of(self.name)}"
        self._pace = Pace(settings.concurrency, settings.requests_per_minute, settings.tokens_per_minute)
        self._proxy = _proxy_for(settings)
        self._tls = _tls(settings)
        self._shut: Unavailable | None = None  # what calls fail with
        self._shut_until = 0.0

    def __repr__(self) -> str:
        return f"Chat({self.name!r})"

    async def __aenter__(self) -> "Chat":
        timeout = aiohttp.ClientTimeout(total=None, connect=self._patience.connect)  # ours bound the rest
        connector = _Connector(limit=0, ssl=self._tls)
        self._opened = aiohttp.ClientSession(timeout=timeout, connector=connector)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.close()

    async def __call__(self, body: Mapping[str, Any]) -> Reply:
        """Return the reply to a body, word for word as it came, but for the key where a server says it back."""
        clock = asyncio.get_running_loop().time
        settings = self._settings
        sent = as_sent(body).encode()
        tokens = len(sent) // 4 + _limit_in(body)  # a guess, until the reply says
        headers = {"Idempotency-Key": uuid4().hex}  # a server that knows it answers a call that is tried twice once
        end = float("inf")

        async def attempt() -> Reply:
            nonlocal end
            self._require_open()
            async with self._pace.turn(tokens):
                self._require_open()
                now = clock()
                if now >= end:
                    raise Hiccup("no turn in time", kind="timeout", late=True)
                end = min(end, now + settings.overall)
                bound = min(settings.timeout, end - now)
                try:
                    async with asyncio.timeout(bound) as limit:
                        return await self._once(sent, headers, tokens)
                except TimeoutError:
                    if not limit.expired():
                        raise
            raise Hiccup(f"no answer within {bound:.3g} s", kind="timeout", late=bound < settings.timeout)

        try:
            return await patiently(
                attempt,
                self._patience,
                self._what,
                rest=self._pace.rest,
                within=lambda: (end, settings.overall),
                attempts=lambda: self._patience.attempts if self._met else STRANGER,
                hide=self._key.hide,
            )
        except Unavailable as unavailable:
            failure = hidden(unavailable, self._key)
        if failure.final:
            self._shut_for(failure, float("inf"))
            self._require_open()  # in the words of the first, whatever those of the others on their way
        raise failure

    def stop(self, failure: Unavailable) -> None:
        """Let what is on its way come back, and send nothing more: no call waits for its turn or for another try."""
        self._shut_for(failure, float("inf"))

    def _require_open(self) -> None:
        if self._shut and asyncio.get_running_loop().time() < self._shut_until:
            raise Unavailable(str(self._shut), self._shut.kind, final=self._shut.final)

    def _shut_for(self, failure: Unavailable, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        if until > self._shut_until:
            self._shut, self._shut_until = failure, until
            self._pace.give_up(seconds)

    async def _once(self, sent: bytes, headers: Mapping[str, str], tokens: int) -> Reply:
        started, start = time.time(), time.perf_counter()
        largest, proxy = self._settings.largest_reply, self._proxy
        answer = await exchange(
            self._opened, self.name, sent, key=self._key, largest=largest, headers=headers, proxy=proxy
        )
        self._met = True
        latency = time.perf_counter() - start
        raw = self._key.hide(answer.body.decode("utf-8-sig", "replace"))
        fault = fault_in(raw) if answer.status < 400 else fault_of(answer.status, raw)
        if self._settings.tokens_per_minute:
            self._pace.correct(tokens, _tokens_in(raw, tokens) if fault is None else 0)
        if fault is None:
            return Reply(raw, started, latency)
        raise self._failure(fault, answer, raw)

    def _failure(self, fault: Fault, answer: Answer, raw: str) -> Exception:
        """Return what a call fails with, or tries again after."""
        if answer.status < 400:
            kind = ascii(self._key.hide(answer.headers.get("Content-Type", "")).partition(";")[0])[1:-1][:60]
            of_type = f", of type {kind}" if fault.kind == "garbage" and kind else ""
            told = f"a reply of status {answer.status} from {place_of(self.name)} that holds no answer"
            told += f" ({fault.words}{of_type})" if fault.words else ""
        else:
            told = status_line(answer.status, answer.reason, self.name, fault.words)
        if fault.passes:
            return self._hiccup(fault, told, retry_after(answer.headers))
        if fault.kind == "refused":
            message = f"expected {self._what}, found: {told}. Check the request."
            return Refused(self._key.hide(message), answer.status, raw[:LONGEST_SAID])
        settings = self._settings
        remedies = {
            "auth": f"Check the key in {settings.key_env}"
            if settings.key_env
            else "Name the variable that holds its key",
            "quota": "Top up the account or raise its limit, then go on",
            "missing": f"Check the model {ascii(settings.model)[1:-1]} and the address {self.name}",
        }
        return Unavailable(
            f"expected {self._what}, found: {told}. {remedies[fault.kind]}.", fault.kind, final=fault.final
        )

    def _hiccup(self, fault: Fault, told: str, wait: float | None) -> Exception:
        if wait is None or fault.kind not in ("rate", "server"):
            return Hiccup(told, wait, kind=fault.kind)
        if wait <= self._patience.longest_wait:
            self._pace.hold(wait)  # the others, too
            return Hiccup(told, wait, kind=fault.kind)
        failure = Unavailable(self._key.hide(later(self._what, told, wait)), fault.kind)
        self._shut_for(failure, wait)
        return failure


class _Connector(aiohttp.TCPConnector):
    """Connections, none used again once something came on it that nobody asked for: it would pass for an answer."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            if connection.protocol is None or not connection.protocol.should_close:
                return connection
            connection.close()


def _limit_in(body: Mapping[str, Any]) -> int:
    limit = body.get("max_tokens", body.get("max_completion_tokens"))
    return limit if isinstance(limit, int) else 0


def _tokens_in(raw: str, guessed: int) -> int:
    usage = json.loads(raw).get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and total >= 0 else guessed


def _proxy_for(settings: Settings) -> str | None:
    """Return the proxy that leads to an endpoint: the one that is named, else the environment's."""
    if settings.proxy:
        return None if settings.proxy == "none" else settings.proxy
    parts = urlsplit(settings.url)
    found = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    if not found:
        return None
    proxy = found if "://" in found else f"http://{found}"  # as other tools read it
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise BadChoice(
            f"expected an HTTP proxy in the environment's {parts.scheme}_proxy, found another kind. Name one in the "
            'settings of the model, or "none".'
        )
    return proxy


def _tls(settings: Settings) -> ssl.SSLContext | bool:
    if not settings.ca:
        return True  # what the system trusts
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(settings.ca)
    except OSError as error:  # an SSLError is one
        found = "no certificate in it" if isinstance(error, ssl.SSLError) else error.strerror
        raise BadChoice(
            f"expected a file of PEM certificates at {settings.ca}, found: {found}. Name another."
        ) from None
    return context
