"""Figures: what is drawn is what was computed, the files are the same each time, and no name is obeyed."""

import hashlib
import io
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from matplotlib.image import imread

import strategies
from gatewise import Traces, calibrate
from gatewise.files import reconstruction
from gatewise.replays.calibrators import fittable
from gatewise.replays.findings import find
from gatewise.reports.panels import COLUMN, PAGE, written
from gatewise.reports.plots import figures, reliability_by_depth, risk_coverage, transitions_by_depth


def findings_of(traces):
    calibration = traces.split("calibration")
    phi = calibrate(traces) if fittable(calibration) else None
    return find(traces.split("test"), calibrated=phi, calibration=calibration, allow_leak=True)


@pytest.fixture(scope="module")
def gpt():
    return findings_of(reconstruction("gpt-oss-120b"))


def lines(figure, gid):
    return [line for axes in figure.axes for line in axes.get_lines() if line.get_gid() == gid]


def points(line):
    return list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))


def test_the_whole_frontier_is_drawn_and_every_sampled_point_lies_on_it(gpt):
    figure = risk_coverage([gpt])
    for name, surface in gpt.frontiers.items():
        (line,) = lines(figure, f"frontier-{name}")
        assert len(points(line)) == len(surface.thresholds)
        (sampled,) = lines(figure, f"sampled-{name}")
        assert set(points(sampled)) <= set(points(line))
        steps = [step.point for step in gpt.summary.thresholds[name] if step.point.committed]
        assert points(sampled) == [(point.coverage, point.selective_risk) for point in steps]
        (gate,) = lines(figure, f"gate-{name}")
        assert set(points(gate)) <= set(points(line))


def test_every_depth_has_its_diagram_and_every_transition_its_bar(gpt):
    figure = reliability_by_depth([gpt])
    assert len(figure.axes) == 4
    for depth, axes in enumerate(figure.axes):
        for line in axes.get_lines():
            if line.get_gid():
                bins = gpt.reliability[line.get_gid().removeprefix("reliability-")][depth]
                assert points(line) == [(one.mean_score, one.accuracy) for one in bins if one.n]
    (axes,) = transitions_by_depth([gpt]).axes
    heights = [bar.get_height() for bar in axes.patches]
    into = gpt.summary.pooled.transitions_into
    assert heights == [one.helpful / one.n for one in into] + [-one.harmful / one.n for one in into]


def texts_of(figure):
    from matplotlib.text import Text

    undrawn = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = axis.get_view_interval()
            undrawn |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
            undrawn |= set() if axes.axison else {tick.label1 for tick in axis.get_major_ticks()}
    texts = (text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip())
    return [text for text in texts if text not in undrawn]


@pytest.mark.parametrize("width", [PAGE, COLUMN])
@pytest.mark.parametrize("models", [1, 3])
def test_nothing_written_is_small_or_clipped_or_on_top_of_another(gpt, width, models):
    for draw in figures([gpt]).values():
        figure = draw([gpt] * models, width=width)
        assert figure.get_size_inches()[0] in (PAGE, COLUMN)
        renderer = figure.canvas.get_renderer()
        figure.draw(renderer)
        page = figure.bbox
        boxes = []
        for text in texts_of(figure):
            assert text.get_fontsize() >= 7
            box = text.get_window_extent(renderer)
            outside = (page.x0 - box.x0, box.x1 - page.x1, page.y0 - box.y0, box.y1 - page.y1)
            assert max(outside) < 1, text
            boxes.append((text, box.padded(-0.5)))
        for place, (text, box) in enumerate(boxes):
            for other, another in boxes[:place]:
                assert not box.overlaps(another), (draw.__name__, text, other)


DIGESTS = """
import hashlib, sys
sys.path.insert(0, "tests")
from test_plots import findings_of, figures, reconstruction, written
found = [findings_of(reconstruction("gpt-oss-120b"))]
for name, draw in figures(found).items():
    if name in ("transitions", "flow"):
        figure = draw(found)
        for kind in ("pdf", "svg", "png"):
            print(name, kind, hashlib.sha256(written(figure, kind)).hexdigest())
"""


def test_two_processes_write_the_same_bytes(gpt, request, tmp_path):
    (tmp_path / "matplotlibrc").write_text("font.size: 20\nlines.linewidth: 9\n")
    import os

    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path), "MATPLOTLIBRC": str(tmp_path), "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS],
        cwd=request.config.rootpath,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert len(theirs) == 6
    for name in ("transitions", "flow"):
        figure = figures([gpt])[name]([gpt])
        for kind in ("png", "svg", "pdf"):  # another order than theirs
            assert theirs[f"{name} {kind}"] == hashlib.sha256(written(figure, kind)).hexdigest()


def test_files_carry_their_letters_and_neither_date_nor_program(gpt):
    figure = risk_coverage([gpt])
    pdf = written(figure, "pdf")
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert not re.search(rb"CreationDate|Producer|Creator", pdf)
    svg = written(figure, "svg").decode()
    assert "<text" not in svg
    assert "<dc:date>" not in svg
    png = written(figure, "png")
    assert b"Software" not in png
    assert imread(io.BytesIO(png)).shape[1] == round(300 * COLUMN)


HOSTILE = [
    "$\\frac{1}$",
    "a_b^c",
    "x\ny",
    "\u202eevil",
    "مرحبا שלום",
    "漢字",
    "<svg onload=1>",
    "%s %d {} \\",
    " ",
    "_" * 99,
    "$$",
]


def test_hostile_names_are_drawn_as_they_are(recwarn):
    rows = {"trace_id": [], "model": [], "depth": [], "confidence": [], "correct": [], "split": []}
    for name in HOSTILE:
        for split in ("calibration", "test"):
            for trace in ("a", "b"):
                for depth in (0, 1):
                    values = (f"{split}{trace}", name, depth, 0.4 + depth / 2, trace == "a", split)
                    for column, value in zip(rows, values, strict=True):
                        rows[column].append(value)
    traces = Traces.from_columns(rows)
    found = [findings_of(traces.choose([name])) for name in HOSTILE]
    for name, draw in figures(found).items():
        if name == "reliability-calibration":  # every name, and little else
            figure = draw(found)
            assert b"onload=1>" not in written(figure, "svg")
            assert written(figure, "pdf")
        elif name != "reliability":
            draw(found)
    assert not recwarn.list


@given(strategies.tables(depths=6))
@settings(max_examples=3)
def test_whatever_was_recorded_can_be_drawn(table):
    table[0]["split"] = "test"
    found = [findings_of(strategies.traces(table))]
    for draw in figures(found).values():
        draw(found, width=COLUMN)


@pytest.mark.parametrize(
    ("confidence", "correct"), [([None], [None]), ([0.5], [None]), ([None], [True]), ([0.0], [False])]
)
def test_one_trace_without_anything_readable_can_be_drawn(confidence, correct):
    columns = {"trace_id": ["a"], "depth": [0], "confidence": confidence, "correct": correct, "dataset": ["x"]}
    found = [find(Traces.from_columns(columns))]
    assert set(figures(found)) == {"risk-coverage", "accuracy-cost", "reliability"}
    for draw in figures(found).values():
        assert written(draw(found), "svg")


def test_thirty_models_stand_in_rows_of_three(gpt):
    figure = risk_coverage([gpt] * 30)
    assert len({round(axes.get_position().x0, 6) for axes in figure.axes}) == 3
    assert len({round(axes.get_position().y0, 6) for axes in figure.axes}) == 10
    assert written(figure, "png", dpi=50)


def odd(confidence, correct, depths=4, traces=2):
    rows = [(place, depth) for place in range(traces) for depth in range(depths)]
    return Traces.from_columns(
        {
            "trace_id": [f"q{place}" for place, _ in rows],
            "depth": [depth for _, depth in rows],
            "confidence": [confidence(place, depth) for place, depth in rows],
            "correct": [correct(place, depth) for place, depth in rows],
            "split": ["calibration" if place % 2 else "test" for place, _ in rows],
        }
    )


ODD = {
    "one trace, never right": odd(lambda place, depth: 0.2, lambda place, depth: False),
    "certain and right or wrong": odd(lambda place, depth: place // 2 % 2, lambda place, depth: place < 9, traces=16),
    "no confidence, no verdict": odd(lambda place, depth: None, lambda place, depth: None, traces=8),
    "one depth": odd(lambda place, depth: place / 30, lambda place, depth: place % 3 > 0, depths=1, traces=30),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_traces_are_drawn_whole_and_no_number_stands_on_an_axis(name):
    one = findings_of(ODD[name])
    for draw in figures([one]).values():
        figure = draw([one])
        renderer = figure.canvas.get_renderer()
        figure.draw(renderer)
        texts = texts_of(figure)
        assert not [text for text in texts if text.get_text() in ("-0.0", "1 states")]
        boxes = [(text.get_text(), text.get_window_extent(renderer).padded(-0.5)) for text in texts]
        for place, (text, box) in enumerate(boxes):
            assert min(box.x0, figure.bbox.x1 - box.x1) > -1, text
            for other, another in boxes[:place]:
                assert not box.overlaps(another), (draw.__name__, text, other)
        for axes in figure.axes:
            for line in axes.get_lines():
                if (line.get_gid() or "").startswith("reliability-"):
                    assert not line.get_clip_on()


def test_a_panel_without_a_verdict_says_so():
    (axes,) = risk_coverage([findings_of(ODD["no confidence, no verdict"])]).axes
    assert [text.get_text() for text in axes.texts] == ["no answers with a verdict"]
