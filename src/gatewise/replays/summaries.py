"""summarize: everything that one set of traces says about one gate, as a single value.

The systems of the paper, the threshold and budget sweeps, calibration error by depth, transitions and the top
bin, pooled and by subgroup. Tables, JSON and figures are read off this value, so their numbers are the same.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gatewise.errors import BadChoice
from gatewise.replays.arrays import Bools, Texts
from gatewise.replays.calibrators import (
    Isotonic,
    IsotonicByDepth,
    Raw,
    Score,
    as_json,
    doubts,
    equivalent_raw,
    require_no_leak,
    require_same_signal,
)
from gatewise.replays.comparisons import Comparison, compare
from gatewise.replays.loop import UNLIMITED, Episodes, replay
from gatewise.replays.metrics import (
    Point,
    TopBin,
    Transitions,
    aurc,
    auroc,
    brier,
    ece,
    measure,
    top_bin,
    transitions,
)
from gatewise.replays.policies import BASELINES, Policy, Threshold, has_words
from gatewise.replays.traces import Traces, named

THRESHOLDS = (0.20, 0.33, 0.50, 0.67, 0.70, 0.80, 0.90, 0.95)
GATE = Threshold(lo=0.3, hi=0.7)
BUDGET = 3
POOLED = "pooled"

Value = str | int | float | None
Progress = Callable[[str, int, int], None]  # what, done, of how many


@dataclass(frozen=True)
class Step:
    """One point of a sweep: the threshold or budget it was replayed at, and the gate in raw terms."""

    at: float
    point: Point
    equivalent: tuple[float | None, float | None] | None = None


@dataclass(frozen=True)
class Diagnosis:
    """How one score is calibrated and ranks, depth by depth; None at a depth without usable states."""

    ece: list[float | None]
    brier: list[float | None]
    auroc: list[float | None]
    aurc: list[float | None]


@dataclass(frozen=True)
class Group:
    """The systems and diagnoses of one group of traces."""

    systems: dict[str, Point | None]
    policies: dict[str, dict[str, Point | None]]
    diagnoses: dict[str, Diagnosis | None]
    transitions: Transitions
    transitions_into: list[Transitions]
    top_bin: TopBin


@dataclass(frozen=True)
class Summary:
    """What `summarize` found; `as_json` is the contract of `gatewise replay --json`."""

    gate: Threshold
    budget: int
    signal: str
    model: str | None
    map: Isotonic | IsotonicByDepth | None
    equivalent: tuple[float | None, float | None] | None
    pooled: Group
    datasets: dict[str, Group]
    by: tuple[str, dict[Value, Group]] | None
    thresholds: dict[str, list[Step] | None]
    budgets: dict[str, list[Step] | None]
    comparison: Comparison | None
    warnings: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Return the summary as plain values, ratios of nothing as None."""
        return {
            "schema": "gatewise.replay/1",
            "settings": {
                "lo": self.gate.lo,
                "hi": self.gate.hi,
                "budget": self.budget,
                "signal": self.signal,
                "model": self.model,
            },
            "map": self.map and as_json(self.map),
            "equivalent_raw": _cuts(self.equivalent),
            "systems": {
                POOLED: _points(self.pooled.systems),
                **{name: _points(group.systems) for name, group in self.datasets.items()},
            },
            "thresholds": {name: _steps(steps, "tau") for name, steps in self.thresholds.items()},
            "budgets": {name: _steps(steps, "budget") for name, steps in self.budgets.items()},
            "comparison": self.comparison and comparison_json(self.comparison),
            **_group_json(self.pooled),
            "by": self.by
            and {
                "column": self.by[0],
                "groups": [
                    {"value": value, "systems": _points(group.systems), **_group_json(group)}
                    for value, group in self.by[1].items()
                ],
            },
            "warnings": list(self.warnings),
        }


def summarize(
    traces: Traces,
    *,
    calibrated: Isotonic | IsotonicByDepth | None = None,
    gate: Threshold = GATE,
    budget: int = BUDGET,
    policies: Mapping[str, Policy] | None = None,
    by: str | None = None,
    thresholds: Sequence[float] = THRESHOLDS,
    allow_leak: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Summary:
    """Replay every system and sweep over one model's traces, and return all that the paper reports of them.

    `calibrated` is the map of the calibrated gate; without one its parts are None. `policies` are replayed
    beside the paper's systems on both scores, `by` names a column to break everything down by, `thresholds` are
    those of the sweep.
    """
    model, budget = traces.require_one_model(), min(budget, UNLIMITED)
    if not len(traces):
        raise BadChoice("expected traces to replay, found none. Choose another split.")
    if calibrated:
        (require_same_signal if allow_leak else require_no_leak)(calibrated, traces)
    datasets = named(traces.datasets)
    if POOLED in datasets:
        raise BadChoice(f"expected data sets not called {POOLED!r}, the name of all together, found one. Rename it.")
    scores: dict[str, Score | None] = {"raw": Raw(), "calibrated": calibrated}

    asked = np.array([has_words(question) for question in traces.questions], np.bool_)
    each = 1 + len(policies or {}) + len(thresholds) + traces.depths
    total = len(BASELINES) - (not asked.any()) + each * (2 if calibrated else 1)
    done = itertools.count()

    def walk(policy: Policy, score: Score | None = None, most: int = budget, over: Traces = traces) -> Episodes:
        progress("replaying", next(done), total)
        return replay(over, policy, score=score, budget=most)

    systems: dict[str, Episodes | None] = {
        name: walk(policy, most=UNLIMITED) for name, policy in BASELINES.items() if name != "adaptive"
    }
    if asked.any():
        part = traces if asked.all() else traces.select(asked)
        systems["adaptive"] = _among(traces, asked, walk(BASELINES["adaptive"], most=UNLIMITED, over=part))
    for name, score in scores.items():
        systems[name] = walk(gate, score) if score else None
    extra = {
        label: {name: walk(policy, score) if score else None for name, score in scores.items()}
        for label, policy in (policies or {}).items()
    }

    def group(among: Bools) -> Group:
        part = traces if among.all() else traces.select(among)
        return Group(
            systems={
                name: measure(episodes, among=among) if episodes else None
                for name, episodes in systems.items()
                if name != "adaptive" or asked[among].all()
            },
            policies={
                label: {name: measure(episodes, among=among) if episodes else None for name, episodes in both.items()}
                for label, both in extra.items()
            },
            diagnoses={name: score and _diagnose(part, score) for name, score in scores.items()},
            transitions=transitions(part),
            transitions_into=[transitions(part, depth=depth) for depth in range(1, part.depths)],
            top_bin=top_bin(part, score=calibrated),
        )

    def swept(score: Score | None, gates: list[tuple[float, Threshold, int]]) -> list[Step] | None:
        if score is None:
            return None
        return [
            Step(at, measure(walk(one, score, most)), equivalent_raw(score, one.lo, one.hi))
            for at, one, most in gates
        ]

    taus = [(tau, Threshold(lo=min(GATE.lo, tau), hi=tau), BUDGET) for tau in thresholds]
    limits = [(float(most), GATE, most) for most in range(traces.depths)]
    raw, mapped = systems["raw"], systems["calibrated"]
    return Summary(
        gate=gate,
        budget=budget,
        signal=traces.signal,
        model=model,
        map=calibrated,
        equivalent=equivalent_raw(calibrated, gate.lo, gate.hi) if calibrated else None,
        pooled=group(np.ones(len(traces), np.bool_)),
        datasets={name: group(traces.datasets == name) for name in datasets},
        by=(by, {value: group(mask) for value, mask in _groups(traces.column(by))}) if by else None,
        thresholds={name: swept(score, taus) for name, score in scores.items()},
        budgets={name: swept(score, limits) for name, score in scores.items()},
        comparison=compare(raw, mapped) if raw and mapped else None,
        warnings=(*traces.warnings, *doubts(calibrated, model)),
    )


def _among(traces: Traces, chosen: Bools, episodes: Episodes) -> Episodes:
    """Return episodes over all traces whose walk is known for the chosen ones; the others are never measured."""
    action, depth = np.zeros(len(traces), np.int8), np.zeros(len(traces), np.int64)
    action[chosen], depth[chosen] = episodes.action, episodes.depth
    return Episodes(traces, action, depth)


def _diagnose(traces: Traces, score: Score) -> Diagnosis:
    states = [(score(traces.confidence[:, depth], depth), traces.correct[:, depth]) for depth in range(traces.depths)]
    return Diagnosis(
        ece=[ece(*state) for state in states],
        brier=[brier(*state) for state in states],
        auroc=[auroc(*state) for state in states],
        aurc=[aurc(*state) for state in states],
    )


def _groups(values: Texts) -> list[tuple[Value, Bools]]:
    distinct = sorted({value for value in values.tolist() if value is not None}, key=lambda v: (str(type(v)), v))
    found: list[tuple[Value, Bools]] = [(value, values == value) for value in distinct]
    missing = np.array([value is None for value in values], np.bool_)
    return [*found, (None, missing)] if missing.any() else found


def _points(systems: Mapping[str, Point | None]) -> dict[str, Any]:
    return {name: point and point.as_json() for name, point in systems.items()}


def _cuts(equivalent: tuple[float | None, float | None] | None) -> dict[str, float | None] | None:
    return {"lo": equivalent[0], "hi": equivalent[1]} if equivalent else None


def _steps(steps: list[Step] | None, name: str) -> list[dict[str, Any]] | None:
    if steps is None:
        return None
    kind = int if name == "budget" else float
    return [{name: kind(step.at), **step.point.as_json(), "equivalent_raw": _cuts(step.equivalent)} for step in steps]


def _group_json(group: Group) -> dict[str, Any]:
    def by_depth(what: str) -> dict[str, Any]:
        return {name: diagnosis and getattr(diagnosis, what) for name, diagnosis in group.diagnoses.items()}

    return {
        "policies": {label: _points(both) for label, both in group.policies.items()},
        "calibration_error": by_depth("ece"),
        "brier": by_depth("brier"),
        "auroc": by_depth("auroc"),
        "aurc": by_depth("aurc"),
        "transitions": vars(group.transitions),
        "transitions_by_depth": [vars(into) for into in group.transitions_into],
        "top_bin": vars(group.top_bin),
    }


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as plain values."""
    names = ("committed", "correct", "cost", "overall_accuracy", "coverage", "mean_cost")
    pairs = ("both_right", "first_right", "second_right", "moved")
    return {name: getattr(comparison, name) for name in (*names, *pairs)}
