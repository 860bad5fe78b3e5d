"""Paces: who may call when. So many at once, so many requests and tokens a minute, evenly spread.

Calls are spread evenly, for a server that allows 600 a minute may well count by the second. All waiting is on the
event loop's clock, which no change of the system's clock moves.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MINUTE = 60.0  # seconds


class Pace:
    """Turns for the calls to one endpoint. A call that waits to be tried again holds no turn."""

    def __init__(
        self,
        concurrency: int,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
    ) -> None:
        self._permits = asyncio.Semaphore(concurrency)
        self._request = MINUTE / requests_per_minute if requests_per_minute else 0.0  # seconds that each takes up
        self._token = MINUTE / tokens_per_minute if tokens_per_minute else 0.0
        self._next_request = self._next_tokens = float("-inf")  # when the next may start
        self._over = asyncio.Event()

    @asynccontextmanager
    async def turn(self, tokens: int = 0) -> AsyncIterator[None]:
        """Hold one of the permits, from the moment on that the rates allow a call of so many tokens."""
        async with self._permits:
            await self._wait(tokens)
            yield

    async def _wait(self, tokens: int) -> None:
        if self._over.is_set():
            return
        now = asyncio.get_running_loop().time()
        start = max(now, self._next_request, self._next_tokens)
        if self._request:
            self._next_request = start + self._request
        if self._token:
            self._next_tokens = start + tokens * self._token
        if start > now:
            await self.rest(start - now)

    def correct(self, guessed: int, used: int) -> None:
        """Count the tokens that a call used in place of those that were guessed."""
        if self._token:
            self._next_tokens += (used - guessed) * self._token

    def hold(self, seconds: float) -> None:
        """Let no other call start for so long: the server asked for it."""
        until = asyncio.get_running_loop().time() + seconds
        self._next_request = max(self._next_request, until)

    async def rest(self, seconds: float) -> None:
        """Wait, but no longer than until the pace is given up."""
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return

    def give_up(self) -> None:
        """End all waiting, now and later: there is nothing left to wait for."""
        self._over.set()
