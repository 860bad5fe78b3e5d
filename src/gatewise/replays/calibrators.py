"""Calibrators: confidence → probability of being right, fitted into frozen, callable values.

A calibrator is any callable `(confidence, depth) -> score` that works value by value and keeps NaN. The ones
here are monotone, so that a calibrated gate can be named by the raw thresholds that act alike.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from gatewise.errors import BadChoice, Leak
from gatewise.replays.arrays import UNKNOWN, Floats, Ints, Labels, hundredths, levels
from gatewise.replays.traces import Traces, named
from gatewise.wording import normalized

Score = Callable[[Floats, int], Floats]


@dataclass(frozen=True)
class Provenance:
    """What a map was fitted on: enough to tell it again, and to recognise its traces without their text."""

    split: str
    n: int
    without_confidence: int
    without_verdict: int
    signal: str
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    data: str  # digest of the traces of the split
    versions: Mapping[str, str] = field(compare=False)
    traces: tuple[str, ...] = field(repr=False)  # hashes of (model, data set, trace id), sorted
    questions: tuple[str, ...] = field(repr=False)  # hashes of normalized questions, sorted


@dataclass(frozen=True)
class Raw:
    """The identity: a score that is the confidence itself.

    >>> Raw()(np.array([0.7]), 0).tolist()
    [0.7]
    """

    def __call__(self, confidence: Floats, depth: int) -> Floats:
        """Return the confidence."""
        return confidence


@dataclass(frozen=True)
class Isotonic:
    """One monotone map for every depth: linear between its knots, flat outside them.

    >>> phi = fit_isotonic(np.array([0.25, 0.75, 0.75, 1.0]), np.array([0, 1, 0, 1]))
    >>> phi.x, phi.y
    ((0.25, 0.75, 1.0), (0.0, 0.5, 1.0))
    >>> phi(np.array([0.5, 0.75, 0.125, np.nan]), 0).tolist()
    [0.25, 0.5, 0.0, nan]
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    fitted_on: Provenance | None = None

    kind: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.x, self.x[1:], strict=False))
        if not self.x or len(self.x) != len(self.y) or not rising:
            raise BadChoice("expected knots with as many y as x and rising x, found none such. Fit the map again.")
        if any(a > b for a, b in zip(self.y, self.y[1:], strict=False)):
            raise BadChoice("expected y that never fall, found a map that is not monotone. Fit the map again.")
        if not all(0 <= value <= 1 for value in (*self.x, *self.y)):
            raise BadChoice("expected knots in [0, 1], found others. Fit the map again.")

    def __call__(self, confidence: Floats, depth: int) -> Floats:
        """Return the map's value for each confidence, NaN for NaN."""
        cells = hundredths(confidence) if confidence.size > 102 else None
        if cells is not None:
            table = self._line(np.append(np.arange(101) / 100, np.nan))
            return np.asarray(table[cells])
        return self._line(confidence)

    def _line(self, confidence: Floats) -> Floats:
        x, y = np.array(self.x), np.array(self.y)
        if len(x) == 1:
            return np.where(np.isnan(confidence), np.nan, y[0])
        left = np.clip(np.searchsorted(x, confidence, side="right") - 1, 0, len(x) - 2)
        with np.errstate(over="ignore", invalid="ignore"):  # knots may stand closer than a slope can say
            slope = np.diff(y) / np.diff(x)
            line = slope[left] * (confidence - x[left]) + y[left]
        # Rounding may lift the line over its right knot by one unit: cut it there, or the map is not monotone.
        line = np.minimum(line, y[left + 1])
        line = np.where(confidence <= x[left], y[left], line)
        return np.where(confidence >= x[-1], y[-1], line)


@dataclass(frozen=True)
class IsotonicByDepth:
    """One monotone map for each depth; it has no equivalent raw gate."""

    maps: tuple[Isotonic, ...]
    fitted_on: Provenance | None = None

    kind: ClassVar[str] = "isotonic-by-depth"

    def __call__(self, confidence: Floats, depth: int) -> Floats:
        """Return the value of this depth's map for each confidence."""
        if depth >= len(self.maps):
            raise BadChoice(
                f"expected traces of at most {len(self.maps)} depths, as this map was fitted on, found depth "
                f"{depth}. Fit it on traces as deep, or use one map for all depths."
            )
        return self.maps[depth](confidence, depth)


Map = Isotonic | IsotonicByDepth


def fit_isotonic(confidence: Floats, correct: Labels | Ints) -> Isotonic:
    """Return the isotonic least-squares map from confidence to the share of right answers.

    Both arrays have shape (n,); records with NaN confidence or label -1 take no part. Integer counts are
    pooled and divided once: the value of a block is exactly correct / count, whatever the order of records.
    """
    usable = ~np.isnan(confidence) & (correct != UNKNOWN)
    if not usable.any():
        raise BadChoice(
            "expected records with a confidence and a verdict to fit on, found none. Fit on other traces, or mark "
            "more of them for it in the split column."
        )
    found, codes = levels(confidence[usable])
    counts = np.bincount(codes, minlength=len(found) + 1)[1:]
    rights = np.bincount(codes[correct[usable] == 1], minlength=len(found) + 1)[1:]
    blocks: list[tuple[int, int, int]] = []  # (right, count, place of the first level)
    for place, (right, count) in enumerate(zip(rights.tolist(), counts.tolist(), strict=True)):
        first = place
        while blocks and blocks[-1][0] * count >= right * blocks[-1][1]:
            earlier_right, earlier_count, first = blocks.pop()
            right, count = right + earlier_right, count + earlier_count
        blocks.append((right, count, first))
    x: list[float] = []
    y: list[float] = []
    ends = [block[2] - 1 for block in blocks[1:]] + [len(found) - 1]
    for (right, count, first), last in zip(blocks, ends, strict=True):
        for place in sorted({first, last}):
            x.append(float(found[place]))
            y.append(right / count)
    return Isotonic(tuple(x), tuple(y))


def calibrate(traces: Traces, *, split: str = "calibration", by_depth: bool = False) -> Map:
    """Return a map fitted on one split's depth-0 records, or one map a depth, with its provenance (Section 5)."""
    if split == "test":
        raise Leak(
            "expected a split to fit on that is not the test split, found 'test'. A map may not see what it is "
            "tested on: mark calibration rows in the split column."
        )
    from importlib.metadata import version  # slow to load, and only a fit needs it

    traces.require_one_model()
    part = traces.split(split)
    if not len(part):
        raise BadChoice(
            f"expected traces of split {split!r} to fit on, found only {', '.join(named(traces.splits))}. Mark "
            "calibration rows in the split column, or give a map with --map."
        )
    deepest = part.depths if by_depth else 1
    values, labels = part.confidence[:, :deepest], part.correct[:, :deepest]
    usable = ~np.isnan(values) & (labels != UNKNOWN)
    if by_depth:
        empty = np.flatnonzero(~usable.any(axis=0))
        if len(empty):
            raise BadChoice(
                f"expected records with a confidence and a verdict at every depth, found none at depth {empty[0]} "
                f"of split {split!r}. Use one map for all depths."
            )
        fitted: Map = IsotonicByDepth(tuple(fit_isotonic(values[:, d], labels[:, d]) for d in range(deepest)))
    else:
        fitted = fit_isotonic(values[:, 0], labels[:, 0])
    seen = part.select(usable.any(axis=1))
    present = part.present[:, :deepest]
    provenance = Provenance(
        split=split,
        n=int(usable.sum()),
        without_confidence=int((present & np.isnan(values)).sum()),
        without_verdict=int((present & (labels == UNKNOWN)).sum()),
        signal=traces.signal,
        models=tuple(named(seen.models)),
        datasets=tuple(named(seen.datasets)),
        data=part.unpriced().digest(),  # a fit looks at no price
        versions={name: version(name) for name in ("gatewise", "numpy")},
        traces=tuple(sorted(_trace_hashes(seen))),
        questions=tuple(sorted(_question_hashes(seen) - {""})),
    )
    return replace(fitted, fitted_on=provenance)


def fittable(traces: Traces) -> bool:
    """Tell whether a map can be fitted on these traces: one depth-0 record with confidence and verdict will do."""
    return len(traces) > 0 and bool((~np.isnan(traces.confidence[:, 0]) & (traces.correct[:, 0] != UNKNOWN)).any())


def doubts(score: Score | None, model: str | None) -> tuple[str, ...]:
    """Return what deserves a look where a map is applied to the traces of a model."""
    if score is None:
        return ()
    provenance = _provenance(score)
    if provenance is None:
        return ("the map does not say what it was fitted on: leaks cannot be recognised.",)
    if not provenance.models or model in provenance.models:
        return ()
    these = f"are of {model}" if model else "name no model"
    return (f"the map was fitted on {', '.join(provenance.models)}; these traces {these}.",)


def require_same_signal(score: Score, traces: Traces) -> None:
    """Raise if this score was fitted on another signal than the one that these traces are gated on."""
    provenance = _provenance(score)
    if provenance and provenance.signal != traces.signal:
        raise BadChoice(
            f"expected traces gated on {provenance.signal!r}, the signal this map was fitted on, found "
            f"{traces.signal!r}. Choose it with --signal, or fit a map on this signal."
        )


def _provenance(score: Score) -> Provenance | None:
    found = getattr(score, "fitted_on", None)
    return found if isinstance(found, Provenance) else None


def require_no_leak(score: Score, traces: Traces) -> None:
    """Raise if any of these traces took part in the fit of this score (by trace, or by question text)."""
    provenance = _provenance(score)
    if provenance is None:
        return
    require_same_signal(score, traces)
    for what, ours, theirs in (
        ("trace", _trace_hashes(traces), provenance.traces),
        ("question text", _question_hashes(traces) - {""}, provenance.questions),
    ):
        shared = ours.intersection(theirs)
        if shared:
            verb = "stands" if len(shared) == 1 else "stand"
            raise Leak(
                f"expected traces that took no part in fitting the map, found that {len(shared):,} "
                f"{what}{'s' * (len(shared) > 1)} {verb} on both sides. Replay other traces, or pass "
                "--allow-leak to see numbers that are too good."
            )


def equivalent_raw(score: Score, lo: float, hi: float) -> tuple[float | None, float | None] | None:
    """Return the raw (lo, hi) whose gate acts like this score's gate, or None where the score depends on depth.

    `hi` is the smallest double in [0, 1] that the score lifts to `hi`, None when the gate never commits; `lo`
    the largest that it keeps at or under `lo`, None when the gate never abstains (Section 8.1).

    >>> equivalent_raw(Isotonic((0.5, 1.0), (0.0, 1.0)), 0.25, 0.5)
    (0.625, 0.75)
    """
    if not isinstance(score, Isotonic | Raw):
        return None

    def reached(v: float) -> bool:
        return bool(score(np.array([v]), 0)[0] >= hi)

    def above(v: float) -> bool:
        return bool(score(np.array([v]), 0)[0] > lo)

    smallest = _first_double(reached)
    too_large = _first_double(above)
    largest = 1.0 if too_large is None else (None if too_large == 0 else float(np.nextafter(too_large, 0)))
    return largest, smallest


def _first_double(holds: Callable[[float], bool]) -> float | None:
    """Return the smallest double in [0, 1] where a monotone predicate holds, by bisection over their bits."""
    if not holds(1.0):
        return None
    low, high = -1, int(np.float64(1.0).view(np.int64))
    while high - low > 1:
        middle = (low + high) // 2
        if holds(float(np.int64(middle).view(np.float64))):
            high = middle
        else:
            low = middle
    return float(np.int64(high).view(np.float64))


def _hash(*parts: str | None) -> str:
    text = "\x1f".join("\x00" if part is None else part for part in parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _trace_hashes(traces: Traces) -> set[str]:
    return set(map(_hash, traces.models, traces.datasets, traces.ids))


def _question_hashes(traces: Traces) -> set[str]:
    wordings = {normalized(text) for text in traces.questions.tolist() if text is not None}
    return {_hash(wording) if wording else "" for wording in wordings}


def as_json(score: Isotonic | IsotonicByDepth) -> dict[str, Any]:
    """Return a map as plain values for JSON, its hashes of traces and questions left out."""
    plain = {"kind": score.kind, **asdict(score)}
    if score.fitted_on:
        plain["fitted_on"] = {
            name: value for name, value in plain["fitted_on"].items() if name not in ("traces", "questions")
        }
    return plain
