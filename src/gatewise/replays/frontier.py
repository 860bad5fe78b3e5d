"""The exact frontier: every distinct threshold × every budget, in one pass over the data.

With threshold τ an episode commits at the first depth whose running maximum of scores reaches τ. So it commits
at depth t exactly for the thresholds above its maximum before t and up to its maximum at t, and whole curves
follow from histograms over the distinct scores: no loop over thresholds. Histograms add up, so the parts of a
data set can be tallied anywhere, in any order, and merged.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gatewise.errors import BadChoice
from gatewise.replays.arrays import (
    UNKNOWN,
    Bools,
    Codes,
    Floats,
    Ints,
    Labels,
    exact_histogram,
    levels,
    rounded,
)
from gatewise.replays.calibrators import Raw, Score
from gatewise.replays.metrics import Point
from gatewise.replays.traces import Traces

CHUNK = 1 << 17  # episodes at a time: the working arrays stay in the cache, and memory stays flat
JOINT = 255  # up to this many levels, one joint histogram a depth beats several marginal ones
HAS_NUMBA = importlib.util.find_spec("numba") is not None
COMPILED_FROM = 5_000_000  # states from which the compiled kernel repays its start


@dataclass(frozen=True, eq=False)
class Tally:
    """What the frontier needs of the data: histograms over running maxima, place 0 for "nothing readable yet".

    All have shape (depths, levels + 1). Past its end an episode keeps its last maximum.
    """

    levels: Floats
    n: int
    reached: Ints  # episodes by their maximum at each depth
    correct: Ints  # right states by their maximum, less the same states by the maximum before
    unlabelled: Ints  # the same for states without a verdict
    low: Ints  # episodes by their maximum whose latest score is at or under lo
    cost: tuple[Mapping[int, Ints], ...]  # price of each depth by the maximum before it, exact

    def __add__(self, other: Self) -> Self:
        axis = np.union1d(self.levels, other.levels)
        depths = max(len(self.reached), len(other.reached))
        ours, theirs = self._on(axis, depths), other._on(axis, depths)
        nothing = np.zeros(len(axis) + 1, np.int64)
        return replace(
            ours,
            n=ours.n + theirs.n,
            reached=ours.reached + theirs.reached,
            correct=ours.correct + theirs.correct,
            unlabelled=ours.unlabelled + theirs.unlabelled,
            low=ours.low + theirs.low,
            cost=tuple(
                {limb: one.get(limb, nothing) + two.get(limb, nothing) for limb in sorted({*one, *two})}
                for one, two in zip(ours.cost, theirs.cost, strict=True)
            ),
        )

    def _on(self, axis: Floats, depths: int) -> Self:
        """Return the same counts over more levels and more depths."""
        return self.moved(np.searchsorted(axis, self.levels) + 1, axis).deepened(depths)

    def deepened(self, depths: int) -> Self:
        """Return the same episodes in a block with more depths: nothing happens past their ends."""
        more = depths - len(self.reached)
        last, none = self.reached[-1:], np.zeros_like(self.reached[-1:])
        return replace(
            self,
            reached=np.concatenate([self.reached, *[last] * more]),
            correct=np.concatenate([self.correct, *[none] * more]),
            unlabelled=np.concatenate([self.unlabelled, *[none] * more]),
            low=np.concatenate([self.low, *[self.low[-1:]] * more]),
            cost=(*self.cost, *[{0: none[0]}] * more),
        )

    def moved(self, place: Ints, axis: Floats) -> Self:
        """Return the counts with level i standing at place[i] of another axis; levels may fall together.

        This is how a monotone map changes a frontier: it only renames and merges levels.
        """
        where = np.concatenate([[0], place])

        def move(table: Ints) -> Ints:
            out = np.zeros((*table.shape[:-1], len(axis) + 1), np.int64)
            np.add.at(out.T, where, table.T)
            return out

        return replace(
            self,
            levels=axis,
            reached=move(self.reached),
            correct=move(self.correct),
            unlabelled=move(self.unlabelled),
            low=move(self.low),
            cost=tuple({limb: move(part) for limb, part in sums.items()} for sums in self.cost),
        )


@dataclass(frozen=True, eq=False)
class Frontier:
    """Counts at every (budget, threshold): arrays of shape (depths, thresholds), budgets 0, 1, …."""

    thresholds: Floats
    n: int
    committed: Ints
    correct: Ints
    unlabelled: Ints
    abstained: Ints
    cost: Floats

    @property
    def budgets(self) -> int:
        """How many budgets there are: 0 up to the deepest depth."""
        return len(self.committed)

    def point(self, budget: int, place: int) -> Point:
        """Return one operating point, by budget and place among the thresholds."""
        row = min(budget, self.budgets - 1)
        committed, abstained = int(self.committed[row, place]), int(self.abstained[row, place])
        return Point(
            n=self.n,
            committed=committed,
            correct=int(self.correct[row, place]),
            unlabelled=int(self.unlabelled[row, place]),
            cost=float(self.cost[row, place]),
            abstained=abstained,
            escalated=self.n - committed - abstained,
        )

    @staticmethod
    def of(tally: Tally) -> "Frontier":
        """Read the whole surface off a tally: sums from above for what commits, from below for what goes on."""
        depths = len(tally.reached)

        def from_above(table: Ints) -> Ints:
            return table[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]

        def below(table: Ints) -> Ints:
            return table.cumsum(axis=1)[:, :-1]

        total: dict[int, Ints] = {}
        for depth, sums in enumerate(tally.cost):
            for limb, part in sums.items():
                total.setdefault(limb, np.zeros((depths, len(part)), np.int64))[depth:] += part
        shape = (depths, len(tally.levels))
        return Frontier(
            thresholds=tally.levels,
            n=tally.n,
            committed=from_above(tally.reached),
            correct=from_above(tally.correct.cumsum(axis=0)),
            unlabelled=from_above(tally.unlabelled.cumsum(axis=0)),
            abstained=below(tally.low),
            cost=rounded({limb: below(part).ravel() for limb, part in total.items()}).reshape(shape),
        )


def frontier(traces: Traces, *, score: Score | None = None, lo: float = 0.3) -> Frontier:
    """Return committed, correct, unlabelled and cost at every distinct score as threshold, for every budget.

    Equal to replaying `Threshold(min(lo, τ), τ)` at each threshold τ and budget, without replaying any.
    Thresholds are the distinct scores of all states; ties are one step.

    >>> t = Traces.from_columns(
    ...     {"trace_id": ["a", "a"], "depth": [0, 1], "confidence": [0.4, 0.9], "correct": [False, True]})
    >>> f = frontier(t)
    >>> f.thresholds.tolist(), f.correct.tolist(), f.cost.tolist()
    ([0.4, 0.9], [[0, 0], [0, 1]], [[0.0, 0.0], [0.0, 1.0]])
    """
    return Frontier.of(tally_traces(traces, score=score or Raw(), lo=lo))


def tally_traces(traces: Traces, *, score: Score, lo: float) -> Tally:
    """Return the histograms of a trace set under a score."""
    found, codes = levels(traces.confidence)
    renamed = np.array([score(found, depth) for depth in range(traces.depths)], np.float64)
    if (renamed == renamed[0]).all() and (np.diff(renamed[0]) >= 0).all():
        axis, place = levels(renamed[0])
        tally = tally_codes(codes, traces.correct, levels=found, low=_low(renamed[0], lo), traces=traces)
        return tally.moved(place.astype(np.int64), axis)
    for depth in range(traces.depths):  # a level that does not occur at a depth gives no threshold there
        renamed[depth, np.bincount(codes[:, depth], minlength=len(found) + 1)[1:] == 0] = np.nan
    axis, places = levels(renamed)
    moved = np.empty_like(codes, dtype=places.dtype)
    for depth in range(traces.depths):
        moved[:, depth] = np.append(0, places[depth])[codes[:, depth]]
    return tally_codes(moved, traces.correct, levels=axis, low=_low(axis, lo), traces=traces)


def _low(scores: Floats, lo: float) -> int:
    """Return how many of the rising scores are at or under lo."""
    return int((scores <= lo).sum())


def tally_codes(
    codes: Codes,
    labels: Labels,
    *,
    levels: Floats,
    low: int,
    traces: Traces | None = None,
    compiled: bool | None = None,
    threads: int = 1,
) -> Tally:
    """Return the histograms of coded scores: blocks of shape (n, depths), 0 where nothing was readable.

    `low` counts the levels at or under lo. Prices and ends are those of the traces; without them every trace
    has all depths and a retrieval costs 1. `compiled` chooses the kernel (default: whichever is there and pays).
    """
    n, depths = codes.shape
    if traces is not None and (traces.lengths < depths).any():
        codes = _carried(codes, traces.lengths)
    kinds = 3 if labels.min(initial=0) == UNKNOWN else 2  # kinds of label
    if compiled is None:
        compiled = codes.size >= COMPILED_FROM and HAS_NUMBA
    elif compiled and not HAS_NUMBA:
        raise BadChoice("expected numba for the compiled frontier, found none. Install gatewise[fast].")
    if len(levels) > JOINT:
        before_and_at = _marginal(codes, labels, len(levels), low, kinds)
    elif not compiled:
        before_and_at = _joint(codes, labels, len(levels), low, kinds)
    else:
        from concurrent.futures import ThreadPoolExecutor

        from gatewise.replays.fast import joint

        cuts = np.linspace(0, n, threads + 1).astype(int).tolist()
        parts = [(codes[start:stop], labels[start:stop]) for start, stop in pairwise(cuts)]
        with ThreadPoolExecutor(threads) as pool:
            tables = list(pool.map(lambda part: joint(part[0], part[1], len(levels), low, kinds), parts))
        before_and_at = _margins(np.sum(tables, axis=0), len(levels), kinds)
    before, at, low_at = before_and_at
    reached = at.sum(axis=1)
    signed = at - before
    return Tally(
        levels=levels,
        n=n,
        reached=reached,
        correct=signed[:, 1],
        unlabelled=signed[:, 2] if kinds == 3 else np.zeros_like(reached),
        low=low_at,
        cost=_costs(codes, reached, traces, len(levels)),
    )


def _carried(codes: Codes, lengths: Ints) -> Codes:
    """Return the codes with each trace's last one repeated past its end, where it changes no maximum."""
    last = np.take_along_axis(codes, (lengths - 1)[:, None], axis=1)
    return np.where(np.arange(codes.shape[1]) < lengths[:, None], codes, last)


def _joint(codes: Codes, labels: Labels, size: int, low: int, kinds: int) -> tuple[Ints, Ints, Ints]:
    """Count (maximum before, maximum, side of lo, label) a depth in one histogram, chunk by chunk."""
    n, depths = codes.shape
    cells = (size + 1) ** 2 * 2 * kinds
    wide = np.uint16 if cells <= 1 << 16 else np.uint32
    table = np.zeros((depths, cells), np.int64)
    for start in range(0, n, CHUNK):
        length = min(CHUNK, n - start)
        maximum = np.zeros(length, np.uint8)
        before, index = np.zeros(length, wide), np.empty(length, wide)
        for depth in range(depths):
            code = codes[start : start + CHUNK, depth]
            label = labels[start : start + CHUNK, depth].view(np.uint8)
            side = (code - np.uint8(1)) < low  # 0 wraps round to 255, which is never low
            kind = side.view(np.uint8) * np.uint8(kinds)
            kind += label if kinds == 2 else np.minimum(label, 2)  # as a byte, no verdict (-1) is 255
            np.maximum(maximum, code, out=maximum)
            at = maximum.astype(wide)
            np.multiply(before, size + 1, out=index)  # one width throughout: mixed widths are slow
            index += at
            index *= 2 * kinds
            index += kind.astype(wide)
            counts = np.bincount(index)
            table[depth, : len(counts)] += counts
            before = at
    return _margins(table, size, kinds)


def _margins(table: Ints, size: int, kinds: int) -> tuple[Ints, Ints, Ints]:
    """Return the margins of a joint histogram: by maximum before and by maximum (per label), and the low side."""
    joint = table.reshape(len(table), size + 1, size + 1, 2, kinds)
    before = joint.sum(axis=(2, 3)).swapaxes(1, 2)
    at = joint.sum(axis=(1, 3)).swapaxes(1, 2)
    return before, at, joint[:, :, :, 1].sum(axis=(1, 3))


def _marginal(codes: Codes, labels: Labels, size: int, low: int, kinds: int) -> tuple[Ints, Ints, Ints]:
    """Count the margins directly, where a joint histogram would have too many cells."""
    n, depths = codes.shape
    before, at = (np.zeros((depths, kinds, size + 1), np.int64) for _ in range(2))
    low_at = np.zeros((depths, size + 1), np.int64)
    maximum = np.zeros(n, codes.dtype)
    for depth in range(depths):
        code, label = codes[:, depth], labels[:, depth]
        earlier, maximum = maximum, np.maximum(maximum, code)
        for kind in range(kinds):
            here = label == (kind if kind < 2 else UNKNOWN)
            before[depth, kind] = np.bincount(earlier[here], minlength=size + 1)
            at[depth, kind] = np.bincount(maximum[here], minlength=size + 1)
        low_at[depth] = np.bincount(maximum[(code > 0) & (code <= low)], minlength=size + 1)
    return before, at, low_at


def _costs(codes: Codes, reached: Ints, traces: Traces | None, size: int) -> tuple[Mapping[int, Ints], ...]:
    """Return the price of reaching each depth, by the maximum before it."""
    everyone = np.zeros((1, size + 1), np.int64)
    everyone[0, 0] = len(codes)
    before = np.concatenate([everyone, reached[:-1]])
    if traces is None:
        return tuple({0: row * (depth > 0)} for depth, row in enumerate(before))
    sums: list[Mapping[int, Ints]] = []
    maximum: npt.NDArray[Any] = np.zeros(len(codes), codes.dtype)
    for depth in range(codes.shape[1]):
        price = traces.cost[:, depth]
        if (price == price[0]).all() and price[0] == int(price[0]) < 1 << 20:
            sums.append({0: before[depth] * int(price[0])})
        else:
            sums.append(exact_histogram(maximum, price, size + 1))
        maximum = np.maximum(maximum, codes[:, depth])
    return tuple(sums)


@dataclass(frozen=True)
class Reading:
    """The operating point that a target picks on one frontier at one budget."""

    budget: int
    threshold: float
    point: Point


TARGETS = ("coverage", "risk", "cost")


def read(surface: Frontier, target: str, value: float) -> list[Reading | None]:
    """Return for every budget the point that meets a target, or None where no threshold does.

    `coverage`: the highest threshold that still answers that share of traces. `risk`: the widest coverage whose
    selective risk is no higher. `cost`: the highest threshold whose mean cost is no higher.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        labelled = surface.committed - surface.unlabelled
        risk = (labelled - surface.correct) / labelled
        coverage, cost = surface.committed / surface.n, surface.cost / surface.n
        if target == "coverage":
            meets: Bools = coverage >= value
        elif target == "risk":
            meets = risk <= value
        elif target == "cost":
            meets = cost <= value
        else:
            raise BadChoice(
                f"expected one of {', '.join(TARGETS)} to read a frontier at, found {target!r}. Choose one."
            )
    readings: list[Reading | None] = []
    for budget, row in enumerate(meets):
        places = np.flatnonzero(row)
        if not len(places):
            readings.append(None)
            continue
        # Coverage falls and cost rises with the threshold, so the widest coverage is at the lowest one.
        place = int(places[0] if target == "risk" else places[-1])
        readings.append(Reading(budget, float(surface.thresholds[place]), surface.point(budget, place)))
    return readings
