"""Lookups: one model's traces made ready for eyes: ranks, exact frontiers and baselines, whole and by subgroup.

Whoever holds a lookup needs no policy: an operating point stands in a frontier, and where an episode stops follows
from comparing the rank of its score with the rank of a threshold.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gatewise.errors import BadChoice
from gatewise.replays.arrays import UNKNOWN, Bools, Coded, Codes, Floats, Ints, Texts, levels, objects
from gatewise.replays.calibrators import Raw, Score, require_same_signal
from gatewise.replays.frontier import frontier
from gatewise.replays.loop import UNLIMITED, Episodes, replay
from gatewise.replays.metrics import Point, measure
from gatewise.replays.policies import BASELINES, Threshold, has_words
from gatewise.replays.rules import REQUIRED, SIGNALS, categories
from gatewise.replays.summaries import Value
from gatewise.replays.traces import Traces

MOST = 40  # values of a column that is offered for subgroups
NO_GROUPS = {*REQUIRED, *SIGNALS, "question", "answer", "plan", "new_passages"}
NO_GROUPS |= {"cost", "cost_usd", "input_tokens", "output_tokens", "latency_s"}


@dataclass(frozen=True, eq=False)
class Scored:
    """One score of the traces: its distinct values, and the rank of every confidence's score among them.

    >>> t = Traces.from_columns(
    ...     {"trace_id": ["a", "a"], "depth": [0, 1], "confidence": [0.4, 0.9], "correct": [False, True]})
    >>> scored = lookup(t).scores["raw"]
    >>> scored.thresholds.tolist(), scored.ranks.tolist()
    ([0.4, 0.9], [[0, 1, 0], [0, 0, 2]])
    """

    thresholds: Floats
    ranks: Codes  # (depths, confidences + 1): rank of a confidence → rank of its score; 0 is unreadable


@dataclass(frozen=True, eq=False)
class Surface:
    """A frontier with one more place, for thresholds above every score: arrays of shape (budgets, places)."""

    thresholds: Floats
    committed: Ints
    correct: Ints
    unlabelled: Ints
    cost: Floats


@dataclass(frozen=True, eq=False)
class Subset:
    """The traces of one group: every operating point of every score, and the baselines."""

    n: int
    surfaces: Mapping[str, Surface]
    baselines: Mapping[str, Point | None]


@dataclass(frozen=True, eq=False)
class Grouping:
    """A column that splits the traces: its values, each trace's place among them, and what each group looks up."""

    column: str
    values: tuple[Value, ...]
    places: Ints
    subsets: tuple[Subset, ...]


@dataclass(frozen=True, eq=False)
class Lookup:
    """Everything that a reader of one model's traces looks up."""

    traces: Traces
    model: str | None
    confidences: Floats  # the distinct ones
    codes: Codes  # (n, depths): rank of each confidence, from 1; 0 is unreadable
    maps: Mapping[str, Score]
    scores: Mapping[str, Scored]
    everything: Subset
    groupings: tuple[Grouping, ...]


def lookup(traces: Traces, *, calibrated: Score | None = None, most: int = MOST) -> Lookup:
    """Return the lookup of one model's traces under the raw score and, where there is one, a calibrated score.

    Subgroups are those of every column that is constant within traces and has 2 to `most` values.
    """
    model = traces.require_one_model()
    if not len(traces):
        raise BadChoice("expected traces to look at, found none. Choose another split.")
    if calibrated:
        require_same_signal(calibrated, traces)
    maps: dict[str, Score] = {"raw": Raw(), **({"calibrated": calibrated} if calibrated else {})}
    found, codes = levels(traces.confidence)
    bare = replace(traces, table={})  # a frontier reads no column
    baselines = _baselines(bare)
    groupings = []
    for column, values, places in groups(traces, most=most):
        subsets = tuple(_subset(bare, maps, baselines, places == place) for place in range(len(values)))
        groupings.append(Grouping(column, values, places, subsets))
    return Lookup(
        traces=traces,
        model=model,
        confidences=found,
        codes=codes,
        maps=maps,
        scores={name: _scored(score, found, codes) for name, score in maps.items()},
        everything=_subset(bare, maps, baselines, np.ones(len(traces), np.bool_)),
        groupings=tuple(groupings),
    )


def _scored(score: Score, found: Floats, codes: Codes) -> Scored:
    """Rank what a score makes of every confidence; one that does not occur at a depth has no score there."""
    depths = codes.shape[1]
    renamed = np.array([score(found, depth) for depth in range(depths)], np.float64).reshape(depths, len(found))
    for depth in range(depths):
        renamed[depth, np.bincount(codes[:, depth], minlength=len(found) + 1)[1:] == 0] = np.nan
    thresholds, ranks = levels(renamed) if renamed.size else (found, np.zeros((depths, 0), np.uint8))
    return Scored(thresholds, np.concatenate([np.zeros((depths, 1), ranks.dtype), ranks], axis=1))


def _baselines(traces: Traces) -> dict[str, Episodes | None]:
    asked = all(has_words(question) for question in traces.questions.tolist())
    return {
        name: replay(traces, policy, budget=UNLIMITED) if asked or name != "adaptive" else None
        for name, policy in BASELINES.items()
    }


def _subset(
    traces: Traces, maps: Mapping[str, Score], baselines: Mapping[str, Episodes | None], among: Bools
) -> Subset:
    part = traces if among.all() else traces.select(among)
    never = Threshold(lo=0, hi=math.inf)
    unstopped = np.array([[measure(replay(part, never, budget=most)).cost] for most in range(part.depths)])
    nothing = np.zeros((part.depths, 1), np.int64)
    surfaces = {}
    for name, score in maps.items():
        if np.isnan(part.confidence).all():
            surfaces[name] = Surface(np.zeros(0), nothing, nothing, nothing, unstopped)
            continue
        found = frontier(part, score=score)
        surfaces[name] = Surface(
            thresholds=found.thresholds,
            committed=np.concatenate([found.committed, nothing], axis=1),
            correct=np.concatenate([found.correct, nothing], axis=1),
            unlabelled=np.concatenate([found.unlabelled, nothing], axis=1),
            cost=np.concatenate([found.cost, unstopped], axis=1),
        )
    points = {name: measure(one, among=among) if one else None for name, one in baselines.items()}
    return Subset(len(part), surfaces, points)


def groups(traces: Traces, *, most: int = MOST) -> Iterator[tuple[str, tuple[Value, ...], Ints]]:
    """Yield every column that makes subgroups: its name, its values (None last), each trace's place among them."""
    starts = np.cumsum(traces.lengths) - traces.lengths
    for name, column in traces.table.items():
        if name in NO_GROUPS or name == traces.signal:
            continue
        if isinstance(column, Coded):
            codes, texts = column.codes, column.values.tolist()
        else:
            try:
                rows = categories(name, column)
            except BadChoice:
                continue  # lists and objects make no groups
            distinct = {*rows[starts].tolist()} - {None}
            if len(distinct) > most:
                continue
            texts = sorted(distinct, key=lambda value: (str(type(value)), value))
            place = {value: code for code, value in enumerate(texts)}
            codes = np.array([place.get(value, UNKNOWN if value is None else most) for value in rows.tolist()])
        first = codes[starts]
        used = np.unique(first)
        if not 2 <= len(used) <= most or (codes != np.repeat(first, traces.lengths)).any():
            continue
        used = np.append(used[used >= 0], used[used < 0])  # what has no value comes last
        values = tuple(None if code < 0 else texts[code] for code in used.tolist())
        places = np.argsort(used, kind="stable")[np.searchsorted(np.sort(used), first)]
        yield name, values, places


def texts_of(traces: Traces, name: str) -> Texts:
    """Return one text a state of a column, in the order of (trace, depth), None where there is nothing."""
    column = traces.table.get(name)
    if column is None:
        return objects([None] * int(traces.lengths.sum()))
    if isinstance(column, Coded):
        return column.texts()
    values = [None if value is np.ma.masked else value for value in column.tolist()]
    return objects([value if value is None else str(value) for value in values])
