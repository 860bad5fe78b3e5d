import asyncio
import time
from itertools import pairwise

import pytest

from gatewise.recordings.paces import MINUTE, Pace


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose waits take no time: its clock jumps to whatever is due next."""

    ahead = 0.0

    def time(self):
        return super().time() + self.ahead

    def _run_once(self):
        if not self._ready and self._scheduled:
            self.ahead += max(0.0, self._scheduled[0].when() - self.time())
        super()._run_once()


def played(scene):
    """Return what a scene returns, played on a clock of its own."""
    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(scene())


def starts(count, tokens=0, seconds=0.0, **pace):
    """Return when each of several calls began, in seconds from the first."""

    async def scene():
        clock = asyncio.get_running_loop().time
        paced, began = Pace(**{"concurrency": 1000, **pace}), []

        async def call():
            async with paced.turn(tokens):
                began.append(clock())
                await asyncio.sleep(seconds)

        await asyncio.gather(*(call() for _ in range(count)))
        return [one - began[0] for one in began]

    return played(scene)


def most_within_a_minute(began):
    return max(sum(one <= other < one + MINUTE for other in began) for one in began)


def test_no_more_calls_run_at_once_than_are_allowed():
    began = starts(12, seconds=1.0, concurrency=3)
    assert began == pytest.approx([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], abs=0.1)


def test_no_rate_means_no_wait():
    assert max(starts(500)) < 1


@pytest.mark.parametrize("rate", [1, 30, 600, 0.5])
def test_requests_are_spread_evenly_over_the_minute(rate):
    began = starts(20, requests_per_minute=rate)
    steps = [later - sooner for sooner, later in pairwise(began)]
    assert steps == pytest.approx([MINUTE / rate] * 19, abs=0.05)


def test_no_minute_holds_more_requests_than_are_allowed():
    assert most_within_a_minute(starts(200, requests_per_minute=60, seconds=2.5)) <= 61  # by a hair of the clock


def test_tokens_are_spread_evenly_and_the_slower_rate_decides():
    began = starts(4, tokens=500, requests_per_minute=600, tokens_per_minute=1000)
    assert began == pytest.approx([0, 30, 60, 90], abs=0.1)
    began = starts(4, tokens=1, requests_per_minute=6, tokens_per_minute=1000)
    assert began == pytest.approx([0, 10, 20, 30], abs=0.1)


def test_a_call_of_more_tokens_than_a_minute_allows_is_made_and_then_paid_off():
    assert starts(2, tokens=3000, tokens_per_minute=1000) == pytest.approx([0, 180], abs=0.1)


@pytest.mark.parametrize(("used", "second"), [(1000, 60), (100, 6), (2000, 120)])
def test_the_tokens_that_were_used_take_the_place_of_those_that_were_guessed(used, second):
    async def scene():
        clock, pace = asyncio.get_running_loop().time, Pace(1, None, 1000)
        start = clock()
        async with pace.turn(1000):
            pace.correct(1000, used)
        async with pace.turn(1000):
            return clock() - start

    assert played(scene) == pytest.approx(second, abs=0.1)


def test_time_that_was_not_used_is_not_saved_up():
    async def scene():
        clock, pace = asyncio.get_running_loop().time, Pace(9, 60)
        async with pace.turn():
            pass
        await asyncio.sleep(100)
        began = []
        for _ in range(3):
            async with pace.turn():
                began.append(clock())
        return [one - began[0] for one in began]

    assert played(scene) == pytest.approx([0, 1, 2], abs=0.1)


def test_a_permit_is_given_back_whatever_happens_in_its_turn():
    async def scene():
        pace = Pace(1)
        for _ in range(3):
            with pytest.raises(ValueError, match="no"):
                async with pace.turn():
                    raise ValueError("no")
        async with asyncio.timeout(1), pace.turn():
            return True

    assert played(scene)


def test_a_call_that_is_cancelled_while_it_waits_gives_its_permit_back():
    async def scene():
        pace = Pace(1, 1)
        async with pace.turn():
            pass

        async def call():
            async with pace.turn():
                raise AssertionError("its turn has not come")

        task = asyncio.create_task(call())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with pace.turn():
            return True

    assert played(scene)


def test_a_hold_keeps_everybody_back_for_so_long():
    async def scene():
        clock, pace = asyncio.get_running_loop().time, Pace(5)
        start = clock()
        pace.hold(20)
        pace.hold(5)  # the longer one stands
        began = []

        async def call():
            async with pace.turn():
                began.append(clock() - start)

        await asyncio.gather(call(), call(), call())
        return began

    assert played(scene) == pytest.approx([20, 20, 20], abs=0.1)


def test_giving_up_ends_every_wait_now_and_for_so_long():
    async def scene():
        clock, pace = asyncio.get_running_loop().time, Pace(2, 1)
        start = clock()

        async def call():
            async with pace.turn():
                return clock() - start

        waiting = [asyncio.create_task(call()) for _ in range(6)]
        resting = asyncio.create_task(pace.rest(1000))
        await asyncio.sleep(3)
        pace.give_up(10)
        ended = await asyncio.gather(*waiting)
        await resting
        assert clock() - start < 4
        await pace.rest(1000)
        assert clock() - start < 4
        await asyncio.sleep(20)
        await pace.rest(7)
        return [*ended, clock() - start]

    began = played(scene)
    assert began == pytest.approx([0, 3, 3, 3, 3, 3, 30], abs=0.1)


def test_a_jump_of_the_systems_clock_moves_no_turn(monkeypatch):
    jumps = iter(range(0, 10**9, 86_400))
    monkeypatch.setattr(time, "time", lambda: float(next(jumps)))
    assert starts(4, requests_per_minute=60) == pytest.approx([0, 1, 2, 3], abs=0.1)


def test_many_calls_in_real_time_keep_to_the_rate():
    async def scene():
        pace, start = Pace(50, 6000), time.monotonic()

        async def call():
            async with pace.turn():
                return time.monotonic() - start

        return await asyncio.gather(*(call() for _ in range(31)))

    began = sorted(asyncio.run(scene()))
    assert 0.3 <= began[-1] < 5
    assert all(one >= 0.01 * place - 0.002 for place, one in enumerate(began))
