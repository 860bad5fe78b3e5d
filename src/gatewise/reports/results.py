"""Results: summaries → titled tables, one value each, whatever form they are written in."""

from collections.abc import Iterator, Sequence

from gatewise.replays.agreements import Agreement, Agreements
from gatewise.replays.census import Census
from gatewise.replays.frontier import Frontier, Reading
from gatewise.replays.metrics import Point
from gatewise.replays.summaries import POOLED, Diagnosis, Group, Step, Summary
from gatewise.reports.tables import NAMES, Cell, Column, Table, best_across, best_down

RATIOS = (
    Column("OA %", "percent", name="overall_accuracy"),
    Column("CA %", "percent", name="committed_accuracy"),
    Column("coverage %", "percent", name="coverage"),
    Column("cost", "price", name="mean_cost"),
)
POINT = (
    *RATIOS,
    Column("committed", "count"),
    Column("correct", "count"),
    Column("abstained", "count"),
    Column("escalated", "count"),
)


def _point(point: Point | None) -> tuple[Cell, ...]:
    if point is None:
        return (None,) * len(POINT)
    return (
        point.overall_accuracy,
        point.committed_accuracy,
        point.coverage,
        point.mean_cost,
        point.committed,
        point.correct,
        point.abstained,
        point.escalated,
    )


def summary_tables(summary: Summary) -> Iterator[Table]:
    """Yield every table of a replay, in the order of the paper."""
    for name, group in summary.datasets.items():
        yield systems_table(name, group)
    yield systems_table(POOLED, summary.pooled)
    if summary.by:
        column, groups = summary.by
        for value, group in groups.items():
            yield systems_table(f"{column} = {'(none)' if value is None else value}", group)
            yield from diagnosis_tables(group, f" · {column} = {'(none)' if value is None else value}")
    for what, steps, heading in (
        ("Threshold sweep (budget 3, lo = min(.3, τ))", summary.thresholds, Column("τ", "plain", 2)),
        ("Budget sweep (lo .3, hi .7)", summary.budgets, Column("budget", "count")),
    ):
        for name, found in steps.items():
            if found is not None:
                yield sweep_table(f"{what}, {name}", heading, found)
    yield from diagnosis_tables(summary.pooled, "")
    if summary.comparison:
        yield comparison_table(summary)


def systems_table(name: str, group: Group) -> Table:
    """Return the paper's main table for one group of traces."""
    rows: list[tuple[Cell, ...]] = [
        (NAMES.get(system, system), *_point(point)) for system, point in group.systems.items() if point is not None
    ]
    for label, both in group.policies.items():
        rows += [(f"{label} ({score} score)", *_point(point)) for score, point in both.items() if point is not None]
    points = [point for point in group.systems.values() if point]
    missing = max((point.unlabelled for point in points), default=0)
    note = ""
    if missing:
        low, high = zip(
            *((point.bounds(point.n)[0], point.bounds(point.n)[1]) for point in points if point.unlabelled),
            strict=True,
        )
        widest = max((b or 0) - (a or 0) for a, b in zip(low, high, strict=True))
        note = (
            f"up to {missing:,} commits of a system have no verdict: they stay out of OA and CA, whose bounds "
            f"(in --json) lie at most {100 * widest:.1f} points apart"
        )
    best = frozenset([*best_down(rows, 1), *best_down(rows, 2)])
    return Table(f"Systems · {name} (n = {points[0].n:,})", (Column("system"), *POINT), tuple(rows), note, best)


def sweep_table(title: str, heading: Column, steps: Sequence[Step]) -> Table:
    """Return a sweep, each point with the raw thresholds that act alike; points without commits are left out."""
    shown = [step for step in steps if step.point.committed]
    cuts = any(step.equivalent for step in shown)
    columns = (
        heading,
        *POINT[:6],
        *(
            (Column("raw lo", "exact"), Column("raw hi", "exact")) if cuts else ()
        ),  # rounded, they would act otherwise
    )
    rows = tuple(
        (
            int(step.at) if heading.kind == "count" else step.at,
            *_point(step.point)[:6],
            *((step.equivalent or (None, None)) if cuts else ()),
        )
        for step in shown
    )
    left_out = len(steps) - len(shown)
    notes = [f"{left_out} without commits left out"] if left_out else []
    if any(step.equivalent and step.equivalent[0] is None for step in shown):
        notes.append("raw lo –: never abstains")
    return Table(title, columns, rows, "; ".join(notes), frozenset(best_down(rows, 1)))


def diagnosis_tables(group: Group, suffix: str) -> Iterator[Table]:
    """Yield calibration and ranking by depth, transitions, and the top bin."""
    columns: list[Column] = [Column("depth", "count")]
    values: list[list[Cell]] = []
    for name, diagnosis in group.diagnoses.items():
        if diagnosis is None:
            continue
        columns += [
            Column(f"{name} ECE pp", "percent"),
            Column("Brier", "plain", 4),
            Column("AUROC", "plain", 4),
            Column("AURC", "plain", 4),
        ]
        values += _lists(diagnosis)
    rows = tuple((depth, *row) for depth, row in enumerate(zip(*values, strict=True)))
    pairs = ((1, 5, True), (2, 6, True), (3, 7, False), (4, 8, True)) if len(columns) > 5 else ()
    best = frozenset(where for one, two, least in pairs for where in best_across(rows, (one, two), least=least))
    yield Table(f"Calibration by depth{suffix}", tuple(columns), rows, best=best)
    total = group.transitions
    into = [(f"into depth {place + 1}", one) for place, one in enumerate(group.transitions_into)]
    rows = tuple(
        (
            name,
            one.n,
            one.helpful,
            one.harmful,
            one.helpful / one.n if one.n else None,
            one.harmful / one.n if one.n else None,
            (one.helpful - one.harmful) / one.n if one.n else None,
        )
        for name, one in [*into, ("all", total)]
    )
    yield Table(
        f"Transitions where new evidence came{suffix}",
        (
            Column(""),
            Column("n", "count"),
            Column("helpful", "count"),
            Column("harmful", "count"),
            Column("helpful %", "percent"),
            Column("harmful %", "percent"),
            Column("net %", "percent"),
        ),
        rows,
    )
    top = group.top_bin
    yield Table(
        f"Top bin: confidence ≥ .9 at depth {top.depth}{suffix}",
        (
            Column("states", "count"),
            Column("mean raw", "plain", 3),
            Column("accuracy", "plain", 3),
            Column("mean calibrated", "plain", 3),
            Column("no verdict", "count"),
        ),
        ((top.n, top.raw, top.accuracy, top.calibrated, top.unlabelled),),
    )


def _lists(diagnosis: Diagnosis) -> list[list[Cell]]:
    return [list(diagnosis.ece), list(diagnosis.brier), list(diagnosis.auroc), list(diagnosis.aurc)]


def comparison_table(summary: Summary) -> Table:
    """Return the paired differences of the two gates."""
    both = summary.comparison
    assert both is not None  # noqa: S101 -- the caller looked
    return Table(
        "Calibrated minus raw, on the same states",
        (
            Column("OA pp", "percent"),
            Column("coverage pp", "percent"),
            Column("cost", "price"),
            Column("right by both", "count"),
            Column("by raw alone", "count"),
            Column("by calibrated alone", "count"),
            Column("moved", "count"),
        ),
        (
            (
                both.overall_accuracy,
                both.coverage,
                both.mean_cost,
                both.both_right,
                both.first_right,
                both.second_right,
                both.moved,
            ),
        ),
    )


def census_tables(counts: Census) -> Iterator[Table]:
    """Yield what a trace set holds."""
    for name in ("splits", "datasets", "models"):
        found: dict[str, int] = getattr(counts, name)
        if found:
            columns = (Column(name[:-1]), Column("traces", "count"))
            yield Table(f"Traces by {name[:-1]}", columns, tuple(found.items()))
    yield Table(
        "States by depth",
        (
            Column("depth", "count"),
            Column("states", "count"),
            Column("no confidence", "count"),
            Column("no verdict", "count"),
            Column("copied", "count"),
            Column(f"distinct {counts.signal}", "count"),
        ),
        tuple(
            zip(
                range(len(counts.states_by_depth)),
                counts.states_by_depth,
                counts.without_confidence,
                counts.without_verdict,
                counts.copied,
                counts.distinct,
                strict=True,
            )
        ),
    )


def readings_table(title: str, readings: Sequence[tuple[str, int, Reading | None]]) -> Table:
    """Return frontiers read at one target, a row for each score and budget."""
    rows: list[tuple[Cell, ...]] = []
    for name, budget, reading in readings:
        risk = reading.point.selective_risk if reading else None
        rows.append(
            (
                name,
                budget,
                reading.threshold if reading else "not attainable",
                *_point(reading.point if reading else None)[:6],
                risk,
            )
        )
    columns = (Column("score"), Column("budget", "count"), Column("threshold", "exact"), *POINT[:6])
    return Table(title, (*columns, Column("risk %", "percent")), tuple(rows), keys=2)


def gate_table(point: Point, split: str) -> Table:
    """Return what one gate would have done on a split."""
    return Table(f"Would have done · {split} (n = {point.n:,})", POINT, (_point(point),))


def frontier_table(name: str, surface: Frontier) -> Table:
    """Return, for every budget, the threshold with the most right answers."""
    rows: list[tuple[Cell, ...]] = []
    for budget in range(surface.budgets):
        if len(surface.thresholds):
            place = int(surface.correct[budget].argmax())
            rows.append((budget, float(surface.thresholds[place]), *_point(surface.point(budget, place))[:6]))
    return Table(
        f"Most right answers by budget, {name} ({len(surface.thresholds):,} distinct thresholds)",
        (Column("budget", "count"), Column("threshold", "exact"), *POINT[:6]),
        tuple(rows),
        best=frozenset(best_down(rows, 2)),
    )


def agreement_tables(found: Agreements) -> Iterator[Table]:
    """Yield the two by two counts of two judges, and their agreement, pooled and by group."""
    first, second = found.judges
    one = found.pooled
    without = one.without_first + one.without_second + one.without_both
    note = (
        f"{without:,} left out: {one.without_first:,} without a verdict of the first alone, {one.without_second:,} "
        f"of the second alone, {one.without_both:,} of both"
    )
    yield Table(
        f"Verdicts (n = {one.n:,})",
        (Column(""), Column(f"{second}: right", "count"), Column(f"{second}: wrong", "count")),
        ((f"{first}: right", one.both_right, one.first_right), (f"{first}: wrong", one.second_right, one.both_wrong)),
        note if without else "",
    )
    rows: list[tuple[Cell, ...]] = [(POOLED, *_agreement(one))]
    if found.by:
        rows += [
            ("(none)" if value is None else str(value), *_agreement(group)) for value, group in found.by[1].items()
        ]
    columns = (
        Column(found.by[0] if found.by else ""),
        Column("n", "count"),
        Column("agree %", "percent"),
        Column("by chance %", "percent"),
        Column("kappa", "plain", 3),
        Column("first right %", "percent"),
        Column("second right %", "percent"),
        Column("without", "count"),
    )
    yield Table("Agreement", columns, tuple(rows))


def _agreement(one: Agreement) -> tuple[Cell, ...]:
    without = one.without_first + one.without_second + one.without_both
    return (one.n, one.observed, one.expected, one.kappa, one.first, one.second, without)
