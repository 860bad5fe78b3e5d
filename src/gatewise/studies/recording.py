"""Recording: the steps of a study that ask, record and judge, with endpoints opened, limits kept and prices told."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gatewise.errors import BadChoice, BrokenFile, Unavailable
from gatewise.files.disk import make_folder
from gatewise.files.recorded import Kinds, missing_in, recording
from gatewise.recordings import judges
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.recorder import (
    COLUMNS,
    Asking,
    Decide,
    Missed,
    about,
    by_model,
    by_own,
    record,
    rows,
    walk,
)
from gatewise.recordings.voices import NOT_ASKED, Calls, Purse, Tally, Voice, nobody
from gatewise.studies.accounts import (
    Count,
    answers_to_judge,
    calls_estimated,
    count_told,
    stopped_told,
    verdicts_estimated,
)
from gatewise.studies.asking import Stop, asking_of, ledger_of, name_of, opened, plans_in, prompt_of, settings_of
from gatewise.studies.designs import Asked, Judging, Model
from gatewise.studies.running import Outcome, Step, Work
from gatewise.studies.steps import code_digest
from gatewise.types import Plan

Live = Callable[[str, Tally, int, int], None]  # what, so far, done, of how many


@dataclass(frozen=True)
class Limits:
    """What a recording may cost, whether it asks anybody at all, and who is told how it goes."""

    max_cost: float | None = None
    offline: bool = False
    live: Live = lambda what, tally, done, total: None


def recording_steps(limits: Limits) -> dict[str, Step]:
    """Return the steps that ask models: record and judge."""
    return {
        "record": Step(_record_reads, lambda work: _record(work, limits)),
        "judge": Step(_judge_reads, lambda work: _judge(work, limits)),
    }


# What a step depends on: what is asked, not how fast or with which key

_PACE = ("key_env", "concurrency", "requests_per_minute", "tokens_per_minute", "timeout", "overall", "proxy", "ca",
         "threads", "device", "batch")  # fmt: skip


def _record_reads(work: Work) -> Any:
    return [_asked_reads(model, work) for model in work.design.models]


def _judge_reads(work: Work) -> Any:
    judging = work.design.judge
    models = [_asked_reads(model, work) for model in work.design.models]
    if judging.kind == "model":
        return [models, _asked_reads(judging, work)]
    if judging.kind == "own":
        return [
            models,
            judging.name,
            code_digest(work.own(judging.function, "judge", "(question, answer) -> verdict")),
        ]
    return [models, judging.name]


def _asked_reads(asked: Asked, work: Work) -> Any:
    values = {name: value for name, value in vars(asked).items() if name not in _PACE}
    return json.loads(json.dumps(values | {"prompt": prompt_of(asked, work.design).digest}, default=str))


# The steps


def _record(work: Work, limits: Limits) -> Outcome:
    if work.dry_run:
        return Outcome(told=calls_estimated(work))
    if limits.max_cost is not None:
        for model in work.design.models:
            _require_prices(model)
    return asyncio.run(_recorded(work, limits))


async def _recorded(work: Work, limits: Limits) -> Outcome:
    """Ask what is missing, and write what was said, not yet judged, as one table a model."""
    design = work.design
    counts: dict[Path, Count] = {}
    async with _sitting(work, limits) as sitting:
        for model in design.models:
            asking = asking_of(model, design)
            calls, missed = sitting.calls(model), Missed()
            async with _voice(model, sitting, calls) as (voice, workers):

                async def go(
                    plan: Plan, voice: Voice = voice, asking: Asking = asking, missed: Missed = missed
                ) -> None:
                    missed.note(plan, await walk(plan, voice, asking))

                await _through(sitting, go, workers, f"asking {model.name}")
            if sitting.tally.stopped:
                return _ended(sitting, counts)
            path = design.recorded_path(model)
            counts[path] = await _assembled(sitting, voice.offline(), asking, None, missed, "", path)
    return _ended(sitting, counts)


def _judge(work: Work, limits: Limits) -> Outcome:
    judging = work.design.judge
    if work.dry_run:
        return Outcome(told=verdicts_estimated(work) if judging.kind == "model" else ())
    if limits.max_cost is not None and judging.kind == "model":
        _require_prices(judging)
    return asyncio.run(_all_judged(work, limits))


async def _all_judged(work: Work, limits: Limits) -> Outcome:
    """Judge every answer in the ledger, and write the trace tables."""
    counts: dict[Path, Count] = {}
    async with _sitting(work, limits) as sitting:
        for model in work.design.models:
            path = work.design.traces_path(model)
            count = await _judged(sitting, model, work.design.judge, path)
            if count is None:
                return _ended(sitting, counts)
            counts[path] = count
    return _ended(sitting, counts)


async def _judged(sitting: "_Sitting", model: Model, judging: Judging, path: Path) -> Count | None:
    """Write the trace table of a model by one judge, asking no answer anew; None where it was stopped before."""
    answers, asking = sitting.silent(model), asking_of(model, sitting.work.design)
    missed = Missed(missing_in(sitting.work.design.recorded_path(model)))
    async with _deciding(judging, sitting) as (decide, workers, silent):
        if workers:

            async def go(plan: Plan) -> None:
                missed.note(plan, await walk(plan, answers, asking, decide))

            await _through(sitting, go, workers, f"judging {model.name}")
            if sitting.tally.stopped:
                return None
        return await _assembled(sitting, answers, asking, silent(), missed, judging.name, path)


def rejudge(work: Work, limits: Limits, by: str, output: Path) -> list[tuple[Path, str]]:
    """Write the trace table of each model by another judge that asks no model; return the paths and what is told."""
    judging = _judging(by)
    if len(work.design.models) > 1 and "{model}" not in output.name:
        raise BadChoice(f"expected {{model}} in -o for {len(work.design.models)} models, found {output}. Add it.")

    paths = [output.with_name(output.name.replace("{model}", model.name)) for model in work.design.models]
    if work.dry_run:
        return list(zip(paths, answers_to_judge(replace(work, planned=True), judging), strict=True))

    async def all_models() -> list[tuple[Path, str]]:
        told = []
        async with _sitting(work, limits) as sitting:
            for model, path in zip(work.design.models, paths, strict=True):
                count = await _judged(sitting, model, judging, path)
                if count is None:
                    raise Unavailable(stopped_told(sitting.tally), NOT_ASKED)
                told.append((path, count_told(model.name, count)))
        return told

    return asyncio.run(all_models())


def _judging(name: str) -> Judging:
    if ":" in name and not name.startswith(judges.MODEL):
        return Judging(kind="own", function=name)
    known = judges.judge(name)
    if known.model:
        raise BadChoice(f"expected a judge that asks no model, found {name}. Describe it in [judge] of a study file.")
    if name.startswith(judges.F1):
        return Judging(kind="f1", threshold=float(known.name.removeprefix(judges.F1)))
    return Judging(kind="exact")


# What the steps share


@dataclass
class _Sitting:
    """One step at work: the ledger, what may be spent, and what is known of the plans before anybody is asked."""

    work: Work
    limits: Limits
    ledger: Ledger
    total: int  # plans
    kinds: Kinds  # of the columns that the sources have beside ours
    tally: Tally
    purse: Purse
    stops: list[Stop] = field(default_factory=list)  # of the endpoints that are open

    def calls(self, asked: Asked) -> Calls:
        """Return calls that count into the one tally and are paid from the one purse."""
        return Calls(self.ledger, self.tally, self.purse, prices=asked.prices)

    def silent(self, asked: Asked) -> Voice:
        """Return what a model has said so far: a voice that asks nobody."""
        name = name_of(asked, self.work.design, self.work.cache)
        return Voice(name, settings_of(asked, self.work.design), self.calls(asked), nobody).offline()


@asynccontextmanager
async def _sitting(work: Work, limits: Limits) -> AsyncIterator[_Sitting]:
    """Yield what a step works with; where there is a limit, after counting what the study has cost so far."""
    total, kinds = _surveyed(work)
    with ledger_of(work.design, readonly=limits.offline and work.design.ledger.is_file()) as ledger:
        if not limits.offline:
            ledger.require_room()
        tally = Tally()
        sitting = _Sitting(work, limits, ledger, total, kinds, tally, Purse(tally, limits.max_cost))
        if limits.max_cost is not None:
            await _count_spent(sitting)
        yield sitting


def _surveyed(work: Work) -> tuple[int, Kinds]:
    """Return how many plans there are, and the columns of their sources, before anything is paid."""
    total, plans = plans_in(work)
    kinds = Kinds()
    several = len(work.design.data) > 1  # in one, the reader sees to it
    seen: set[int] = set()
    for done, plan in enumerate(plans):
        kinds.add(about(plan.question))
        if several:
            mark = hash(plan.question.id)
            if mark in seen:
                raise BrokenFile(
                    f"expected every question id once in a study, found {plan.question.id!r} in two data sets. Make "
                    "two studies of them, or rename it."
                )
            seen.add(mark)
        if done % 256 == 0:
            work.progress("reading plans", done, total)
    return total, kinds


async def _count_spent(sitting: _Sitting) -> None:
    """Count every call of the study that the ledger has, of all models and of the judge."""
    work, judging = sitting.work, sitting.work.design.judge
    decide = None
    if judging.kind == "model":
        decide = by_model(sitting.silent(judging), prompt_of(judging, work.design), judging.attempts)
    for model in work.design.models:
        voice, asking = sitting.silent(model), asking_of(model, work.design)
        for done, plan in enumerate(plans_in(work)[1]):
            await walk(plan, voice, asking, decide)
            if done % 256 == 0:
                work.progress(f"counting what {model.name} cost", done, sitting.total)
                await asyncio.sleep(0)  # an interrupt gets through


async def _assembled(
    sitting: _Sitting,
    voice: Voice,
    asking: Asking,
    decide: Decide | None,
    missed: Missed,
    judge: str,
    path: Path,
) -> Count:
    """Write a trace table from what is in the ledger, and why the rest is not."""
    work, count = sitting.work, Count()
    make_folder(path.parent)
    with recording(path, COLUMNS, sitting.kinds) as take:
        for done, plan in enumerate(plans_in(work)[1]):
            states = missed.told(plan, await walk(plan, voice, asking, decide))
            count.add(states)
            for row in rows(plan, states, asking.label, asking.prompt.digest, judge):
                take(row)
            if done % 256 == 0:
                work.progress(f"writing {path.name}", done, sitting.total)
                await asyncio.sleep(0)  # an interrupt gets through
    return count


async def _through(sitting: _Sitting, go: Callable[[Plan], Awaitable[None]], workers: int, what: str) -> None:
    """Walk through all plans; when the user interrupts, finish what is under way and no more."""
    if sitting.limits.offline:
        return
    tally, live, total = sitting.tally, sitting.limits.live, sitting.total
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        live(what, tally, done, total)

    live(what, tally, 0, total)
    plans = plans_in(sitting.work)[1]
    task = asyncio.ensure_future(
        record(plans, go, workers=workers, stopped=lambda: bool(tally.stopped), done=one_more)
    )
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        tally.stopped = tally.stopped or "interrupted"
        for stop in sitting.stops:
            stop(Unavailable(f"expected to go on, found: {tally.stopped}.", NOT_ASKED))
        live("finishing what is under way", tally, done, total)
        await task


@asynccontextmanager
async def _voice(asked: Asked, sitting: _Sitting, calls: Calls) -> AsyncIterator[tuple[Voice, int]]:
    """Yield the voice of a model, and how many walks it can serve at once; what is under way in the end is stored."""
    settings = settings_of(asked, sitting.work.design)
    if sitting.limits.offline:
        yield sitting.silent(asked), 1
        return
    async with opened(asked, sitting.work) as (name, ask, workers, stop):
        sitting.stops.append(stop)
        try:
            yield Voice(name, settings, calls, ask), workers
        finally:
            await calls.settled()
            sitting.stops.remove(stop)


@asynccontextmanager
async def _deciding(judging: Judging, sitting: _Sitting) -> AsyncIterator[tuple[Decide, int, Callable[[], Decide]]]:
    """Yield who decides, how many walks may ask at once, and what decides by what was said then.

    How many is 0 where a verdict is a matter of looking.
    """
    work, calls = sitting.work, sitting.calls(judging)
    if judging.kind == "model":
        prompt, attempts = prompt_of(judging, work.design), judging.attempts
        async with _voice(judging, sitting, calls) as (voice, workers):
            decide = by_model(voice, prompt, attempts)
            yield decide, workers, lambda: by_model(voice.offline(), prompt, attempts)
    elif judging.kind == "own":
        judge = judges.judge(judging.name, lambda name: work.own(name, "judge", "(question, answer) -> verdict"))
        try:
            decide = by_own(judge, calls, asks=not sitting.limits.offline)
            yield decide, judging.concurrency, lambda: by_own(judge, calls, asks=False)
        finally:
            await calls.settled()
    else:
        looking = judges.judge(judging.name)
        yield looking, 0, lambda: looking


def _require_prices(asked: Asked) -> None:
    if asked.url and asked.prices is None:
        raise BadChoice(
            f"expected the prices of {asked.model}, by which --max-cost is kept, found none. Add "
            "prices = {input = …, output = …} in US dollars per million tokens."
        )


# What is told


def _ended(sitting: _Sitting, counts: dict[Path, Count]) -> Outcome:
    """Return how a step ended. One in which a call failed, or was not made, is done again by the next run."""
    tally = sitting.tally
    told = [count_told(path.stem, count) for path, count in counts.items()]
    priced = f"; {tally.cost:.4f} $ so far" if tally.cost else ""
    told.append(f"{tally.asked:,} calls made, {tally.found:,} found in the ledger{priced}")
    if tally.stopped:
        return Outcome(told=(stopped_told(tally), *told), complete=False)
    whole = not tally.failures and all(count.asked for count in counts.values())
    return Outcome(files=tuple(counts), told=tuple(told), noted=whole)
