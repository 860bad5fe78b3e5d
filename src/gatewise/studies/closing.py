"""Closing: the last step of a study, which writes its report."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gatewise import files
from gatewise.replays.policies import Threshold
from gatewise.reports.snippets import Origin
from gatewise.studies.reporting import Choices, Subject, find_all, page_of, write_report
from gatewise.studies.running import Outcome, Step, Work
from gatewise.types import Plan


def closing_steps() -> dict[str, Step]:
    """Return the step that writes the report."""
    return {"report": Step(_reads, _report)}


def _reads(work: Work) -> dict[str, Any]:
    design = work.design
    folder = Path(os.path.relpath(design.report_folder, design.out)).as_posix()  # another folder is another report
    return {"gates": vars(design.gates), "plans": design.report.plans, "figures": _can_draw(), "folder": folder}


def _can_draw() -> bool:
    return find_spec("matplotlib") is not None


def _report(work: Work) -> Outcome:
    design, gates = work.design, work.design.gates
    choices = Choices(
        gate=Threshold(lo=gates.lo, hi=gates.hi),
        budget=gates.budget,
        by=gates.by or None,
        thresholds=gates.thresholds,
        allow_leak=gates.allow_leak,
    )
    subjects = []
    for model in design.models:
        traces = files.read_traces(design.traces_path(model), signal=gates.signal, cost=gates.cost)
        fitted = files.read_map(path) if (path := design.map_path(model)).is_file() else None
        subjects.append(Subject(traces.require_one_model() or model.name, traces, fitted))
    found, warnings = find_all(subjects, choices, progress=work.progress)
    if not found:
        work.warn(warnings)
        return Outcome((), ("no traces of split test, so no report",))
    paths = [design.traces_path(model) for model in design.models]
    whole = files.read_traces(*paths, signal=gates.signal, cost=gates.cost)
    origin = Origin(
        [str(path) for path in paths],
        signal=gates.signal,
        cost=gates.cost,
        maps={
            one.model: str(design.map_path(model))
            for one, model in zip(subjects, design.models, strict=True)
            if one.map
        },
        allow_leak=gates.allow_leak,
    )
    page, lacking = page_of(whole, found, choices, origin=origin, plans=_plans(work))
    warnings += [lacking] if lacking else []
    work.warn(warnings)
    numbers = write_report(
        design.report_folder,
        found,
        choices=choices,
        warnings=warnings,
        figures=_can_draw(),
        page=page,
        progress=work.progress,
    )
    told = [f"open {design.report_folder / ('index.html' if page else 'README.md')}"]
    told += [] if _can_draw() else ["without figures: install gatewise[plots] for them"]
    return Outcome(tuple(design.report_folder / name for name in numbers["files"]), tuple(told))


def _plans(work: Work) -> Iterator[Plan]:
    if work.design.report.plans:
        for data in work.design.data:
            yield from files.read_plans(work.design.plans_path(data))[1]
