"""Overviews: several models' summaries → the tables of a paper, one value each."""

from collections.abc import Iterator, Mapping, Sequence

from gatewise.replays.metrics import Point, Transitions
from gatewise.replays.summaries import POOLED, Diagnosis, Group, Step, Summary
from gatewise.reports.results import RATIOS
from gatewise.reports.tables import NAMES, Cell, Column, Place, Table, best_across, best_down

MODEL = Column("model")
DIAGNOSES = (
    # heading, attribute, kind, decimals, whether less is better
    ("ECE pp", "ece", "percent", 1, True),
    ("Brier", "brier", "plain", 4, True),
    ("AUROC", "auroc", "plain", 4, False),
    ("AURC", "aurc", "plain", 4, True),
)
TRANSITIONS = (
    Column("n", "count"),
    Column("helpful", "count"),
    Column("harmful", "count"),
    Column("helpful %", "percent", name="helpful_rate"),
    Column("harmful %", "percent", name="harmful_rate"),
    Column("net %", "percent", name="net_rate"),
)

Groups = Sequence[tuple[tuple[Cell, ...], Group]]  # what a group is called, one name a key column


def report_tables(summaries: Sequence[Summary]) -> dict[str, Table]:
    """Return every table of a report by the name of its file, over all models."""
    parts = [
        ((summary.model, name), group)
        for summary in summaries
        for name, group in (*(summary.datasets.items() if len(summary.datasets) > 1 else ()), _all(summary))
    ]
    wholes: Groups = [((summary.model,), summary.pooled) for summary in summaries]
    tables = {
        "main": main_table("Systems by model and data set", (MODEL, Column("data set", name="dataset")), parts),
        "actions": actions_table("What the systems did", (MODEL, Column("data set", name="dataset")), parts),
        "calibration": calibration_table("Calibration and ranking by depth", (MODEL,), wholes),
        "transitions": transitions_table("Transitions where new evidence came", (MODEL,), wholes, average=True),
        "top-bin": top_bin_table("The most confident states: confidence ≥ .9", (MODEL,), wholes),
        "thresholds": sweep_overview(
            "Threshold sweep: budget 3, lo = min(.3, τ)",
            Column("τ", "plain", 2, name="threshold"),
            [(summary.model, summary.thresholds) for summary in summaries],
        ),
        "budgets": sweep_overview(
            "Budget sweep: lo .3, hi .7",
            Column("budget", "count"),
            [(summary.model, summary.budgets) for summary in summaries],
        ),
    }
    if any(summary.comparison for summary in summaries):
        tables["comparison"] = comparison_overview(summaries)
    if any(summary.by for summary in summaries):
        tables |= _subgroups(summaries)
    return tables


def _all(summary: Summary) -> tuple[str, Group]:
    """Return all traces of a model under the name of their data set, where they are of one."""
    return (next(iter(summary.datasets)) if len(summary.datasets) == 1 else POOLED), summary.pooled


def _subgroups(summaries: Sequence[Summary]) -> dict[str, Table]:
    column = next(summary.by[0] for summary in summaries if summary.by)
    groups: Groups = [
        ((summary.model, value), group)
        for summary in summaries
        if summary.by
        for value, group in summary.by[1].items()
    ]
    keys = (MODEL, Column(column, name="subgroup"))
    return {
        "by": main_table(f"Systems by {column}", keys, groups),
        "by-actions": actions_table(f"What the systems did, by {column}", keys, groups),
        "by-calibration": calibration_table(f"Calibration and ranking by depth and {column}", keys, groups),
        "by-transitions": transitions_table(f"Transitions by {column}", keys, groups),
    }


def _systems(group: Group) -> Iterator[tuple[str, Point]]:
    for name, point in group.systems.items():
        if point is not None:
            yield NAMES.get(name, name), point
    for label, both in group.policies.items():
        for score, point in both.items():
            if point is not None:
                yield f"{label} ({score} score)", point


def main_table(title: str, keys: tuple[Column, ...], groups: Groups) -> Table:
    """Return the paper's main table; within a group the highest accuracies are best."""
    rows: list[tuple[Cell, ...]] = [
        (*names, system, point.overall_accuracy, point.committed_accuracy, point.coverage, point.mean_cost)
        for names, group in groups
        for system, point in _systems(group)
    ]
    size = len(keys)
    best = frozenset(where for at in (1, 2) for where in best_down(rows, size + at, keys=size))
    without = max((point.unlabelled for _, group in groups for _, point in _systems(group)), default=0)
    note = f"Up to {without:,} commits of a system have no verdict: they stay out of OA and CA." if without else ""
    return Table(title, (*keys, Column("system"), *RATIOS), tuple(rows), note, best, size)


def actions_table(title: str, keys: tuple[Column, ...], groups: Groups) -> Table:
    """Return the counts behind the main table."""
    counts = ("n", "committed", "correct", "wrong", "no verdict", "abstained", "escalated")
    columns = (*keys, Column("system"), *(Column(name, "count") for name in counts), Column("summed cost", "price"))
    rows: list[tuple[Cell, ...]] = [
        (
            *names,
            system,
            point.n,
            point.committed,
            point.correct,
            point.committed - point.correct - point.unlabelled,
            point.unlabelled,
            point.abstained,
            point.escalated,
            point.cost,
        )
        for names, group in groups
        for system, point in _systems(group)
    ]
    return Table(title, columns, tuple(rows), keys=len(keys))


def calibration_table(title: str, keys: tuple[Column, ...], groups: Groups) -> Table:
    """Return calibration error and ranking by depth, the better score of each pair best."""
    scores = [name for name in ("raw", "calibrated") if any(group.diagnoses[name] for _, group in groups)]
    columns = [*keys, Column("depth", "count")]
    for heading, attribute, kind, decimals, _ in DIAGNOSES:
        columns += [Column(f"{heading} {name}", kind, decimals, f"{attribute}_{name}") for name in scores]
    rows: list[tuple[Cell, ...]] = []
    for names, group in groups:
        for depth in range(len(group.transitions_into) + 1):
            row: list[Cell] = [*names, depth]
            for _, attribute, _, _, _ in DIAGNOSES:
                row += [_at(group.diagnoses[name], attribute, depth) for name in scores]
            rows.append(tuple(row))
    best: set[Place] = set()
    for place, (_, _, _, _, least) in enumerate(DIAGNOSES):
        first = len(keys) + 1 + place * len(scores)
        best |= set(best_across(rows, range(first, first + len(scores)), least=least))
    return Table(title, tuple(columns), tuple(rows), best=frozenset(best), keys=len(keys))


def _at(diagnosis: Diagnosis | None, attribute: str, depth: int) -> float | None:
    values: list[float | None] = getattr(diagnosis, attribute) if diagnosis else []
    return values[depth] if depth < len(values) else None


def transitions_table(title: str, keys: tuple[Column, ...], groups: Groups, *, average: bool = False) -> Table:
    """Return transitions into each depth and together; with `average`, the mean rates of several models."""
    rows: list[tuple[Cell, ...]] = []
    for names, group in groups:
        into = [(f"into depth {place + 1}", one) for place, one in enumerate(group.transitions_into)]
        rows += [(*names, where, one.n, one.helpful, one.harmful, *_rates(one)) for where, one in into]
        one = group.transitions
        rows.append((*names, "all", one.n, one.helpful, one.harmful, *_rates(one)))
    if average and len(groups) > 1:
        known = [rates for rates in (_rates(group.transitions) for _, group in groups) if rates[0] is not None]
        means = [sum(rate or 0.0 for rate in column) / len(known) for column in zip(*known, strict=True)]
        rows.append(("mean of models", *[None] * (len(keys) - 1), "all", None, None, None, *(means or [None] * 3)))
    return Table(title, (*keys, Column("where"), *TRANSITIONS), tuple(rows), keys=len(keys))


def _rates(one: Transitions) -> tuple[float | None, float | None, float | None]:
    if not one.n:
        return None, None, None
    return one.helpful / one.n, one.harmful / one.n, (one.helpful - one.harmful) / one.n


def top_bin_table(title: str, keys: tuple[Column, ...], groups: Groups) -> Table:
    """Return how sure the most confident states of the deepest depth are, and how often right."""
    columns = (
        *keys,
        Column("depth", "count"),
        Column("states", "count"),
        Column("mean raw", "plain", 3),
        Column("accuracy", "plain", 3),
        Column("mean calibrated", "plain", 3),
        Column("no verdict", "count"),
    )
    rows = [
        (*names, top.depth, top.n, top.raw, top.accuracy, top.calibrated, top.unlabelled)
        for names, group in groups
        for top in [group.top_bin]
    ]
    return Table(title, columns, tuple(rows), keys=len(keys))


def sweep_overview(
    title: str, at: Column, sweeps: Sequence[tuple[str | None, Mapping[str, list[Step] | None]]]
) -> Table:
    """Return a sweep of both scores over all models, each gate with the raw thresholds that act alike."""
    rows: list[tuple[Cell, ...]] = [
        (
            model,
            score,
            int(step.at) if at.kind == "count" else step.at,
            step.point.overall_accuracy,
            step.point.committed_accuracy,
            step.point.coverage,
            step.point.mean_cost,
            step.point.selective_risk,
            step.point.committed,
            step.point.correct,
            *(step.equivalent or (None, None)),
        )
        for model, scores in sweeps
        for score, steps in scores.items()
        for step in steps or ()
    ]
    columns = (
        MODEL,
        Column("score"),
        at,
        *RATIOS,
        Column("risk %", "percent", name="selective_risk"),
        Column("committed", "count"),
        Column("correct", "count"),
        Column("raw lo", "exact"),
        Column("raw hi", "exact"),
    )
    best = frozenset(best_down(rows, 3, keys=2))
    return Table(title, columns, tuple(rows), best=best, keys=2)


def comparison_overview(summaries: Sequence[Summary]) -> Table:
    """Return the paired differences of the two gates, model by model."""
    columns = (
        MODEL,
        Column("OA pp", "percent", name="overall_accuracy"),
        Column("coverage pp", "percent", name="coverage"),
        Column("cost", "price", name="mean_cost"),
        Column("right by both", "count"),
        Column("by raw alone", "count", name="right_by_raw_alone"),
        Column("by calibrated alone", "count", name="right_by_calibrated_alone"),
        Column("moved", "count"),
        Column("n", "count"),
    )
    rows = [
        (
            summary.model,
            both.overall_accuracy,
            both.coverage,
            both.mean_cost,
            both.both_right,
            both.first_right,
            both.second_right,
            both.moved,
            both.first.n,
        )
        for summary in summaries
        if (both := summary.comparison)
    ]
    return Table("Calibrated minus raw, on the same states", columns, tuple(rows), keys=1)
