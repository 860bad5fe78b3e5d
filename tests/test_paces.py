import asyncio

from gatewise.recordings.paces import Pace


def test_no_more_calls_run_at_once_than_are_allowed():
    async def scene():
        pace, running, most = Pace(3), 0, 0

        async def call():
            nonlocal running, most
            async with pace.turn():
                running += 1
                most = max(most, running)
                await asyncio.sleep(0.001)
                running -= 1

        await asyncio.gather(*(call() for _ in range(20)))
        return most

    assert asyncio.run(scene()) == 3
