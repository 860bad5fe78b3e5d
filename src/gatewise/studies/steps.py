"""Steps: plan, calibrate and replay of a study, as values that `running.run` puts in order.

The steps that ask models, and the report, are built elsewhere and handed to `running.run` beside these.
"""

import asyncio
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gatewise import files
from gatewise.files.disk import make_folder, replace_file
from gatewise.replays.calibrators import calibrate, fittable
from gatewise.replays.metrics import Point
from gatewise.replays.policies import Threshold
from gatewise.replays.summaries import summarize
from gatewise.replays.traces import Traces
from gatewise.studies import planning
from gatewise.studies.designs import Data, Design
from gatewise.studies.planning import Ranking, Recipe, Source, Survey
from gatewise.studies.running import Outcome, Step, Work
from gatewise.types import Plan


def local_steps() -> dict[str, Step]:
    """Return the steps that ask nobody: plan, calibrate, replay."""
    return {
        "plan": Step(_plan_reads, _plan),
        "calibrate": Step(lambda work: _gates(work, "map", "signal", "cost"), _calibrate),
        "replay": Step(lambda work: vars(work.design.gates), _replay),
    }


# Plans


def source_of(data: Data, work: Work) -> Source:
    """Return the question file of a data set of the design."""
    return planning.find_source(
        data.dataset,
        data.file,
        work.cache,
        format=data.format,
        skip=data.skip,
        own=lambda name: work.own(name, "reader", "row -> Question"),
    )


def recipe_of(design: Design) -> Recipe:
    """Return how the design makes plans."""
    plan = design.plan
    return Recipe(plan.order, plan.slices, plan.distractors, plan.seed, plan.split, plan.shares)


def _plan_reads(work: Work) -> dict[str, Any]:
    plan = work.design.plan
    names = [name for name in plan.similarity.split("+") if ":" in name]
    sources = [(one, source_of(one, work)) for one in work.design.data]
    return {
        "plan": {name: value for name, value in vars(plan).items() if name != "key_env"},
        "own": [code_digest(work.own(name, "similarity", "of a question")) for name in names],
        "data": [
            {
                **{name: value for name, value in vars(data).items() if name != "file"},
                "sha256": files.digest_of(source.path),
                "reader": code_digest(source.reader),
            }
            for data, source in sources
        ],
    }


def code_digest(function: Any) -> str:
    """Return the digest of the file in which a function of the user's stands; empty where that cannot be told."""
    try:
        return files.digest_of(Path(inspect.getfile(inspect.unwrap(function))))
    except TypeError:  # built in, or an instance: then its class may say
        return code_digest(type(function)) if function is not None and not isinstance(function, type) else ""


def _plan(work: Work) -> Outcome:
    design, written, told = work.design, [], []
    plan = design.plan
    make_folder(design.out / "plans")
    with asyncio.Runner() as run:
        for data in design.data:
            source, recipe = source_of(data, work), recipe_of(design)
            found = planning.survey(source, recipe, work.progress)
            work.warn(found.warnings)
            keep = planning.kept(found.splits, data.splits, data.limit)
            make_folder(design.ledger.parent)
            with planning.embedding(
                plan.similarity,
                plan.embedder,
                plan.embedding_model,
                lambda: work.key(plan.key_env),
                work.cache,
                run,
                ledger=design.ledger,
            ) as embedder:
                ranking = Ranking.of(
                    plan.similarity, embedder, lambda name: work.own(name, "similarity", "of a question")
                )
                header = planning.header(source, recipe, ranking, found, run)
                header |= {"questions": sum(keep), "splits": list(data.splits), "limit": data.limit}
                plans = planning.plans(source, recipe, ranking, found.splits, run, work.progress, keep=keep)
                files.write_plans(header, plans, design.plans_path(data))
            written.append(design.plans_path(data))
            left = found.intake.kept - sum(keep)
            told.append(f"{data.dataset}: {sum(keep):,} questions" + (f", {left:,} left out" if left else ""))
    return Outcome(tuple(written), tuple(told))


def plans_of(data: Data, work: Work) -> tuple[int, Iterator[Plan]]:
    """Return how many plans a data set has, and the plans.

    A dry run that finds none makes them here, ranked by words alone: the order of passages hardly moves a count of
    tokens, and no vector is paid for.
    """
    if work.planned or not work.dry_run:
        header, plans = files.read_plans(work.design.plans_path(data))
        return int(header["questions"]), plans
    source, recipe = source_of(data, work), recipe_of(work.design)
    found: Survey = planning.survey(source, recipe, work.progress)
    keep = planning.kept(found.splits, data.splits, data.limit)
    return sum(keep), _made(source, recipe, found, keep)


def _made(source: Source, recipe: Recipe, found: Survey, keep: list[bool]) -> Iterator[Plan]:
    with asyncio.Runner() as run:
        yield from planning.plans(source, recipe, Ranking(), found.splits, run, keep=keep)


# Maps and replays


def _gates(work: Work, *names: str) -> dict[str, Any]:
    return {name: getattr(work.design.gates, name) for name in names}


def _traces(work: Work, path: Path) -> Traces:
    gates = work.design.gates
    traces = files.read_traces(path, signal=gates.signal, cost=gates.cost, progress=work.progress)
    work.warn(traces.warnings)
    return traces


def _calibrate(work: Work) -> Outcome:
    design, written, told = work.design, [], []
    make_folder(design.out / "maps")
    for model in design.models:
        design.map_path(model).unlink(missing_ok=True)  # of an earlier design: no replay may take it for this one's
    if design.gates.map == "none":
        return Outcome((), ("no map is asked for",))
    for model in design.models:
        traces = _traces(work, design.traces_path(model))
        if not fittable(traces.split("calibration")):
            told.append(f"{model.name}: no record with a confidence and a verdict at depth 0 to fit on, so no map")
            continue
        fitted = calibrate(traces, by_depth=design.gates.map == "isotonic-by-depth")
        files.write_map(fitted, design.map_path(model))
        written.append(design.map_path(model))
        told.append(f"{model.name}: fitted on {fitted.fitted_on.n if fitted.fitted_on else 0:,} records")
    return Outcome(tuple(written), tuple(told))


def _replay(work: Work) -> Outcome:
    design, written, told = work.design, [], []
    gates = design.gates
    make_folder(design.out / "replays")
    for model in design.models:
        test = _traces(work, design.traces_path(model)).split("test")
        if not len(test):
            told.append(f"{model.name}: no traces of split test, so no replay")
            continue
        path = design.map_path(model)
        fitted = files.read_map(path) if path.is_file() else None
        summary = summarize(
            test,
            calibrated=fitted,
            gate=Threshold(lo=gates.lo, hi=gates.hi),
            budget=gates.budget,
            by=gates.by or None,
            thresholds=gates.thresholds,
            allow_leak=gates.allow_leak,
            progress=work.progress,
        )
        work.warn(summary.warnings[len(test.warnings) :])
        content = json.dumps(summary.as_json(), allow_nan=False) + "\n"
        replace_file(design.replay_path(model), content.encode())
        written.append(design.replay_path(model))
        for name in ("raw", "calibrated"):
            point = summary.pooled.systems[name]
            if point:
                told.append(f"{model.name}, {name} gate: {_said(point)}")
    return Outcome(tuple(written), tuple(told))


def _said(point: Point) -> str:
    shares = (
        ("OA", point.overall_accuracy),
        ("CA", point.committed_accuracy),
        ("coverage", point.coverage),
    )
    parts = [f"{name} {'–' if value is None else f'{100 * value:.1f}'}" for name, value in shares]
    return ", ".join([*parts, f"cost {point.mean_cost:.2f}" if point.mean_cost is not None else "cost –"])
