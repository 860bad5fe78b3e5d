"""findings: one model's traces → everything that tables and figures show of them, as one value."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from gatewise.replays.calibrators import Map, Raw, Score, fittable
from gatewise.replays.comparisons import Move, Outcome, moves
from gatewise.replays.frontier import Frontier, frontier
from gatewise.replays.loop import replay
from gatewise.replays.metrics import Bin, reliability
from gatewise.replays.policies import Policy, Threshold
from gatewise.replays.summaries import BUDGET, GATE, THRESHOLDS, Progress, Summary, summarize
from gatewise.replays.traces import Traces

SCORES = ("raw", "calibrated")


@dataclass(frozen=True, eq=False)
class Findings:
    """What one model's traces say about one gate; parts of the calibrated score are absent without a map.

    `frontiers` are exact, every threshold and budget; `reliability` holds ten bins a depth; `fitted` the bins of
    depth 0 of the calibration split, None without one; `moves` tell where the raw gate's episodes went.
    """

    summary: Summary
    frontiers: Mapping[str, Frontier]
    reliability: Mapping[str, list[list[Bin]]]
    fitted: Mapping[str, list[Bin]] | None
    moves: tuple[Move, ...]

    @property
    def model(self) -> str | None:
        """The model, None where the traces name none."""
        return self.summary.model

    @property
    def depths(self) -> int:
        """How many depths the longest trace has."""
        return len(self.reliability["raw"])

    @property
    def points(self) -> int:
        """How many operating points the frontiers hold."""
        return sum(surface.budgets * len(surface.thresholds) for surface in self.frontiers.values())

    def as_json(self) -> dict[str, Any]:
        """Return what the figures draw beyond the summary, as plain values."""
        return {
            "reliability": {
                name: [[vars(one) for one in bins] for bins in depths] for name, depths in self.reliability.items()
            },
            "reliability_calibration": self.fitted
            and {name: [vars(one) for one in bins] for name, bins in self.fitted.items()},
            "moves": [
                {"raw": _plain(one.first), "calibrated": _plain(one.second), "count": one.count} for one in self.moves
            ],
        }


def _plain(end: Outcome) -> dict[str, Any]:
    return {"action": end.action.name.lower(), "depth": end.depth, "correct": end.correct}


def find(
    traces: Traces,
    *,
    calibrated: Map | None = None,
    calibration: Traces | None = None,
    gate: Threshold = GATE,
    budget: int = BUDGET,
    policies: Mapping[str, Policy] | None = None,
    by: str | None = None,
    thresholds: Sequence[float] = THRESHOLDS,
    allow_leak: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Findings:
    """Return everything to be shown of one model's traces; `calibration` is the split that the map was fitted on.

    >>> t = Traces.from_columns(
    ...     {"trace_id": ["a", "a"], "depth": [0, 1], "confidence": [0.4, 0.9], "correct": [False, True]})
    >>> found = find(t)
    >>> found.depths, list(found.frontiers), found.moves
    (2, ['raw'], ())
    """
    summary = summarize(
        traces,
        calibrated=calibrated,
        gate=gate,
        budget=budget,
        policies=policies,
        by=by,
        thresholds=thresholds,
        allow_leak=allow_leak,
        progress=progress,
    )
    scores: dict[str, Score] = {"raw": Raw(), **({"calibrated": calibrated} if calibrated else {})}

    def bins(part: Traces, score: Score, depth: int) -> list[Bin]:
        return reliability(score(part.confidence[:, depth], depth), part.correct[:, depth])

    walks = [replay(traces, gate, score=score, budget=budget) for score in scores.values()]
    return Findings(
        summary=summary,
        frontiers={name: frontier(traces, score=score, lo=gate.lo) for name, score in scores.items()},
        reliability={
            name: [bins(traces, score, depth) for depth in range(traces.depths)] for name, score in scores.items()
        },
        fitted={name: bins(calibration, score, 0) for name, score in scores.items()}
        if calibration is not None and fittable(calibration)
        else None,
        moves=moves(*walks) if len(walks) == 2 else (),
    )


def wilson(share: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's interval for a share of n: where a true share would not be rejected at this level.

    >>> [round(end, 4) for end in wilson(0.5, 10)]
    [0.2366, 0.7634]
    """
    z = NormalDist().inv_cdf(0.5 + level / 2)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half))
