"""Reporting: traces → a folder with tables, figures, numbers and a page, written file by file, the same each time."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gatewise.errors import BadChoice
from gatewise.files import FRONTIER_COLUMNS, frontier_rows
from gatewise.files.disk import make_folder, replace_file, require_apart
from gatewise.replays.calibrators import Map
from gatewise.replays.findings import Findings, find
from gatewise.replays.policies import Policy, Threshold
from gatewise.replays.summaries import BUDGET, GATE, THRESHOLDS, Progress
from gatewise.replays.traces import Traces
from gatewise.reports import writing
from gatewise.reports.overviews import report_tables
from gatewise.reports.page import by_model, page_text
from gatewise.reports.snippets import Origin
from gatewise.reports.tables import Table
from gatewise.studies.choosing import map_for, map_of_model, part_of
from gatewise.types import Plan

SCHEMA = "gatewise.report/1"
KINDS = ("pdf", "svg", "png")
MOST = 200_000  # traces of one page: some 17 MB
LISTED = 200_000  # points of the frontiers in one CSV: some 25 MB

Piece = tuple[str, Callable[[], str | bytes]]  # a file's name, and what makes its content when it is asked for

TABLES = {
    "main": "every system by model and data set: OA, CA, coverage, cost",
    "actions": "the counts behind it: commits, right, wrong, abstained, escalated",
    "calibration": "calibration error and ranking by depth",
    "transitions": "answers that new evidence mended or spoiled",
    "top-bin": "the most confident states of the deepest depth",
    "thresholds": "the threshold sweep",
    "budgets": "the budget sweep",
    "comparison": "calibrated minus raw, pair by pair",
    "by": "every system by subgroup",
    "by-actions": "the counts behind it",
    "by-calibration": "calibration error and ranking by subgroup",
    "by-transitions": "answers mended or spoiled, by subgroup",
}
FIGURES = {
    "risk-coverage": "selective risk against coverage: the exact frontier, sampled thresholds, baselines, the gate",
    "accuracy-cost": "overall accuracy against mean cost: the gates at every budget, and all that thresholds can do",
    "reliability": "accuracy against score by depth, with Wilson 95 % intervals and the states in each bin",
    "reliability-calibration": "the same for the calibration split at depth 0, where the map was fitted",
    "transitions": "how often new evidence mended an answer, and how often it spoiled one, by depth",
    "flow": "where the episodes of the raw gate ended under the calibrated one, and whether right",
}


@dataclass(frozen=True)
class Choices:
    """What a report is asked to show."""

    gate: Threshold = GATE
    budget: int = BUDGET
    split: str = "test"
    by: str | None = None
    policies: Mapping[str, Policy] | None = None
    thresholds: tuple[float, ...] = THRESHOLDS
    allow_leak: bool = False


@dataclass(frozen=True, eq=False)
class Subject:
    """One model's traces of every split and its map; where it has none, why."""

    model: str | None
    traces: Traces
    map: Map | None
    lacking: str = ""


def subjects(traces: Traces, maps: Sequence[Map] = ()) -> list[Subject]:
    """Return every model of a trace set with its map: the one fitted on it, or one fitted here, or none."""
    models = by_model(traces)
    chosen = [(model, part, map_of_model(maps, model, several=len(models) > 1)) for model, part in models]
    return [Subject(model, part, *map_for(part, given)) for model, part, given in chosen]


def find_all(
    subjects: Sequence[Subject],
    choices: Choices = Choices(),
    *,
    progress: Progress = lambda what, done, total: None,
) -> tuple[list[Findings], list[str]]:
    """Return the findings of every model, and what deserves a look; models without traces of the split stay out."""
    found: list[Findings] = []
    warnings: list[str] = []
    for one in subjects:
        about = f"{one.model or 'traces without a model'}: " if len(subjects) > 1 else ""
        part = one.traces.split(choices.split)
        if not len(part):
            warnings.append(f"{about}no traces of split {choices.split}, so they are left out.")
            continue
        findings = find(
            part,
            calibrated=one.map,
            calibration=one.traces.split("calibration"),
            gate=choices.gate,
            budget=choices.budget,
            policies=choices.policies,
            by=choices.by,
            thresholds=choices.thresholds,
            allow_leak=choices.allow_leak,
            progress=progress,
        )
        more = [one.lacking] if one.lacking else []
        warnings += [f"{about}{text}" for text in (*more, *findings.summary.warnings[len(part.warnings) :])]
        found.append(findings)
    return found, warnings


def main_of(found: Sequence[Findings]) -> Table:
    """Return the main table of a report."""
    return report_tables([one.summary for one in found])["main"]


def page_of(
    traces: Traces, found: Sequence[Findings], choices: Choices, *, origin: Origin, plans: Iterable[Plan] = ()
) -> tuple[Callable[[], str] | None, str]:
    """Return what makes the page, with the maps that tables and figures were made with; or none, and why."""
    part = part_of(traces, choices.split)
    if len(part) > MOST:
        return None, (
            f"{len(part):,} traces are more than the {MOST:,} that one page holds: index.html is left out. "
            "Look at them with gatewise explore."
        )
    maps = {one.model: one.summary.map for one in found if one.summary.map}
    gate, budget = choices.gate, choices.budget
    return partial(page_text, part, maps=maps, gate=gate, budget=budget, origin=origin, plans=plans), ""


def require_drawing() -> None:
    """Raise where figures cannot be drawn, before anything is read or written."""
    if find_spec("matplotlib") is None:
        raise BadChoice(
            "expected matplotlib to draw figures, found none. Install gatewise[plots], or pass --no-figures."
        )


def write_report(
    folder: Path,
    found: Sequence[Findings],
    *,
    choices: Choices = Choices(),
    warnings: Sequence[str] = (),
    figures: bool = True,
    page: Callable[[], str] | None = None,
    inputs: Sequence[Path] = (),
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Any]:
    """Write everything and return the numbers, which are those of `numbers.json`.

    Each file is written whole or not at all; the same findings give the same bytes; files of other names are
    left alone. `inputs` are files that must not be written over.
    """
    tables = report_tables([one.summary for one in found])
    pieces: list[Piece] = [*_tables(tables)]
    if sum(one.points for one in found) <= LISTED:
        pieces.append(("tables/frontier.csv", partial(_frontier, found)))
    if figures:
        pieces += _figures(found)
    if page:
        progress("writing index.html", 0, len(pieces))
        pieces.append(("index.html", partial(str, page())))  # first, for it may find plans broken
    names = [name for name, _ in pieces]
    numbers = _numbers(found, tables, choices, warnings, sorted([*names, "README.md", "numbers.json"]))
    pieces.append(("numbers.json", lambda: json.dumps(numbers, allow_nan=False, indent=1) + "\n"))
    pieces.append(("README.md", lambda: _readme(found, tables, choices, warnings, names)))
    for name, _ in pieces:
        require_apart(folder / name, inputs)
    for part in ("", "tables", *(["figures"] if figures else [])):
        make_folder(folder / part)
    _write(folder, pieces, progress)
    return numbers


def _tables(tables: Mapping[str, Table]) -> Iterator[Piece]:
    for name, table in tables.items():
        yield f"tables/{name}.md", partial(writing.markdown, table)
        yield f"tables/{name}.tex", partial(writing.latex, table, label=name)
        yield f"tables/{name}.csv", partial(writing.comma_separated, table)


def _frontier(found: Sequence[Findings]) -> str:
    """Return every threshold and budget of every model, as the figures draw them."""
    rows = (
        (one.model, *row)
        for one in found
        for name, surface in one.frontiers.items()
        for row in frontier_rows(name, surface)
    )
    return writing.csv_of(("model", *FRONTIER_COLUMNS), rows)


def write_figures(
    folder: Path,
    found: Sequence[Findings],
    *,
    overlays: Mapping[str, Any] = MappingProxyType({}),
    progress: Progress = lambda what, done, total: None,
) -> list[Path]:
    """Write every figure and return where; `overlays` are coordinates to lay over a figure, by model."""
    pieces = list(_figures(found, overlays))
    make_folder(folder / "figures")
    _write(folder, pieces, progress)
    return [folder / name for name, _ in pieces]


def _write(folder: Path, pieces: Sequence[Piece], progress: Progress) -> None:
    for done, (name, content) in enumerate(pieces):
        progress(f"writing {name}", done, len(pieces))
        made = content()
        replace_file(folder / name, made.encode("utf-8", "backslashreplace") if isinstance(made, str) else made)


def _figures(found: Sequence[Findings], overlays: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Piece]:
    """Yield each figure for a page and for a column, drawn once when its first file is asked for."""
    from gatewise.reports.panels import COLUMN, PAGE, written
    from gatewise.reports.plots import figures

    drawn: dict[tuple[str, float], Any] = {}
    kept: dict[str, bytes] = {}  # of a figure that is no wider than a column, and so the same for both

    def content(name: str, width: float, kind: str) -> bytes:
        if kind in kept and width == COLUMN:
            return kept.pop(kind)
        if (name, width) not in drawn:
            drawn.clear()  # one at a time: figures hold on to memory
            more = {"published": overlays[name]} if name in overlays else {}
            drawn[name, width] = figures(found)[name](found, width=width, **more)
        figure = drawn[name, width]
        made = written(figure, kind)
        if width == PAGE and figure.get_size_inches()[0] <= COLUMN:
            kept[kind] = made
        return made

    for name in figures(found):
        for width, suffix in ((PAGE, ""), (COLUMN, "-column")):
            for kind in KINDS:
                yield f"figures/{name}{suffix}.{kind}", partial(content, name, width, kind)


def _numbers(
    found: Sequence[Findings],
    tables: Mapping[str, Table],
    choices: Choices,
    warnings: Sequence[str],
    files: Sequence[str],
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "settings": {
            "lo": choices.gate.lo,
            "hi": choices.gate.hi,
            "budget": choices.budget,
            "split": choices.split,
            "by": choices.by,
        },
        "models": [{"model": one.model, "summary": one.summary.as_json(), "figures": one.as_json()} for one in found],
        "tables": {name: writing.as_json(table) for name, table in tables.items()},
        "warnings": list(warnings),
        "files": list(files),
    }


def _readme(
    found: Sequence[Findings],
    tables: Mapping[str, Table],
    choices: Choices,
    warnings: Sequence[str],
    names: Iterable[str],
) -> str:
    """Return what lies in the folder, for a reader who opens it cold."""
    gate, listed = choices.gate, list(names)
    lines = [
        "# Report",
        "",
        f"Matched trajectory replay of split {writing.as_markdown(choices.split)}: gate lo {gate.lo:g}, "
        f"hi {gate.hi:g}, budget {choices.budget}. Every system walked the same recorded states.",
        "",
    ]
    if "index.html" in listed:
        lines += ["Open [index.html](index.html) in a browser: it holds everything and needs no network.", ""]
    lines += [f"- Look at this: {writing.as_markdown(text)}" for text in warnings]
    lines += [""] * bool(warnings)
    lines += [writing.markdown(tables["main"]), "", "The highest OA and CA of each model and data set are bold.", ""]
    lines += ["## Tables", "", "Each as Markdown, LaTeX (booktabs) and CSV; the CSV has every digit.", ""]
    lines += [f"- [{name}](tables/{name}.md): {TABLES[name]}" for name in tables]
    if "tables/frontier.csv" in listed:
        lines += ["- [frontier.csv](tables/frontier.csv): the exact frontier, every threshold at every budget"]
    drawn = [name for name in FIGURES if f"figures/{name}.png" in listed]
    if drawn:
        lines += ["", "## Figures", "", "Each as PDF, SVG and PNG, for a page (7 in) and for a column (3.3 in).", ""]
        lines += [f"- [{name}](figures/{name}.png): {FIGURES[name]}" for name in drawn]
    lines += [
        "",
        "[numbers.json](numbers.json) holds every number of the tables and figures; the frontier is in its CSV.",
        "",
    ]
    return "\n".join(lines)
