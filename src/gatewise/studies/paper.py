"""The reproduction: every published number beside the one replayed from the bundled reconstructions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gatewise.replays.metrics import Point
from gatewise.replays.summaries import Step, Summary

SYSTEMS = {
    "Parametric only": "parametric",
    "Fixed RAG@1": "rag@1",
    "Fixed RAG@2": "rag@2",
    "Fixed RAG@3": "rag@3",
    "Adaptive proxy": "adaptive",
    "raw-gated": "raw",
    "calibrated-gated": "calibrated",
}
SCORES = ("raw", "calibrated")


@dataclass(frozen=True)
class Check:
    """One published number and the replayed one; equal when they agree to the published decimals."""

    model: str
    what: str
    published: float
    replayed: float | None
    decimals: int  # 0 for counts, which must be equal

    @property
    def ok(self) -> bool:
        """Whether the replayed number rounds to the published one."""
        if self.replayed is None:
            return False
        slack = 0.5 * 10.0**-self.decimals * (1 + 1e-9) if self.decimals else 0.0
        return abs(self.replayed - self.published) <= slack


def checks(numbers: Mapping[str, Any], summaries: Mapping[str, Summary]) -> Iterator[Check]:
    """Yield every published number with its replayed twin, model by model."""
    for model, summary in summaries.items():
        for what, published, replayed, decimals in (
            *_main_table(numbers["table"][model], summary),
            *_risk_coverage(numbers["risk_coverage"][model], summary),
            *_oa_cost(numbers["oa_cost"][model], summary),
            *_diagnoses(numbers, model, summary),
        ):
            yield Check(model, what, published, replayed, decimals)
    rates = [_transition_rates(summary) for summary in summaries.values()]
    for place, name in enumerate(("helpful", "harmful", "net")):
        mean = sum(rate[place] for rate in rates) / len(rates)
        yield Check("average", f"transitions {name} %", numbers["transitions"]["average"][place], mean, 1)


Numbers = Iterator[tuple[str, float, float | None, int]]


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * ratio


def _main_table(published: Mapping[str, Any], summary: Summary) -> Numbers:
    for dataset, rows in published.items():
        for name, row in rows.items():
            point = _required(summary.datasets[dataset].systems[SYSTEMS[name]])
            place = f"table · {dataset} · {name} ·"
            yield f"{place} OA %", row["oa"], _percent(point.overall_accuracy), 1
            yield f"{place} CA %", row["ca"], _percent(point.committed_accuracy), 1
            yield f"{place} coverage %", row["coverage"], _percent(point.coverage), 1
            yield f"{place} cost", row["cost"], point.mean_cost, 2


def _required(point: Point | None) -> Point:
    if point is None:
        raise LookupError("a reconstruction has a calibration split, so every system is replayed")
    return point


def _risk_coverage(published: Mapping[str, Any], summary: Summary) -> Numbers:
    for series, points in published.items():
        score, at, tau = series.partition("@")
        for row in points:
            if score == "baselines":
                where, point = row["system"], _required(summary.pooled.systems[row["system"]])
            else:
                wanted = float(tau) if at else row["tau"]
                where, point = f"τ {wanted:.2f}", _at(summary.thresholds[score], wanted)
            place = f"risk–coverage · {series} · {where} ·"
            yield f"{place} committed", row["committed"], point.committed, 0
            yield f"{place} wrong", row["wrong"], point.committed - point.correct, 0
            yield f"{place} coverage", row["coverage"], point.coverage, 6
            yield f"{place} risk", row["selective_risk"], point.selective_risk, 6


def _at(steps: list[Step] | None, at: float) -> Point:
    for step in steps or ():
        if step.at == at:
            return step.point
    raise LookupError(f"no sweep point at {at}")


def _oa_cost(published: Mapping[str, Any], summary: Summary) -> Numbers:
    baselines = list(SYSTEMS.values())[:5]
    for series, points in published.items():
        for row in points:
            if series == "baselines":
                where = baselines[row["budget"]]
                point = _required(summary.pooled.systems[where])
            else:
                where, point = f"budget {row['budget']}", _at(summary.budgets[series], row["budget"])
            place = f"OA–cost · {series} · {where} ·"
            yield f"{place} retrievals", row["retrievals"], point.cost, 0
            yield f"{place} correct", row["correct"], point.correct, 0
            yield f"{place} cost", row["cost"], point.mean_cost, 6
            yield f"{place} OA", row["oa"], point.overall_accuracy, 6


Coordinates = Mapping[str, Mapping[str | None, list[tuple[float, float]]]]


def coordinates(numbers: Mapping[str, Any]) -> Coordinates:
    """Return every published coordinate by figure and model: (coverage, risk) and (cost, OA)."""
    figures = {
        "risk-coverage": ("risk_coverage", "coverage", "selective_risk"),
        "accuracy-cost": ("oa_cost", "cost", "oa"),
    }
    return {
        figure: {
            model: [(row[x], row[y]) for rows in series.values() for row in rows]
            for model, series in numbers[name].items()
        }
        for figure, (name, x, y) in figures.items()
    }


def _transition_rates(summary: Summary) -> tuple[float, float, float]:
    found = summary.pooled.transitions
    rates = (found.helpful, found.harmful, found.helpful - found.harmful)
    return rates[0] * 100 / found.n, rates[1] * 100 / found.n, rates[2] * 100 / found.n


def _diagnoses(numbers: Mapping[str, Any], model: str, summary: Summary) -> Numbers:
    for score in SCORES:
        diagnosis = summary.pooled.diagnoses[score]
        for depth, value in enumerate(numbers["ece_pp"][model][score]):
            yield (
                f"ECE · {score} · depth {depth} · pp",
                value,
                _percent(diagnosis.ece[depth]) if diagnosis else None,
                1,
            )
    yield "transitions · n", numbers["transitions"]["n"], summary.pooled.transitions.n, 0
    rates = _transition_rates(summary)
    for name, value, rate in zip(("helpful", "harmful", "net"), numbers["transitions"][model], rates, strict=True):
        yield f"transitions · {name} %", value, rate, 1
    top = summary.pooled.top_bin
    found = (top.n, top.raw, top.accuracy, top.calibrated)
    names = ("states", "mean raw", "accuracy", "mean calibrated")
    for name, value, replayed in zip(names, numbers["top_bin_depth3"][model], found, strict=True):
        yield f"top bin, depth 3 · {name}", value, replayed, 0 if name == "states" else 3
