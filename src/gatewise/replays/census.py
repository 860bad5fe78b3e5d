"""census: what a trace set holds, counted before anything is replayed."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.replays.arrays import UNKNOWN, Texts, levels
from gatewise.replays.traces import Traces


@dataclass(frozen=True)
class Census:
    """Counts of a trace set; lists run over depths 0, 1, …."""

    traces: int
    states: int
    states_by_depth: list[int]
    splits: dict[str, int]
    datasets: dict[str, int]
    models: dict[str, int]
    without_confidence: list[int]
    without_verdict: list[int]
    copied: list[int]
    distinct: list[int]  # distinct confidences
    questions: int  # traces with question text
    columns: list[str]
    signal: str
    digest: str
    warnings: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {"schema": "gatewise.check/1", **vars(self)}


def census(traces: Traces) -> Census:
    """Return what a trace set holds: traces, depths, splits, nulls, copies and distinct confidences."""
    present = traces.present
    unread = present & np.isnan(traces.confidence)
    unjudged = present & (traces.correct == UNKNOWN)
    return Census(
        traces=len(traces),
        states=int(present.sum()),
        states_by_depth=present.sum(axis=0).tolist(),
        splits=_counts(traces.splits),
        datasets=_counts(traces.datasets),
        models=_counts(traces.models),
        without_confidence=unread.sum(axis=0).tolist(),
        without_verdict=unjudged.sum(axis=0).tolist(),
        copied=traces.copied.sum(axis=0).tolist(),
        distinct=[len(levels(traces.confidence[:, depth])[0]) for depth in range(traces.depths)],
        questions=sum(bool(text and text.strip()) for text in traces.questions.tolist()),
        columns=list(traces.table),
        signal=traces.signal,
        digest=traces.digest(),
        warnings=list(traces.warnings),
    )


def _counts(values: Texts) -> dict[str, int]:
    rows = values.tolist()
    return {name: rows.count(name) for name in sorted({value for value in rows if value is not None})}
