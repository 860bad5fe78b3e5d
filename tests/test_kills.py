"""Client and ledger together under SIGKILL: nothing that was committed is asked for again, in ten kills."""

import os
import random
import sys

from gatewise.recordings.calls import Request
from gatewise.recordings.ledger import Ledger
from kills import committed_in, run_killed
from scripted import Scripted

RECORDER = """
import asyncio, sys
from gatewise.recordings.calls import Request
from gatewise.recordings.chats import chat
from gatewise.recordings.endpoints import Settings
from gatewise.recordings.ledger import Ledger

url, path, count, tasks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

async def work(endpoint, ledger, numbers):
    for n in numbers:
        body = {"model": "m", "messages": [{"role": "user", "content": f"number {n}"}]}
        request = Request(endpoint.name, body)
        if request.key not in ledger.find([request.key]):
            await ledger.put(request, await endpoint(request.body))

async def main():
    settings = Settings("m", url, concurrency=tasks)
    with Ledger.open(path) as ledger:
        async with chat(settings) as endpoint:
            numbers = iter(range(count))
            await asyncio.gather(*(work(endpoint, ledger, numbers) for _ in range(tasks)))

asyncio.run(main())
"""


def test_ten_kills_lose_nothing_and_ask_for_nothing_twice_that_was_committed(tmp_path):
    path, count, tasks = tmp_path / "l.sqlite", 800, 16
    with Scripted(latency=0.01) as server:
        command = [sys.executable, "-c", RECORDER, server.url, str(path), str(count), str(tasks)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        seen = run_killed(command, path, server, random.Random(3), kills=10, longest=0.08, env=environment)
        assert seen.kills >= 5  # else the machine is so fast that it was done before
        assert seen.distinct == seen.committed == count
        assert seen.paid_twice == 0
        assert seen.again_in_flight <= tasks * seen.kills
        assert seen.asked == count + seen.again_in_flight
        with Ledger.open(path, readonly=True) as ledger:
            name = f"{server.url}/chat/completions"
            first = Request(name, {"model": "m", "messages": [{"role": "user", "content": "number 0"}]})
            assert ledger.find([first.key])
        assert committed_in(path) == set(server.counts)
    print(seen)
