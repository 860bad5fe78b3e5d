"""The exact frontier and a full replay, side by side in one run with what they replace.

    python benchmarks/replay.py [--episodes 10000000]

The peers: (a) one vectorised replay per threshold and budget, on doubles, as one writes it first; (a') that loop at
its sharpest; (b) a plain copy of the input arrays.
"""

import argparse
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sides import best, line

from gatewise import calibrate, frontier, summarize
from gatewise.files import reconstruction
from gatewise.replays.arrays import levels
from gatewise.replays.frontier import HAS_NUMBA, Frontier, tally_codes

LEVELS, DEPTHS, LOW = 101, 4, 31


Counts = npt.NDArray[np.int64]  # (committed, correct, cost) by budget and threshold


def one_replay_each(scores: npt.NDArray[Any], labels: npt.NDArray[Any], thresholds: npt.NDArray[Any]) -> Counts:
    """Peer (a): for each budget and threshold walk all episodes at once, then count where they stopped."""
    found = np.zeros((3, DEPTHS, len(thresholds)), np.int64)
    everyone = np.arange(len(scores))
    for budget in range(DEPTHS):
        for place, threshold in enumerate(thresholds):
            stop = np.full(len(scores), budget, np.int8)
            committed = np.zeros(len(scores), np.bool_)
            for depth in range(budget + 1):
                now = ~committed & (scores[:, depth] >= threshold)
                stop[now] = depth
                committed |= now
            right = labels[everyone, stop] == 1
            found[:, budget, place] = committed.sum(), (committed & right).sum(), stop.sum(dtype=np.int64)
    return found


def one_count_each(codes: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Counts:
    """Peer (a'): the same loop at its sharpest: byte codes, nothing kept but counts."""
    found = np.zeros((3, DEPTHS, LEVELS), np.int64)
    for budget in range(DEPTHS):
        for place in range(LEVELS):
            going = np.ones(len(codes), np.bool_)
            for depth in range(budget + 1):
                commits = going & (codes[:, depth] > place)
                found[0, budget, place] += np.count_nonzero(commits)
                found[1, budget, place] += np.count_nonzero(commits & (labels[:, depth] == 1))
                going &= ~commits
                if depth < budget:
                    found[2, budget, place] += np.count_nonzero(going)
    return found


def main() -> None:
    """Print every figure with its ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=10_000_000)
    n = parser.parse_args().episodes
    rng = np.random.default_rng(0)
    codes = np.asfortranarray(rng.integers(1, LEVELS + 1, (n, DEPTHS), dtype=np.uint8))
    labels = np.asfortranarray(rng.integers(0, 2, (n, DEPTHS), dtype=np.int8))
    axis = np.arange(LEVELS) / 100
    print(f"frontier: {n:,} episodes × {DEPTHS} depths, {LEVELS} distinct confidences, uniform at random")
    print(f"input: codes {codes.dtype}, labels {labels.dtype}, {(codes.nbytes + labels.nbytes) / 1e6:.0f} MB")

    copies = np.empty_like(codes, order="K"), np.empty_like(labels, order="K")

    def copy() -> None:
        np.copyto(copies[0], codes)
        np.copyto(copies[1], labels)

    copied = best(copy)
    scores = np.asfortranarray(axis[codes - 1])
    few = slice(0, min(n, 1_000_000))
    replayed = best(lambda: one_replay_each(scores[few], labels[few], axis), 1) * n / (few.stop - few.start)
    scale = "" if few.stop == n else f", from {few.stop:,} episodes"
    line(f"(a) one vectorised replay per threshold and budget{scale}", replayed)
    counted = best(lambda: one_count_each(codes, labels), 1)
    line("(a') the same loop at its sharpest, on the byte codes", counted)
    line("(b) plain copy of the input", copied)
    kernels: dict[str, dict[str, Any]] = {"numpy": {"compiled": False}}
    if HAS_NUMBA:
        kernels |= {
            "numba, one thread": {"compiled": True},
            "numba, two threads": {"compiled": True, "threads": 2},
        }

    def surface(**options: Any) -> Frontier:
        return Frontier.of(tally_codes(codes, labels, levels=axis, low=LOW, **options))

    expected = one_count_each(codes[:100_000], labels[:100_000])
    if (expected != one_replay_each(scores[:100_000], labels[:100_000], axis)).any():
        raise SystemExit("the peers differ from each other")
    for name, options in kernels.items():
        small = Frontier.of(tally_codes(codes[:100_000], labels[:100_000], levels=axis, low=LOW, **options))
        same = (small.committed == expected[0]).all() and (small.correct == expected[1]).all()
        if not (same and (small.cost == expected[2]).all()):
            raise SystemExit(f"{name} differs from peer (a)")
        taken = best(partial(surface, **options))
        line(
            f"frontier, {name}",
            taken,
            f"{replayed / taken:5.0f} × faster than (a)",
            f"{counted / taken:5.0f} × than (a')",
            f"{taken / copied:5.1f} × (b)",
        )
    tracemalloc.start()
    Frontier.of(tally_codes(codes, labels, levels=axis, low=LOW, compiled=False))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    share = peak / (codes.nbytes + labels.nbytes)
    print(f"  peak memory beside the input, numpy: {peak / 1e6:.1f} MB = {share:.3f} × input")

    size = few.stop
    grid, smooth = rng.integers(0, 101, (size, DEPTHS)) / 100, rng.random((size, DEPTHS))
    line(f"coding {size:,} × {DEPTHS} doubles on a grid of hundredths", best(lambda: levels(grid), 3))
    line(f"coding {size:,} × {DEPTHS} continuous doubles (a sort)", best(lambda: levels(smooth), 3))

    traces = reconstruction("gpt-oss-120b")
    test = traces.split("test")
    print(f"\na full replay: {len(test):,} × {test.depths} states, 7 systems × 3 groups, both sweeps, all diagnoses")
    line("calibrate on 4,910 traces, leak hashes included", best(lambda: calibrate(traces)))
    fitted = calibrate(traces)
    line("summarize", best(lambda: summarize(test, calibrated=fitted)))
    line("exact frontier, both scores", best(lambda: (frontier(test), frontier(test, score=fitted))))


if __name__ == "__main__":
    main()
