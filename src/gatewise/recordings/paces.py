"""Paces: who may call when. So many at once, so many requests and tokens a minute, evenly spread.

Calls are spread evenly, for a server that allows 600 a minute may well count by the second. All waiting is on the
event loop's clock, which no change of the system's clock moves.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

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
        self._given_up_until = float("-inf")
        self._given_up = asyncio.Event()

    @asynccontextmanager
    async def turn(self, tokens: int = 0) -> AsyncIterator[None]:
        """Hold one of the permits, from the moment on that the rates allow a call of so many tokens."""
        async with self._permits:
            now = asyncio.get_running_loop().time()
            start = max(now, self._next_request, self._next_tokens)
            if now >= self._given_up_until:
                self._next_request = start + self._request
                self._next_tokens = start + tokens * self._token
                if start > now:
                    await self.rest(start - now)
            yield

    def correct(self, guessed: int, used: int) -> None:
        """Count the tokens that a call used in place of those that were guessed."""
        self._next_tokens += (used - guessed) * self._token

    def hold(self, seconds: float) -> None:
        """Let no other call start for so long: the server asked for it."""
        self._next_request = max(self._next_request, asyncio.get_running_loop().time() + seconds)

    async def rest(self, seconds: float) -> None:
        """Wait, but no longer than until the pace is given up."""
        if asyncio.get_running_loop().time() >= self._given_up_until:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._given_up.wait()

    def give_up(self, seconds: float) -> None:
        """End all waiting, now and for so long: there is nothing to wait for."""
        self._given_up_until = asyncio.get_running_loop().time() + seconds
        self._given_up.set()
        self._given_up = asyncio.Event()
