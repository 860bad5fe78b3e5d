"""Voices: whoever can be asked, through the ledger, so that what was said once is never paid for again.

A call is looked up before it is made, made once however many wait for it, and stored before anybody reads it.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from gatewise.errors import Refused, Unavailable
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.endpoints import FIRST, Form, Prices, Settings, request_body, simpler
from gatewise.recordings.entries import Entry
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.replies import Completion

Ask = Callable[[Request], Awaitable[Reply]]

NOT_ASKED = "not asked"  # the reason of a state that no call was made for
IN_A_ROW = 25  # failures without a success in between, after which an endpoint is left alone
AT_FIRST = 3  # failures before there was any reply; each has waited as long as patience allows


class Marks:
    """Which rows of a ledger were met: a bit each, so that a million of them take 125 kB."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, row: int) -> bool:
        """Mark a row, and say whether it was not before."""
        place, bit = row >> 3, 1 << (row & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 4096 - len(self._bits)))
        new = not self._bits[place] & bit
        self._bits[place] |= bit
        return new


@dataclass
class Tally:
    """What a run has done so far: calls made and found, what they cost, and what failed, by kind."""

    asked: int = 0
    found: int = 0  # in the ledger
    cost: float = 0.0  # US dollars, earlier runs included where the ledger has their calls
    unpriced: int = 0  # calls whose price nobody said
    tokens: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    stopped: str = ""  # why no more is asked; empty while it goes on
    met: Marks = field(default_factory=Marks)  # of the one ledger, so that a call counts once, whoever asks for it


class Purse:
    """What may still be spent. A call holds its worst price until its true one is known."""

    def __init__(self, tally: Tally, limit: float | None = None) -> None:
        self._tally = tally
        self.limit = limit
        self._held = 0.0
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def holding(self, worst: float) -> AsyncIterator[None]:
        """Hold a price, or end the run where it cannot be paid even when all that is under way has come back."""
        if self.limit is None:
            yield
            return
        while self._tally.cost + self._held + worst > self.limit:
            if self._held <= 0:
                spent = f"{self._tally.cost:.4f} $ of {self.limit:g} $ are spent"
                self._tally.stopped = self._tally.stopped or f"{spent}, and the next call may cost {worst:.4f} $"
                raise Unavailable("expected to stay within --max-cost, found it reached.", NOT_ASKED)
            self._freed.clear()
            await self._freed.wait()
        self._held += worst
        try:
            yield
        finally:
            self._held = max(self._held - worst, 0.0) if self._held - worst > 1e-12 else 0.0
            self._freed.set()


class Calls:
    """Calls to one endpoint, each made once; after a failure that no call can better, none is made."""

    def __init__(self, ledger: Ledger | None, tally: Tally, purse: Purse, *, prices: Prices | None = None) -> None:
        self.ledger = ledger  # None where nothing was ever asked, and nobody will be
        self.tally = tally
        self._purse = purse
        self._prices = prices
        self._under_way: dict[str, asyncio.Task[Entry]] = {}
        self._row = 0  # failures since the last success
        self._over: Unavailable | None = None

    def known(self, request: Request) -> Entry | None:
        """Return what the ledger has for a request."""
        key = request.key
        entry = None if self.ledger is None else self.ledger.find([key]).get(key)
        if entry:
            self._count(entry, fresh=False)
        return entry

    async def once(self, request: Request, ask: Ask) -> Entry:
        """Return the entry of a request: from the ledger, from a call under way, or from a call made now."""
        entry = self.known(request)
        if entry:
            return entry
        key = request.key
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.ensure_future(self._pay(request, key, ask))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(task)  # a paid reply is stored even where nobody waits for it any more

    def end(self, failure: Unavailable) -> Unavailable:
        """Return a failure after which no call is made: every further one fails with it."""
        self._over = self._over or failure
        return self._over

    async def settled(self) -> None:
        """Return when every call under way has come back and is stored: each is paid for, whoever has given up."""
        while self._under_way:
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    def _landed(self, key: str, task: asyncio.Task[Entry]) -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen, also where nobody waits any more

    async def _pay(self, request: Request, key: str, ask: Ask) -> Entry:
        if self.ledger is None:
            raise Unavailable("expected a ledger to keep the reply, found none. Open one.", NOT_ASKED)
        if self.tally.stopped:
            raise Unavailable(f"expected to go on, found: {self.tally.stopped}.", NOT_ASKED)
        if self._over:
            raise self._over
        async with self._purse.holding(self._worst(request.text, request.body)):
            if self.tally.stopped:  # while it waited for what others held
                raise Unavailable(f"expected to go on, found: {self.tally.stopped}.", NOT_ASKED)
            try:
                reply = await ask(request)
            except Unavailable as failure:
                self._fail(failure)
                raise
            self._row = 0
            entry = await self.ledger.put(request, reply)
            self._count(entry, fresh=True)
        return entry

    def _fail(self, failure: Unavailable) -> None:
        if isinstance(failure, Refused) or failure.kind == NOT_ASKED:
            return  # the endpoint is there; it is this request that it will not serve
        self.tally.failures[failure.kind] += 1
        self._row += 1
        if failure.final:
            self._over = failure
        elif self._row >= IN_A_ROW:
            self._over = Unavailable(
                f"expected answers, found {self._row} failures in a row, the last: {failure}",
                failure.kind,
                final=True,
            )

    def _count(self, entry: Entry, *, fresh: bool) -> None:
        """Count an entry once, whether it was found or paid for now."""
        if not self.tally.met.add(entry.row):
            return
        self.tally.asked += fresh
        self.tally.found += not fresh
        cost, completion = None, entry.completion
        if isinstance(completion, Completion):
            self.tally.tokens += (completion.input_tokens or 0) + (completion.output_tokens or 0)
            cost = price_of(completion, self._prices)
        self.tally.unpriced += cost is None
        if cost is None and self._purse.limit is not None:  # a reply that names no tokens may have cost all it could
            cost = self._worst(entry.body, json.loads(entry.body))
        self.tally.cost += cost or 0.0

    def _worst(self, text: str, body: Mapping[str, Any]) -> float:
        """Return the most that a call can cost: no token is shorter than a byte, and no reply longer than asked."""
        if self._prices is None:
            return 0.0
        limit = max(body.get("max_tokens", 0), body.get("max_completion_tokens", 0))
        return float(len(text) * self._prices.input + limit * self._prices.output) / 1e6


def price_of(completion: Completion, prices: Prices | None) -> float | None:
    """Return what a reply cost in US dollars: as it says, else by the prices; None where neither is known."""
    if completion.cost_usd is not None:
        return completion.cost_usd
    if prices is None or completion.input_tokens is None or completion.output_tokens is None:
        return None
    return (completion.input_tokens * prices.input + completion.output_tokens * prices.output) / 1e6


async def nobody(request: Request) -> Reply:
    """Raise: nothing is asked. What the ledger has is all there is."""
    _say_nothing()


def _say_nothing() -> NoReturn:
    raise Unavailable("expected the reply in the ledger, found none. Record it first.", NOT_ASKED)


class Voice:
    """A model behind an endpoint; how it wants to be asked is found out once and noted in the ledger."""

    def __init__(self, name: str, settings: Settings, calls: Calls, ask: Ask) -> None:
        self.name = name
        self.settings = settings
        self.calls = calls
        self._ask = ask
        self._without: Callable[[Request], None] = lambda request: None  # told of what an offline voice has not said
        noted = calls.ledger.noted(name, model=settings.model) if calls.ledger is not None else None
        self._noted = Form.from_json(noted) if noted else None
        self.form = self._noted or FIRST
        self._settled = False
        self._negotiation = asyncio.Lock()
        self._failed = 0  # negotiations

    def offline(self, without: Callable[[Request], None] | None = None) -> "Voice":
        """Return a voice that says what this one has said, and asks nobody; it tells what it would have to ask."""
        other = self.asking(nobody)
        other._without = without or other._without
        return other

    def asking(self, ask: Ask) -> "Voice":
        """Return a voice that says what this one has said, and asks elsewhere for the rest, in the same form."""
        other = Voice(self.name, self.settings, self.calls, ask)
        other._settled, other.form = True, self.form
        return other

    def note(self, form: Form) -> None:
        """Note in the ledger how the model wants to be asked."""
        if self.calls.ledger is not None and form != self._noted:
            self.calls.ledger.note(self.name, form.as_json(), model=self.settings.model)
        self.form = self._noted = form

    def request(
        self,
        messages: Sequence[Mapping[str, str]],
        schema: Mapping[str, Any] | None = None,
        *,
        kind: str = "answer",
        attempt: int = 0,
        max_tokens: int | None = None,
        top_logprobs: int | None = None,
        form: Form | None = None,
    ) -> Request:
        """Return the request that asks for a reply to some messages."""
        body = request_body(
            self.settings, form or self.form, messages, schema, max_tokens=max_tokens, top_logprobs=top_logprobs
        )
        return Request(self.name, body, attempt, kind)

    async def say(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None = None, **how: Any
    ) -> Entry:
        """Return what the model says to some messages, from the ledger where it has said it before."""
        if self._ask is nobody:
            request = self.request(messages, schema, **how)
            entry = self.calls.known(request)
            if entry is None:
                self._without(request)
                _say_nothing()
            return entry
        if not self._settled:
            entry = self.calls.known(self.request(messages, schema, **how))
            if entry:
                return entry
            async with self._negotiation:
                if not self._settled:
                    return await self._negotiated(lambda form: self.request(messages, schema, form=form, **how))
        return await self.calls.once(self.request(messages, schema, **how), self._ask)

    async def _negotiated(self, request: Callable[[Form], Request]) -> Entry:
        """Return the first reply of this run, asked for in ever simpler forms until the endpoint serves one."""
        form = self.form
        while True:
            try:
                entry = await self.calls.once(request(form), self._ask)
            except Refused as refused:
                simpler_form = simpler(form, refused)
                if simpler_form is None:
                    raise
                form = simpler_form
            except Unavailable as failure:
                if self._noted:  # it has answered before: what fails is perhaps this question alone
                    self._settled = True
                    raise
                self._failed += not failure.final and failure.kind != NOT_ASKED
                if self._failed < AT_FIRST:
                    raise
                told = f"expected a first answer, found {AT_FIRST} questions without one, the last: {failure}"
                raise self.calls.end(Unavailable(told, failure.kind, final=True)) from None
            else:
                self.note(form)
                self._settled = True
                return entry
