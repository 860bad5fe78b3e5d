"""What every benchmark here shares: the best of several runs, and one line a figure."""

import time
from collections.abc import Callable


def best(work: Callable[[], object], runs: int = 5) -> float:
    """Return the shortest of several runs, in seconds."""
    shortest = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def line(name: str, seconds: float, *ratios: str) -> None:
    """Print one figure: name, milliseconds, ratios."""
    print(f"  {name:58} {1000 * seconds:10.2f} ms   {'   '.join(ratios)}")
