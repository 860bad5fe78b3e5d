"""Draws docs/picture.svg, the picture of docs/index.md, from a bundled reconstruction.

    python docs/picture.py

Left: one question's recorded states and where two gates stop. Right: the exact frontier of the raw score, every
threshold at budget 3, with the baselines and the operating points of both gates on it.
"""

from pathlib import Path

import numpy as np

from gatewise import Episodes, Point, Threshold, Traces, calibrate, frontier, replay, summarize
from gatewise.files import reconstruction

INK, SOFT, RAW, CALIBRATED, GOOD, BAD = "#1f2430", "#6b7280", "#0072b2", "#d55e00", "#009e73", "#b3261e"
STYLE = "font-family='DejaVu Sans, Verdana, sans-serif'"
LEFT, TOP, WIDE, HIGH = 560, 64, 350, 236  # the plot's frame


def label(x: float, y: float, words: str, *, size: int = 13, fill: str = INK, anchor: str = "start") -> str:
    """Return one line of text."""
    return f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{fill}' text-anchor='{anchor}'>{words}</text>"


def question_that_moves(traces: Traces, raw: Episodes, mapped: Episodes) -> int:
    """Return a trace that the raw gate answers wrongly at once and the calibrated gate rightly at the end."""
    moved = (raw.depth == 0) & (raw.correct == 0) & (mapped.depth == 3) & (mapped.correct == 1)
    rising = (np.diff(traces.confidence, axis=1) >= 0).all(axis=1)
    return int(np.flatnonzero(moved & rising)[0])


def walk(traces: Traces, row: int, scores: list[float], stops: tuple[int, int]) -> list[str]:
    """Return the drawing of one question's states and of where both gates stop."""
    drawn = [label(24, 36, "One question, asked once at every depth of evidence", size=15)]
    for depth in range(4):
        x, right = 24 + 122 * depth, traces.correct[row, depth] == 1
        colour = GOOD if right else BAD
        drawn += [
            f"<rect x='{x}' y='64' width='104' height='104' rx='8' fill='white' stroke='{colour}' stroke-width='2'/>",
            label(x + 52, 86, f"depth {depth}", fill=SOFT, anchor="middle"),
            label(x + 52, 110, f"raw {traces.confidence[row, depth]:.2f}", fill=RAW, anchor="middle"),
            label(x + 52, 131, f"calibrated {scores[depth]:.2f}", size=12, fill=CALIBRATED, anchor="middle"),
            label(x + 52, 156, "✓ right" if right else "✗ wrong", fill=colour, anchor="middle"),
        ]
        if depth < 3:
            drawn.append(f"<path d='M{x + 106} 116 h14' stroke='{SOFT}' stroke-width='1.5'/>")
    for line, (name, stop, colour) in enumerate(
        (("raw gate ≥ .7", stops[0], RAW), ("calibrated gate ≥ .7", stops[1], CALIBRATED))
    ):
        y, end = 204 + 40 * line, 24 + 122 * stop + 52
        words = "commits at once" if stop == 0 else f"retrieves {stop} times, then commits"
        drawn += [
            f"<path d='M76 {y} H{end}' stroke='{colour}' stroke-width='3'/>",
            f"<circle cx='{end}' cy='{y}' r='7' fill='{colour}'/>",
            label(76, y + 22, f"{name}: {words}", size=12, fill=colour),
        ]
    drawn.append(label(24, 316, "Both gates replay the same states: the difference is the gate alone.", fill=SOFT))
    return drawn


def place(point: Point) -> tuple[float, float]:
    """Return where an operating point stands in the plot."""
    coverage, risk = point.coverage or 0.0, point.selective_risk or 0.0
    return LEFT + WIDE * coverage, TOP + HIGH * (1 - risk / 0.7)


def plot(traces: Traces, points: dict[str, Point]) -> list[str]:
    """Return the drawing of risk against coverage."""
    surface = frontier(traces)
    whole = [surface.point(3, row) for row in range(len(surface.thresholds))]
    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, (point for point in whole if point.committed)))
    drawn = [label(LEFT, 36, "Every threshold at once (budget 3)", size=15)]
    for tick in range(8):
        y = TOP + HIGH * (1 - tick / 7)
        drawn.append(f"<path d='M{LEFT} {y:.1f} h{WIDE}' stroke='#e5e7eb'/>")
        drawn.append(label(LEFT - 8, y + 4, f".{tick}" if tick else "0", size=11, fill=SOFT, anchor="end"))
    for tick in range(0, 11, 2):
        x = LEFT + WIDE * tick / 10
        drawn.append(label(x, TOP + HIGH + 18, f"{10 * tick}%", size=11, fill=SOFT, anchor="middle"))
    drawn += [
        label(LEFT + WIDE / 2, TOP + HIGH + 38, "coverage", size=12, fill=SOFT, anchor="middle"),
        label(LEFT + 6, TOP + 14, "selective risk", size=12, fill=SOFT),
        f"<polyline points='{curve}' fill='none' stroke='{RAW}' stroke-width='2'/>",
    ]
    for name, words, colour, dx, dy, anchor in (
        ("parametric", "no evidence", SOFT, 11, 4, "start"),
        ("rag@1", "one slice", SOFT, 11, 4, "start"),
        ("adaptive", "adaptive proxy", SOFT, 11, 4, "start"),
        ("rag@3", "all evidence", SOFT, 11, 4, "start"),
        ("raw", "raw gate at .7", RAW, -12, -6, "end"),
        ("calibrated", "calibrated gate at .7", CALIBRATED, -12, -8, "end"),
    ):
        x, y = place(points[name])
        mark = f"<circle cx='{x:.1f}' cy='{y:.1f}' r='5' fill='{colour}'/>"
        if colour == SOFT:
            mark = f"<rect x='{x - 4:.1f}' y='{y - 4:.1f}' width='8' height='8' fill='{colour}'/>"
        drawn += [mark, label(x + dx, y + dy, words, size=12, fill=colour, anchor=anchor)]
    return drawn


def main() -> None:
    """Write the picture."""
    traces = reconstruction("gpt-oss-120b")
    fitted = calibrate(traces)
    test = traces.split("test")
    raw, mapped = replay(test, Threshold()), replay(test, Threshold(), score=fitted)
    row = question_that_moves(test, raw, mapped)
    scores = fitted(test.confidence[row], 0).tolist()
    systems = summarize(test, calibrated=fitted).pooled.systems
    points = {name: point for name, point in systems.items() if point}
    body = [*walk(test, row, scores, (int(raw.depth[row]), int(mapped.depth[row]))), *plot(test, points)]
    note = "gpt-oss-120b, 2,457 test questions: a reconstruction of the published numbers, not model output"
    svg = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1040 372' {STYLE} role='img'>",
        "<title>Matched trajectory replay: states recorded once, gates replayed on them</title>",
        "<rect width='1040' height='372' rx='10' fill='#fbfbfd'/>",
        *body,
        label(24, 356, note, size=11, fill=SOFT),
        "</svg>",
    ]
    (Path(__file__).parent / "picture.svg").write_text("\n".join(svg) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
