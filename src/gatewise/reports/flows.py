"""Flows: where the episodes of the raw gate went under the calibrated one, drawn as ribbons."""

from collections.abc import Sequence
from typing import Any

from gatewise.replays.comparisons import Move, Outcome
from gatewise.replays.findings import Findings
from gatewise.reports.panels import (
    BLACK,
    BLUE,
    COLUMN,
    GREEN,
    GREY,
    NORMAL,
    ORANGE,
    PAGE,
    SKY,
    SMALL,
    VERMILLION,
    Figure,
    Margins,
    drawing,
    finish,
    lettered,
    sheet,
)
from gatewise.types import Action

# What became of an episode, in the order in which ribbons lie; each with its colour, hatching and opacity.
FATES = {
    "right under both": (GREEN, None, 0.30),
    "right only when calibrated": (BLUE, None, 0.80),
    "right only when raw": (VERMILLION, "/////", 0.80),
    "wrong answer withheld": (ORANGE, "....", 0.75),
    "wrong answer added": (BLACK, "xxxxx", 0.65),
    "wrong or none under both": (GREY, None, 0.25),
    "no verdict": (SKY, "-----", 0.55),
}
HEIGHT, GAP = 2.3, 0.05  # inches of a panel; share of its height between nodes
SIDE, LINE = 0.84, 0.128  # inches beside the ribbons for labels, and between two of those

FOOT = "where each gate commits, or how else it ends"

Node = tuple[Action, int]
Ribbon = tuple[Node, Node, str]  # from, to, fate


def fate(one: Move) -> str:
    """Return what became of the episodes of a move."""
    before, after = _answer(one.first), _answer(one.second)
    if "unknown" in (before, after):
        return "no verdict"
    if before == after == "right":
        return "right under both"
    if "right" in (before, after):
        return "right only when raw" if before == "right" else "right only when calibrated"
    if before == after:
        return "wrong or none under both"
    return "wrong answer withheld" if before == "wrong" else "wrong answer added"


def _answer(end: Outcome) -> str:
    if end.action is not Action.COMMIT:
        return "none"
    return {True: "right", False: "wrong", None: "unknown"}[end.correct]


def _node(end: Outcome) -> Node:
    """Return where an outcome stands: commits by their depth, what abstains or escalates together."""
    return (Action.COMMIT, end.depth) if end.action is Action.COMMIT else (end.action, 0)


def _ends(ribbon: Ribbon, side: int) -> tuple[Node, Node]:
    """Return a ribbon's end on a side, and the other."""
    return (ribbon[0], ribbon[1]) if side == 0 else (ribbon[1], ribbon[0])


def _order(node: Node) -> tuple[int, int]:
    return (Action.COMMIT, Action.ESCALATE, Action.ABSTAIN, Action.RETRIEVE).index(node[0]), node[1]


def flow_of_actions(found: Sequence[Findings], *, width: float = PAGE) -> Figure:
    """Return where each episode ended under the raw gate (left) and the calibrated one (right), and whether right.

    The height of a ribbon is its share of the traces; commits stand under the depth of their evidence.
    """
    with drawing():
        moved = [one for one in found if one.moves]
        width = width if len(moved) > 1 else min(width, COLUMN)
        columns = max(1, min(len(moved), int(width / 2.2)))
        fates = [name for name in FATES if any(fate(move) == name for one in moved for move in one.moves)]
        margins = Margins(left=0.04, right=0.04, top=0.4, bottom=0.4, across=0.1, down=0.42)
        blocks = [("", len(moved))]
        figure, panels = sheet(blocks, width=width, columns=columns, height=HEIGHT, margins=margins)
        handles: dict[str, Any] = {}
        for one, axes in zip(moved, panels[0], strict=True):
            room = float(axes.get_position().width * width)
            name = one.model or ("traces without a model" if len(found) > 1 else "")
            axes.set_title(lettered(name, room, NORMAL), weight="bold", pad=14)
            handles |= _ribbons(axes, one.moves, room)
        finish(figure, margins, [(handles[name], name) for name in fates if name in handles], x=FOOT)
    return figure


def _ribbons(axes: Any, moves: Sequence[Move], room: float) -> dict[str, Any]:
    axes.set_axis_off()
    axes.set_xlim(0, room)
    axes.set_ylim(0, 1)
    left, right = SIDE, room - SIDE
    total = sum(move.count for move in moves)
    nodes = sorted({_node(end) for move in moves for end in (move.first, move.second)}, key=_order)
    names = list(FATES)
    grouped: dict[Ribbon, int] = {}
    for move in moves:
        key = (_node(move.first), _node(move.second), fate(move))
        grouped[key] = grouped.get(key, 0) + move.count
    tops: list[dict[Ribbon, float]] = []
    scale = (1 - GAP * (len(nodes) - 1)) / total
    for side in (0, 1):
        y, before = 1.0, None
        top: dict[Ribbon, float] = {}
        held: dict[Node, list[float]] = {}
        for key in sorted(grouped, key=lambda key: (*map(_order, _ends(key, side)), names.index(key[2]))):
            node = _ends(key, side)[0]
            if before is not None and node != before:
                y -= GAP
            before = node
            top[key] = y
            held.setdefault(node, [y, y])
            y -= grouped[key] * scale
            held[node][1] = y
        tops.append(top)
        _labels(axes, held, x=left if side == 0 else right, side=side, scale=scale, total=total)
    handles: dict[str, Any] = {}
    steps = [step / 18 for step in range(19)]
    smooth = [step * step * (3 - 2 * step) for step in steps]
    x = [left + (right - left) * step for step in steps]
    for key in sorted(grouped, key=lambda key: -grouped[key]):
        colour, hatch, alpha = FATES[key[2]]
        start, end, high = tops[0][key], tops[1][key], grouped[key] * scale
        upper = [start + (end - start) * step for step in smooth]
        handles[key[2]] = axes.fill_between(
            x,
            upper,
            [y - high for y in upper],
            facecolor=colour,
            alpha=alpha,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
        )
    for x_of, label in ((left, "raw"), (right, "calibrated")):
        place = "right" if x_of == left else "left"
        axes.text(x_of, 1.02, f"{label} gate", size=SMALL, ha=place, va="bottom", color=GREY)
    return handles


def _labels(axes: Any, held: dict[Node, list[float]], *, x: float, side: int, scale: float, total: int) -> None:
    """Draw the nodes of a side with their names, moved apart where they would stand on each other."""
    least = LINE / HEIGHT
    wanted = [(top + bottom) / 2 for top, bottom in held.values()]
    places = list(wanted)
    for at in range(1, len(places)):
        places[at] = min(places[at], places[at - 1] - least)
    low = least / 2
    for at in reversed(range(len(places))):
        floor = low if at == len(places) - 1 else places[at + 1] + least
        places[at] = max(places[at], floor)
    out = -1 if side == 0 else 1
    for (node, (top, bottom)), y in zip(held.items(), places, strict=True):
        axes.plot([x, x], [top, bottom], color=BLACK, linewidth=2.2, solid_capstyle="butt")
        name = f"depth {node[1]}" if node[0] is Action.COMMIT else node[0].name.lower()
        share = (top - bottom) / scale / total
        words = f"{name} · {100 * share:.0f} %" if share >= 0.01 else f"{name} · <1 %"
        axes.text(x + out * 0.04, y, words, size=SMALL, ha="right" if side == 0 else "left", va="center")
