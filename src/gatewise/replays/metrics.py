"""Metrics: episodes and states → numbers. Every sum is exact, every ratio of nothing is None."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.errors import BadChoice
from gatewise.replays.arrays import (
    UNKNOWN,
    Bools,
    Floats,
    Ints,
    Labels,
    exact_histogram,
    exact_sum,
    levels,
    ratio,
    rounded,
)
from gatewise.replays.calibrators import Score
from gatewise.replays.loop import Episodes
from gatewise.replays.traces import Traces
from gatewise.types import Action

BINS = 10


@dataclass(frozen=True)
class Point:
    """One operating point: counts, the summed price of its retrievals, and the ratios the paper reports.

    >>> point = Point(n=4, committed=2, correct=1, unlabelled=0, cost=6.0, abstained=2, escalated=0)
    >>> point.overall_accuracy, point.committed_accuracy, point.coverage, point.mean_cost
    (0.25, 0.5, 0.5, 1.5)
    """

    n: int
    committed: int
    correct: int
    unlabelled: int  # commits without a verdict: neither right nor wrong
    cost: float
    abstained: int
    escalated: int

    @property
    def overall_accuracy(self) -> float | None:
        """Correct commits among all traces."""
        return ratio(self.correct, self.n - self.unlabelled)

    @property
    def committed_accuracy(self) -> float | None:
        """Correct commits among commits."""
        return ratio(self.correct, self.committed - self.unlabelled)

    @property
    def selective_risk(self) -> float | None:
        """Wrong commits among commits."""
        labelled = self.committed - self.unlabelled
        return ratio(labelled - self.correct, labelled)

    @property
    def coverage(self) -> float | None:
        """Commits among all traces."""
        return ratio(self.committed, self.n)

    @property
    def mean_cost(self) -> float | None:
        """Price of the retrievals made, a trace."""
        return ratio(self.cost, self.n)

    def bounds(self, whole: int) -> list[float | None]:
        """Return the accuracy over `whole` if every missing verdict were wrong, and if each were right."""
        return [ratio(self.correct, whole), ratio(self.correct + self.unlabelled, whole)]

    def as_json(self) -> dict[str, Any]:
        """Return counts and ratios as plain values."""
        return {
            "n": self.n,
            "committed": self.committed,
            "correct": self.correct,
            "unlabelled": self.unlabelled,
            "cost": self.cost,
            "overall_accuracy": self.overall_accuracy,
            "committed_accuracy": self.committed_accuracy,
            "coverage": self.coverage,
            "mean_cost": self.mean_cost,
            "selective_risk": self.selective_risk,
            "actions": {"commit": self.committed, "abstain": self.abstained, "escalate": self.escalated},
            "bounds": {
                "overall_accuracy": self.bounds(self.n),
                "committed_accuracy": self.bounds(self.committed),
            },
        }


def measure(episodes: Episodes, *, among: Bools | None = None) -> Point:
    """Return the operating point of a replay, over all traces or those of a mask (n,)."""
    chosen = np.ones(len(episodes.action), np.bool_) if among is None else among
    action, correct = episodes.action[chosen], episodes.correct[chosen]
    committed = int((action == Action.COMMIT).sum())
    right = int((correct == 1).sum())
    wrong = int((correct == 0).sum())
    return Point(
        n=len(action),
        committed=committed,
        correct=right,
        unlabelled=committed - right - wrong,
        cost=exact_sum(episodes.traces.cost[episodes.paid & chosen[:, None]]),
        abstained=int((action == Action.ABSTAIN).sum()),
        escalated=int((action == Action.ESCALATE).sum()),
    )


def _usable(score: Floats, correct: Labels | Ints) -> tuple[Floats, Ints]:
    known = ~np.isnan(score) & (correct != UNKNOWN)
    chosen = score[known]
    if len(chosen) and not (chosen.min() >= 0 and chosen.max() <= 1):
        raise BadChoice("expected scores in [0, 1], found others. Map them into [0, 1] first.")
    return chosen, correct[known].astype(np.int64)


@dataclass(frozen=True)
class Bin:
    """One bin of a reliability diagram."""

    low: float
    high: float
    n: int
    mean_score: float | None
    accuracy: float | None


def bin_of(score: Floats) -> Ints:
    """Return the bin of each score: `min(int(10 s), 9)` in doubles, so .3, .6 and .7 open their bins.

    >>> bin_of(np.array([0.0, 0.3, 0.7, 1.0])).tolist()
    [0, 3, 7, 9]
    """
    return np.minimum((score * BINS).astype(np.int64), BINS - 1)


def _binned(score: Floats, correct: Labels | Ints) -> list[tuple[int, float, int]]:
    """Return how many states each bin holds, their summed score and how many are right."""
    score, correct = _usable(score, correct)
    bins = bin_of(score)
    counts = np.bincount(bins, minlength=BINS)
    totals = rounded(exact_histogram(bins, score, BINS))
    rights = np.bincount(bins[correct == 1], minlength=BINS)
    return list(zip(counts.tolist(), totals.tolist(), rights.tolist(), strict=True))


def reliability(score: Floats, correct: Labels | Ints) -> list[Bin]:
    """Return ten equal bins with the mean score and the accuracy of each; empty bins have neither."""
    return [
        Bin(b / BINS, (b + 1) / BINS, n, ratio(total, n), ratio(right, n))
        for b, (n, total, right) in enumerate(_binned(score, correct))
    ]


def ece(score: Floats, correct: Labels | Ints) -> float | None:
    """Return the expected calibration error, Σ n_b/N · |mean score − accuracy| over ten equal bins.

    States without a score (NaN) or a verdict (-1) stay out.

    >>> ece(np.array([0.9, 0.9, 0.2]), np.array([1, 0, 0]))
    0.3333333333333333
    """
    bins = _binned(score, correct)
    return ratio(math.fsum(abs(total - right) for _, total, right in bins), sum(n for n, _, _ in bins))


def brier(score: Floats, correct: Labels | Ints) -> float | None:
    """Return the mean squared distance of score and verdict.

    >>> brier(np.array([1.0, 0.5]), np.array([1, 0]))
    0.125
    """
    score, correct = _usable(score, correct)
    return ratio(exact_sum((score - correct) ** 2), len(score))


def _by_level(score: Floats, correct: Labels | Ints) -> tuple[Ints, Ints]:
    """Return wrong and right answers at every distinct score, the highest first."""
    score, correct = _usable(score, correct)
    found, codes = levels(score)
    both = np.bincount(codes * np.int64(2) + correct, minlength=2 * len(found) + 2)
    counts = both.reshape(-1, 2)[:0:-1].astype(np.int64)
    return counts[:, 0], counts[:, 1]


def auroc(score: Floats, correct: Labels | Ints) -> float | None:
    """Return the chance that a right answer outscores a wrong one, a tie counting half; None without both.

    >>> auroc(np.array([0.9, 0.5, 0.5]), np.array([1, 1, 0]))
    0.75
    """
    wrong, right = _by_level(score, correct)
    rights_above = np.cumsum(right) - right
    doubled = sum((wrong.astype(object) * (2 * rights_above + right)).tolist())
    return ratio(doubled, 2 * int(wrong.sum()) * int(right.sum()))


def aurc(score: Floats, correct: Labels | Ints) -> float | None:
    """Return the area under the risk–coverage curve: the mean risk over answering the best 1, 2, … n states.

    States that tie are one step: their risks are what a random order among them gives on average, so that
    the area is one number whatever the order of rows.

    >>> aurc(np.array([0.9, 0.5, 0.5]), np.array([1, 1, 0]))
    0.19444444444444442
    """
    wrong, right = _by_level(score, correct)
    size = wrong + right
    total = int(size.sum())
    if not total:
        return None
    before = np.cumsum(size) - size
    wrong_before = np.cumsum(wrong) - wrong
    # Answering j of a tied group: (wrong_before + j·w/g) / (before + j), summed over j = 1 … g.
    group = np.repeat(np.arange(len(size)), size)
    answered = np.arange(1, total + 1)
    inside = answered - before[group]
    risk = (wrong_before[group] * size[group] + inside * wrong[group]) / (size[group] * answered)
    return exact_sum(risk) / total


@dataclass(frozen=True)
class Transitions:
    """Answers that new evidence turned from wrong to right (helpful) and from right to wrong (harmful)."""

    n: int
    helpful: int
    harmful: int


def transitions(traces: Traces, *, depth: int | None = None) -> Transitions:
    """Count the transitions between adjacent depths where new evidence came, or those into one depth.

    Copied states and pairs without a verdict on either side stay out of n.
    """
    before, after = traces.correct[:, :-1], traces.correct[:, 1:]
    counted = traces.new[:, 1:] & traces.present[:, 1:] & (before != UNKNOWN) & (after != UNKNOWN)
    if depth is not None:
        counted = counted & (np.arange(1, traces.depths) == depth)
    return Transitions(
        n=int(counted.sum()),
        helpful=int((counted & (before == 0) & (after == 1)).sum()),
        harmful=int((counted & (before == 1) & (after == 0)).sum()),
    )


@dataclass(frozen=True)
class TopBin:
    """The most confident states of one depth: how sure they are, raw and calibrated, and how often right."""

    depth: int
    n: int
    raw: float | None
    accuracy: float | None
    calibrated: float | None
    unlabelled: int


def top_bin(traces: Traces, *, score: Score | None = None, depth: int = 3, least: float = 0.9) -> TopBin:
    """Return the diagnosis of the states with confidence `least` or more at a depth, or at the deepest."""
    depth = min(depth, traces.depths - 1)
    confidence = traces.confidence[:, depth]
    with np.errstate(invalid="ignore"):
        top = confidence >= least
    labels = traces.correct[top, depth]
    n, unlabelled = int(top.sum()), int((labels == UNKNOWN).sum())
    return TopBin(
        depth=depth,
        n=n,
        raw=ratio(exact_sum(confidence[top]), n),
        accuracy=ratio(int((labels == 1).sum()), n - unlabelled),
        calibrated=ratio(exact_sum(score(confidence[top], depth)), n) if score else None,
        unlabelled=unlabelled,
    )
