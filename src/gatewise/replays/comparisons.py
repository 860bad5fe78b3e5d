"""compare, moves: two policies on the same states, pair by pair."""

from dataclasses import dataclass

import numpy as np

from gatewise.replays.arrays import exact_sum, ratio
from gatewise.replays.loop import Episodes
from gatewise.replays.metrics import Point, measure
from gatewise.replays.traces import require_matched
from gatewise.types import Action


@dataclass(frozen=True)
class Comparison:
    """The exact paired differences of two replays, second minus first.

    `both_right`, `first_right` and `second_right` count traces that were answered right by both, by the first
    alone, by the second alone; `moved` counts the traces where the two stopped or acted differently.
    """

    first: Point
    second: Point
    both_right: int
    first_right: int
    second_right: int
    moved: int
    cost: float

    @property
    def committed(self) -> int:
        """More commits of the second."""
        return self.second.committed - self.first.committed

    @property
    def correct(self) -> int:
        """More right commits of the second."""
        return self.second.correct - self.first.correct

    @property
    def overall_accuracy(self) -> float | None:
        """Difference of right commits, a trace; None where verdicts are missing, as the pairs are not complete."""
        if self.first.unlabelled or self.second.unlabelled:
            return None
        return ratio(self.correct, self.first.n)

    @property
    def coverage(self) -> float | None:
        """Difference of commits, a trace."""
        return ratio(self.committed, self.first.n)

    @property
    def mean_cost(self) -> float | None:
        """Difference of the price of retrievals, a trace."""
        return ratio(self.cost, self.first.n)


def compare(first: Episodes, second: Episodes) -> Comparison:
    """Return the exact paired differences of two replays, or raise Unmatched if their states differ."""
    require_matched(first.traces, second.traces)
    ours, theirs = first.correct == 1, second.correct == 1
    cost = first.traces.cost
    more, less = second.paid & ~first.paid, first.paid & ~second.paid
    return Comparison(
        first=measure(first),
        second=measure(second),
        both_right=int((ours & theirs).sum()),
        first_right=int((ours & ~theirs).sum()),
        second_right=int((theirs & ~ours).sum()),
        moved=int(((first.action != second.action) | (first.depth != second.depth)).sum()),
        cost=exact_sum(np.concatenate([cost[more], -cost[less]])),
    )


@dataclass(frozen=True)
class Outcome:
    """How an episode ended: what was done, at which depth, and whether the answer was right (None: no verdict)."""

    action: Action
    depth: int
    correct: bool | None


@dataclass(frozen=True)
class Move:
    """How many episodes ended one way under the first policy and another (or the same) way under the second."""

    first: Outcome
    second: Outcome
    count: int


def moves(first: Episodes, second: Episodes) -> tuple[Move, ...]:
    """Return where the episodes of one replay went in another over the same states, every pair of outcomes once."""
    require_matched(first.traces, second.traces)
    depths = first.traces.depths
    codes = [(one.action.astype(np.int64) * depths + one.depth) * 3 + one.correct % 3 for one in (first, second)]
    pairs, counts = np.unique(np.stack(codes), axis=1, return_counts=True)
    ends = [[_outcome(code, depths) for code in column] for column in pairs.tolist()]
    return tuple(map(Move, *ends, counts.tolist()))


def _outcome(code: int, depths: int) -> Outcome:
    rest, verdict = divmod(code, 3)  # 0 wrong, 1 right, and -1 (no verdict) is 2
    action, depth = divmod(rest, depths)
    return Outcome(Action(action), depth, None if verdict == 2 else verdict == 1)
