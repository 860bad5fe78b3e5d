"""Plots: findings → figures for print, one panel a model, each figure a function that returns it.

Every figure takes `width`: a page (7 in) or one of its columns (3.3 in); letters are 7 points or more at both.
A figure of one model is as wide as a column. Colour is never the only sign: scores differ by marker and line too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gatewise.replays.findings import SCORES, Findings, wilson
from gatewise.replays.frontier import Frontier
from gatewise.replays.metrics import Bin, Point
from gatewise.replays.summaries import BUDGET
from gatewise.reports.panels import (
    BLACK,
    BLUE,
    COLUMN,
    GREEN,
    GREY,
    NORMAL,
    PAGE,
    PALE,
    SMALL,
    VERMILLION,
    Figure,
    Margins,
    drawing,
    finish,
    lettered,
    sheet,
)
from gatewise.reports.tables import NAMES

STYLES = {"raw": (BLUE, "o", "-"), "calibrated": (VERMILLION, "s", (0, (4, 1.5)))}
BASELINES = {"parametric": "x", "rag@1": "^", "rag@2": "v", "rag@3": "D", "adaptive": "P"}
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)

Drawing = Callable[..., Figure]
Entry = tuple[Any, str]  # of a legend: what stands for it, and its words
Published = Mapping[str | None, Sequence[tuple[float, float]]]  # points to lay over, by model


def _percent(value: float, place: int | None = None) -> str:
    return f"{100 * value:.0f}"


def _fit(found: Sequence[Findings], width: float, each: float) -> tuple[float, int]:
    """Return the width that these models need, and how many panels stand side by side."""
    width = width if len(found) > 1 else min(width, COLUMN)
    return width, max(1, min(len(found), int(width / each)))


def _title(axes: Any, one: Findings, found: Sequence[Findings], room: float) -> None:
    name = one.model or ("traces without a model" if len(found) > 1 else "")
    axes.set_title(lettered(name, room, NORMAL), weight="bold")


def _room(axes: Any) -> float:
    """Return the width of a panel in inches."""
    return float(axes.get_position().width * axes.figure.get_size_inches()[0])


def _curve(surface: Frontier, budget: int, x: str, y: str) -> tuple[list[float], list[float]]:
    """Return a frontier at one budget by two of coverage, risk, OA and cost, where both exist."""
    row = min(budget, surface.budgets - 1)
    committed, correct = surface.committed[row].tolist(), surface.correct[row].tolist()
    unlabelled, cost, n = surface.unlabelled[row].tolist(), surface.cost[row].tolist(), surface.n
    points = []
    for some, right, without, price in zip(committed, correct, unlabelled, cost, strict=True):
        if some > without:
            values = {
                "coverage": some / n,
                "risk": (some - without - right) / (some - without),
                "accuracy": right / (n - without),
                "cost": price / n,
            }
            points.append((values[x], values[y]))
    return [point[0] for point in points], [point[1] for point in points]


def _marks(axes: Any, points: Sequence[tuple[float | None, float | None]], **style: Any) -> Any:
    known = [(x, y) for x, y in points if x is not None and y is not None]
    (line,) = axes.plot([x for x, _ in known], [y for _, y in known], **{"linestyle": "none", **style})
    return line


def _baselines(axes: Any, systems: Mapping[str, Point | None], x: str, y: str) -> list[tuple[Any, str]]:
    entries = []
    for name, marker in BASELINES.items():
        point = systems.get(name)
        if point is not None:
            style = {"marker": marker, "color": BLACK, "markersize": 4.5, "markeredgewidth": 0.8}
            where = [(getattr(point, x), getattr(point, y))]
            fill = {"markerfacecolor": "white"} if marker not in "x" else {}
            line = _marks(axes, where, **style, **fill, zorder=4, gid=f"baseline-{name}", clip_on=False)
            entries.append((line, NAMES[name]))
    return entries


def _published(axes: Any, points: Sequence[tuple[float, float]]) -> list[tuple[Any, str]]:
    if not points:
        return []
    style = {"marker": "o", "markersize": 8.5, "markerfacecolor": "none", "markeredgecolor": BLACK}
    line = _marks(axes, points, **style, markeredgewidth=0.6, zorder=6, gid="published", clip_on=False)
    return [(line, "published coordinate")]


def _by_model(
    found: Sequence[Findings],
    width: float,
    panel: Callable[[Any, Findings], list[Entry]],
    published: Published | None,
) -> tuple[Figure, Margins, Sequence[Any], list[Entry], float]:
    """Return a sheet with one panel a model, its margins, its panels, their legend, and the highest point drawn."""
    width, columns = _fit(found, width, 2.1)
    margins = Margins()
    figure, panels = sheet([("", len(found))], width=width, columns=columns, height=1.9, margins=margins)
    entries: list[Entry] = []
    highest = 0.1
    for place, (one, axes) in enumerate(zip(found, panels[0], strict=True)):
        _title(axes, one, found, _room(axes))
        entries += panel(axes, one)
        entries += _published(axes, (published or {}).get(one.model, ()))
        highest = max([highest, *(max(line.get_ydata(), default=0.0) for line in axes.get_lines())])
        axes.yaxis.set_major_formatter(_percent)
        axes.tick_params(labelleft=place % columns == 0)
    return figure, margins, panels[0], entries, highest


def risk_coverage(
    found: Sequence[Findings],
    *,
    width: float = PAGE,
    published: Published | None = None,
) -> Figure:
    """Return selective risk against coverage: the exact frontier, the sampled thresholds, baselines, the gate.

    The frontier is that of budget 3, as the sampled thresholds are; pale lines are other budgets. `published` are
    (coverage, risk) to lay over, by model.
    """
    with drawing():
        figure, margins, panels, entries, highest = _by_model(found, width, _risk_panel, published)
        for axes in panels:
            axes.set_xticks(SHARES)
            axes.xaxis.set_major_formatter(_percent)
            if not any(len(line.get_xdata()) for line in axes.get_lines()):
                style = {"transform": axes.transAxes, "ha": "center", "va": "center", "color": GREY}
                axes.text(0.5, 0.5, "no answers with a verdict", **style)
            axes.set_xlim(0, 1.03)
            axes.set_ylim(0, min(1.03, 1.08 * highest))
        finish(figure, margins, entries, x="coverage (%)", y="selective risk (%)")
    return figure


def _risk_panel(axes: Any, one: Findings) -> list[tuple[Any, str]]:
    summary, entries = one.summary, []
    sampled = min(BUDGET, one.depths - 1)
    others = [budget for budget in range(one.depths) if budget != sampled]
    for budget in others:
        axes.plot(*_curve(one.frontiers["raw"], budget, "coverage", "risk"), color=PALE, linewidth=0.8)
    for name, surface in one.frontiers.items():
        colour, marker, dashes = STYLES[name]
        x, y = _curve(surface, sampled, "coverage", "risk")
        wide = 2.4 if name == "raw" and len(one.frontiers) > 1 else 1.1
        (line,) = axes.plot(
            x,
            y,
            color=colour,
            linestyle=dashes,
            linewidth=wide,
            alpha=0.45 if wide > 2 else 1.0,
            gid=f"frontier-{name}",
        )
        entries.append((line, f"exact frontier, {name}"))
    for name, steps in summary.thresholds.items():
        if steps:
            colour, marker, _ = STYLES[name]
            where = [(step.point.coverage, step.point.selective_risk) for step in steps]
            style = {"marker": marker, "color": colour, "markersize": 3.4, "clip_on": False}
            line = _marks(axes, where, zorder=3, gid=f"sampled-{name}", **style)
            entries.append((line, f"sampled τ, {name}"))
    entries += _baselines(axes, summary.pooled.systems, "coverage", "selective_risk")
    entries += _operating(axes, one, "coverage", "selective_risk")
    if others:
        (line,) = axes.plot([], [], color=PALE, linewidth=0.8)
        entries.append((line, "other budgets, raw"))
    return entries


def _operating(axes: Any, one: Findings, x: str, y: str) -> list[tuple[Any, str]]:
    entries = []
    for name in SCORES:
        point = one.summary.pooled.systems.get(name)
        if point is not None and getattr(point, y) is not None:
            colour = STYLES[name][0]
            where = [(getattr(point, x), getattr(point, y))]
            style = {"marker": "*", "markersize": 9.5, "markeredgecolor": BLACK, "markeredgewidth": 0.6}
            line = _marks(axes, where, color=colour, zorder=5, gid=f"gate-{name}", clip_on=False, **style)
            entries.append((line, f"{name} gate, hi {one.summary.gate.hi:g}"))
    return entries


def accuracy_cost(
    found: Sequence[Findings],
    *,
    width: float = PAGE,
    published: Published | None = None,
) -> Figure:
    """Return overall accuracy against mean cost: the gates at every budget before all that thresholds can do.

    Pale lines are the exact frontiers, one a budget; the numbers beside the marks are budgets.
    `published` are (cost, OA) to lay over, by model.
    """
    with drawing():
        figure, margins, panels, entries, highest = _by_model(found, width, _cost_panel, published)
        for axes in panels:
            axes.set_xlim(left=-0.085 * max(axes.get_xlim()[1], 1e-9))  # room for a number beside a mark at no cost
            axes.set_ylim(0, min(1.03, 1.1 * highest))
        for one, axes in zip(found, panels, strict=True):
            _number_budgets(axes, one)
        finish(figure, margins, entries, x="mean cost per trace", y="overall accuracy (%)")
    return figure


def _cost_panel(axes: Any, one: Findings) -> list[tuple[Any, str]]:
    entries = []
    for budget in range(1, one.depths):
        x, y = _curve(one.frontiers["raw"], budget, "cost", "accuracy")
        (line,) = axes.plot(x, y, color=PALE, linewidth=1.0, gid=f"frontier-{budget}")
        entries.append((line, "exact frontiers by budget"))
    for name, steps in one.summary.budgets.items():
        if steps:
            colour, marker, dashes = STYLES[name]
            where = [(step.point.mean_cost, step.point.overall_accuracy) for step in steps]
            style = {"marker": marker, "color": colour, "linestyle": dashes, "markersize": 3.8, "clip_on": False}
            line = _marks(axes, where, zorder=3, gid=f"budgets-{name}", **style)
            entries.append((line, f"{name} (.3/.7) by budget"))
    entries += _baselines(axes, one.summary.pooled.systems, "mean_cost", "overall_accuracy")
    entries += _operating(axes, one, "mean_cost", "overall_accuracy")
    return entries


def _number_budgets(axes: Any, one: Findings) -> None:
    """Write each budget beside its mark, where there is room for it."""
    steps = {name: steps or [] for name, steps in one.summary.budgets.items()}
    points = [point for point in one.summary.pooled.systems.values() if point]
    points += [step.point for some in steps.values() for step in some]
    known = [(point.mean_cost or 0.0, point.overall_accuracy or 0.0) for point in points]
    scale = 72 / axes.figure.dpi
    taken = [(x * scale, y * scale) for x, y in (axes.transData.transform(place) for place in known)]
    (left, bottom), (end, top) = (axes.bbox.get_points() * scale).tolist()
    for name, some in steps.items():
        for step in reversed(some):
            place = (step.point.mean_cost or 0.0, step.point.overall_accuracy or 0.0)
            x, y = (value * scale for value in axes.transData.transform(place))
            for right, up in ((0, 9), (9, 0), (-9, 0), (0, -9), (8, 8), (-8, 8), (8, -8), (-8, -8)):
                inside = left + 4 <= x + right <= end + 4 and bottom + 5 <= y + up <= top + 5
                if inside and all(abs(x + right - a) >= 7.5 or abs(y + up - b) >= 8.5 for a, b in taken):
                    style = {"textcoords": "offset points", "ha": "center", "va": "center", "size": SMALL}
                    axes.annotate(f"{step.at:.0f}", place, (right, up), color=STYLES[name][0], **style)
                    taken.append((x + right, y + up))
                    break


def reliability_by_depth(found: Sequence[Findings], *, width: float = PAGE) -> Figure:
    """Return reliability diagrams, a panel for every depth: accuracy against mean score in ten bins.

    Bars through the marks are Wilson's 95 % intervals; the strip below shows how many states each bin holds.
    """
    return _diagrams(
        [(one.model or "", [(f"depth {depth}", _bins(one, depth)) for depth in range(one.depths)]) for one in found],
        width,
    )


def _bins(one: Findings, depth: int) -> dict[str, list[Bin]]:
    return {name: depths[depth] for name, depths in one.reliability.items()}


def reliability_of_fit(found: Sequence[Findings], *, width: float = PAGE) -> Figure:
    """Return the reliability diagrams of the calibration split at depth 0, where the map was fitted."""
    panels = [(one.model or "calibration split", dict(one.fitted)) for one in found if one.fitted]
    return _diagrams([("", panels)], width)


def _diagrams(blocks: Sequence[tuple[str, Sequence[tuple[str, Mapping[str, list[Bin]]]]]], width: float) -> Figure:
    with drawing():
        most = max((len(panels) for _, panels in blocks), default=1)
        width = width if most > 2 or len(blocks) > 1 else min(width, COLUMN)
        columns = max(1, min(most, int(width / 1.6)))
        margins = Margins(right=0.14, across=0.28, down=0.42, heading=0.18)
        figure, sheets = sheet(
            [(heading, len(panels)) for heading, panels in blocks],
            width=width,
            columns=columns,
            height=(width - margins.left - margins.right) / columns * (1.0 if columns > 1 else 0.8),
            margins=margins,
        )
        entries: list[tuple[Any, str]] = []
        for (_, panels), axeses in zip(blocks, sheets, strict=True):
            for place, ((title, scores), axes) in enumerate(zip(panels, axeses, strict=True)):
                n = max((sum(one.n for one in bins) for bins in scores.values()), default=0)
                axes.set_title(f"{lettered(title, _room(axes) - 0.5, NORMAL)} · n {n:,}")
                entries += _diagram(axes, scores)
                axes.tick_params(labelleft=place % columns == 0)
        finish(figure, margins, entries, x="mean score (%)", y="accuracy (%)")
    return figure


STRIP = 0.42  # how far below 0 the counts of states stand


def _diagram(axes: Any, scores: Mapping[str, list[Bin]]) -> list[tuple[Any, str]]:
    (diagonal,) = axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.7, linestyle=(0, (1, 1.5)))
    entries: list[tuple[Any, str]] = []
    largest = max((one.n for bins in scores.values() for one in bins), default=0)
    for place, (name, bins) in enumerate(scores.items()):
        colour, marker, dashes = STYLES[name]
        known = [
            (one.mean_score, one.accuracy, *wilson(one.accuracy, one.n))
            for one in bins
            if one.mean_score is not None and one.accuracy is not None
        ]
        x, y = [mean for mean, _, _, _ in known], [share for _, share, _, _ in known]
        ends = ([low for *_, low, _ in known], [high for *_, high in known])
        axes.vlines(x, *ends, color=colour, linewidth=0.9, clip_on=False)  # a score of 0 or 1 is shown whole
        style = {"marker": marker, "markersize": 3.2, "color": colour, "linestyle": dashes, "linewidth": 0.8}
        style |= {"clip_on": False}
        (line,) = axes.plot(x, y, gid=f"reliability-{name}", zorder=3, **style)
        entries.append((line, f"{name}, Wilson 95 %"))
        shift = 0.05 if len(scores) == 1 else (0.03, 0.07)[place]
        if largest:
            tall = [0.22 * one.n / largest for one in bins]
            left = [one.low + shift for one in bins]
            axes.bar(left, tall, 0.036, bottom=-STRIP, color=colour, alpha=0.75 if place else 1.0, linewidth=0)
    fullest = max(((one.n, one.low + 0.05) for bins in scores.values() for one in bins if one.n), default=(0, 0.5))
    if fullest[0]:
        side = "right" if fullest[1] > 0.5 else "left"
        axes.text(
            min(max(fullest[1], 0.02), 0.98),
            0.235 - STRIP,
            f"{fullest[0]:,} state{'s' if fullest[0] > 1 else ''}",
            size=SMALL,
            ha=side,
            va="bottom",
            color=GREY,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )
    axes.axhline(0, color=GREY, linewidth=0.5)
    axes.set_xlim(0, 1)
    axes.set_ylim(-STRIP, 1.02)
    axes.set_xticks((0, 0.5, 1))
    axes.set_yticks((0, 0.5, 1))
    axes.xaxis.set_major_formatter(_percent)
    axes.yaxis.set_major_formatter(_percent)
    return [*entries, (diagonal, "score = accuracy")]


def transitions_by_depth(found: Sequence[Findings], *, width: float = PAGE) -> Figure:
    """Return how often new evidence mended an answer (up), spoiled one (down), and the difference, by depth."""
    with drawing():
        width, columns = _fit(found, width, 2.1)
        margins = Margins()
        figure, panels = sheet([("", len(found))], width=width, columns=columns, height=1.7, margins=margins)
        entries: list[tuple[Any, str]] = []
        reach = [0.01]
        for place, (one, axes) in enumerate(zip(found, panels[0], strict=True)):
            _title(axes, one, found, _room(axes))
            into = one.summary.pooled.transitions_into
            depths = [depth for depth, step in enumerate(into, 1) if step.n]
            up = [into[depth - 1].helpful / into[depth - 1].n for depth in depths]
            down = [-into[depth - 1].harmful / into[depth - 1].n for depth in depths]
            net = [(into[depth - 1].helpful - into[depth - 1].harmful) / into[depth - 1].n for depth in depths]
            bars = {"width": 0.62, "linewidth": 0.6, "edgecolor": "white"}
            helpful = axes.bar(depths, up, color=GREEN, gid="helpful", **bars)
            harmful = axes.bar(depths, down, color=VERMILLION, hatch="/////", gid="harmful", **bars)
            mark = {"marker": "D", "markersize": 4.2, "markerfacecolor": "white", "color": BLACK}
            (line,) = axes.plot(depths, net, linestyle="none", gid="net", **mark)
            if len(depths) <= 5:
                for depth, high, low, mean in zip(depths, up, down, net, strict=True):
                    style = {"ha": "center", "size": SMALL, "textcoords": "offset points"}
                    above, below = (5 if abs(end - mean) < 0.04 * (high - low) + 1e-3 else 2 for end in (high, low))
                    axes.annotate(f"{100 * high:.1f}", (depth, high), (0, above), va="bottom", **style)
                    axes.annotate(f"{100 * abs(low):.1f}", (depth, low), (0, -below), va="top", **style)
            reach += [*up, *down]
            axes.axhline(0, color=BLACK, linewidth=0.6)
            axes.set_xticks(depths if len(depths) <= 10 else depths[:: len(depths) // 5])
            axes.set_xlim(0.4, max(len(into), 1) + 0.6)
            axes.grid(visible=False, axis="x")
            axes.yaxis.set_major_formatter(lambda value, place: f"{abs(100 * value):.0f}")
            axes.tick_params(labelleft=place % columns == 0)
            entries += [(helpful, "wrong → right"), (harmful, "right → wrong"), (line, "net")]
        span = max(reach) - min(reach)
        for axes in panels[0]:
            axes.set_ylim(min(reach) - 0.15 * span, max(reach) + 0.13 * span)
        finish(figure, margins, entries, x="into depth", y="transitions (%)")
    return figure


def figures(found: Sequence[Findings]) -> dict[str, Drawing]:
    """Return the functions whose figures these findings can fill, by the name of their file."""
    from gatewise.reports.flows import flow_of_actions

    drawn: dict[str, Drawing] = {"risk-coverage": risk_coverage, "accuracy-cost": accuracy_cost}
    drawn["reliability"] = reliability_by_depth
    if any(one.fitted for one in found):
        drawn["reliability-calibration"] = reliability_of_fit
    if any(step.n for one in found for step in one.summary.pooled.transitions_into):
        drawn["transitions"] = transitions_by_depth
    if any(one.moves for one in found):
        drawn["flow"] = flow_of_actions
    return drawn
