"""Runs that are killed: a command is killed at random moments, again and again, and then left to end.

After every kill the ledger is opened, and what it holds is what was committed: no body of it may be asked for again.
"""

import hashlib
import subprocess
import time
from dataclasses import dataclass

from gatewise.recordings.ledger import Ledger


@dataclass
class Killed:
    """What the server and the ledger saw over all runs."""

    kills: int = 0
    asked: int = 0  # requests that the server saw
    distinct: int = 0  # … of different bodies
    again_in_flight: int = 0  # asked again although the server had seen it: it was not in the ledger at the kill
    paid_twice: int = 0  # asked again although it was in the ledger at the kill: must be 0
    committed: int = 0  # entries at the end

    def __str__(self):
        return (
            f"{self.kills} kills: {self.asked:,} requests for {self.distinct:,} calls, {self.again_in_flight:,} in "
            f"flight asked again, {self.paid_twice:,} committed asked again, {self.committed:,} in the ledger"
        )


def committed_in(ledger):
    """Return the hashes of the bodies that a ledger holds, as the server counts them."""
    if not ledger.exists():
        return set()
    with Ledger.open(ledger) as opened:
        assert list(opened.verify()) == []
        return {hashlib.sha256(one.body.encode()).hexdigest() for one in opened.entries()}


def run_killed(command, ledger, server, chance, *, kills, longest=0.5, start=0.0, **popen):
    """Run a command, kill it `kills` times at random, let it end, and return what was seen.

    A moment is drawn from the first request that the server sees (or from the start, `start` seconds later) on.
    """
    seen = Killed()
    for _ in range(kills):
        before = committed_in(ledger)
        counts = server.counts.copy()
        one = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **popen)
        end = time.monotonic() + 60
        while server.counts.total() == counts.total() and one.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(start + chance.uniform(0.0, longest))
        one.kill()
        one.communicate()
        assert one.returncode in (-9, 0)
        seen.kills += one.returncode == -9
        tally(seen, server, counts, before)
    before, counts = committed_in(ledger), server.counts.copy()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **popen)
    tally(seen, server, counts, before)
    seen.asked, seen.distinct = server.counts.total(), len(server.counts)
    seen.committed = len(committed_in(ledger))
    return seen


def tally(seen, server, counts, before):
    for name, count in (server.counts - counts).items():
        again = count if counts[name] else count - 1
        if name in before:
            seen.paid_twice += count
        else:
            seen.again_in_flight += again
