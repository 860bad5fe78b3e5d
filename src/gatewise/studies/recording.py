"""Recording: the steps of a study that ask, record and judge, with endpoints opened, limits kept and prices told."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from gatewise.errors import BadChoice, BrokenFile, Unavailable
from gatewise.files.recorded import Kinds, missing_in, recording
from gatewise.recordings import judges
from gatewise.recordings.endpoints import Settings
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.prompts import PROMPTS, Prompt, read_prompt
from gatewise.recordings.recorder import (
    COLUMNS,
    NOT_JUDGED,
    Asking,
    Decide,
    Estimate,
    Missed,
    State,
    about,
    by_model,
    by_own,
    estimate,
    estimate_verdicts,
    record,
    rows,
    settled,
    walk,
)
from gatewise.recordings.voices import NOT_ASKED, Ask, Calls, Purse, Tally, Voice, nobody
from gatewise.studies.designs import Asked, Design, Judging, Model
from gatewise.studies.running import Outcome, Step, Work, make_folder
from gatewise.studies.steps import code_digest, plans_of
from gatewise.types import Plan

Live = Callable[[str, Tally, int, int], None]  # what, so far, done, of how many

Stop = Callable[[Unavailable], None]  # what calls fail with that have not been sent

NOWHERE = "http://127.0.0.1/v1"  # the address of a model in this process, which is never called


@dataclass(frozen=True)
class Limits:
    """What a recording may cost, whether it asks anybody at all, and who is told how it goes."""

    max_cost: float | None = None
    offline: bool = False
    live: Live = lambda what, tally, done, total: None


@dataclass
class Count:
    """What became of the states that were walked through."""

    states: int = 0
    answered: int = 0
    judged: int = 0
    missing: Counter[str] = field(default_factory=Counter)

    def add(self, states: Iterable[State]) -> None:
        """Take in the states of one plan."""
        for state in states:
            self.states += 1
            self.answered += state.answer is not None
            self.judged += state.correct is not None
            if state.missing_reason:
                self.missing[state.missing_reason] += 1

    @property
    def asked(self) -> bool:
        """Whether every call was had that there was to make."""
        return all(settled(reason) for reason in self.missing)


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


def prompt_of(asked: Asked, design: Design) -> Prompt:
    """Return the prompt that a model of the design is asked with: a built-in one, or that of a file."""
    if asked.prompt in PROMPTS:
        return PROMPTS[asked.prompt]
    path = design.folder / asked.prompt
    try:
        return read_prompt(path.read_text("utf-8"), asked.prompt)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise BrokenFile(
            f"expected a prompt among {', '.join(PROMPTS)}, or a prompt file at {path}, found: {reason}. Check "
            "the path."
        ) from None


# Endpoints


def settings_of(asked: Asked, design: Design) -> Settings:
    """Return the settings of a model of the design."""
    prices = asked.prices
    return Settings(
        model=asked.model or asked.local or asked.transformer,
        url=asked.url or NOWHERE,
        key_env=asked.key_env,
        temperature=asked.temperature,
        max_tokens=asked.max_tokens,
        seed=asked.seed,
        extra=asked.extra,
        logprobs=getattr(asked, "logprobs", False),
        top_logprobs=getattr(asked, "top_logprobs", 5),
        prices=prices,
        concurrency=asked.concurrency,
        requests_per_minute=asked.requests_per_minute,
        tokens_per_minute=asked.tokens_per_minute,
        timeout=asked.timeout,
        overall=asked.overall,
        proxy=asked.proxy,
        ca=str(asked.ca or ""),
    )


def name_of(asked: Asked, design: Design, cache: Path) -> str:
    """Return what the ledger knows an endpoint by, without opening it."""
    if asked.url:
        return settings_of(asked, design).address
    if asked.transformer:
        from gatewise.recordings.transformer import name_of as transformer_name

        return transformer_name(_from_folder(asked.transformer, design))
    from gatewise.recordings.local import name_of as local_name

    return local_name(_from_folder(asked.local, design), cache)


def _from_folder(model: str, design: Design) -> str:
    """Return a model's name, or the path of its files: like all paths of a study, it starts at the study's folder."""
    path = design.folder / model
    return str(path) if path.is_file() or (path / "config.json").is_file() else model


@asynccontextmanager
async def opened(asked: Asked, work: Work) -> AsyncIterator[tuple[str, Ask, int, Stop]]:
    """Yield an endpoint of the design, open: its name, how it is asked, how many calls it takes at once, its stop."""
    if asked.url:
        from gatewise.recordings.chats import chat

        if asked.key_env and not work.key(asked.key_env):
            raise BadChoice(
                f"expected a key for {asked.model} in the environment variable {asked.key_env}, found none. Set it."
            )
        settings = settings_of(asked, work.design)
        async with chat(settings, key=work.key(asked.key_env)) as endpoint:  # the key in no name of ours
            yield endpoint.name, lambda request: endpoint(request.body), asked.concurrency, endpoint.stop
    elif asked.transformer:
        from gatewise.recordings.transformer import Transformer

        place = _from_folder(asked.transformer, work.design)
        with Transformer(place, device=asked.device or "auto", batch=asked.batch) as model:
            yield model.name, lambda request: model(request.body), 2 * asked.batch, _at_once  # the next waits, full
    else:
        from gatewise.recordings.local import Local, model_file

        path = model_file(_from_folder(asked.local, work.design), work.cache)
        with Local(path, threads=asked.threads, context=asked.context) as local:
            # one at a time, so that depths share a cache
            yield local.name, lambda request: local(request.body), 1, _at_once


def _at_once(failure: Unavailable) -> None:
    """Do nothing: what answers in this process waits for no turn and tries nothing again."""


# The steps


def _record(work: Work, limits: Limits) -> Outcome:
    if work.dry_run:
        return Outcome(told=_estimated(work))
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
        return Outcome(told=_verdicts_estimated(work) if judging.kind == "model" else ())
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
        return list(zip(paths, _answers_to_judge(replace(work, planned=True), judging), strict=True))

    async def all_models() -> list[tuple[Path, str]]:
        told = []
        async with _sitting(work, limits) as sitting:
            for model, path in zip(work.design.models, paths, strict=True):
                count = await _judged(sitting, model, judging, path)
                if count is None:
                    raise Unavailable(_stopped(sitting.tally), NOT_ASKED)
                told.append((path, _told(model.name, count)))
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


def asking_of(model: Model, design: Design) -> Asking:
    """Return how a model of the design is asked."""
    return Asking(model.name, prompt_of(model, design), model.attempts, model.p_true)


def ledger_of(design: Design, *, readonly: bool = False) -> Ledger:
    """Return the ledger of a design, open; one that is only read may stand where nobody writes."""
    if not readonly:
        make_folder(design.ledger.parent)
    return Ledger.open(design.ledger, readonly=readonly)


def plans_in(work: Work) -> tuple[int, Iterator[Plan]]:
    """Return how many plans a study has, and all of them."""
    parts = [plans_of(data, work) for data in work.design.data]
    return sum(count for count, _ in parts), chain.from_iterable(plans for _, plans in parts)


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
    told = [_told(path.stem, count) for path, count in counts.items()]
    priced = f"; {tally.cost:.4f} $ so far" if tally.cost else ""
    told.append(f"{tally.asked:,} calls made, {tally.found:,} found in the ledger{priced}")
    if tally.stopped:
        return Outcome(told=(_stopped(tally), *told), complete=False)
    whole = not tally.failures and all(count.asked for count in counts.values())
    return Outcome(files=tuple(counts), told=tuple(told), noted=whole)


def _told(name: str, count: Count) -> str:
    parts = [f"{name}: {count.states:,} states, {count.answered:,} answered"]
    if count.judged:
        parts.append(f"{count.judged:,} judged")
    parts += [f"{number:,} {reason}" for reason, number in sorted(count.missing.items()) if reason != NOT_JUDGED]
    return ", ".join(parts)


def _stopped(tally: Tally) -> str:
    return f"stopped: {tally.stopped}. Run the same command again to go on; what was answered is kept."


def _estimated(work: Work) -> tuple[str, ...]:
    """Return what recording would ask, a line a model; whatever is in the ledger is not asked again."""
    told: list[str] = []
    with _looked_into(work) as silent:
        for model in work.design.models:
            asking = asking_of(model, work.design)
            found = estimate(plans_in(work)[1], silent(model), asking)
            signals = f" and up to {found.signals:,} for P(True)" if found.signals else ""
            told.append(
                f"{model.name}: {found.states:,} states, {found.copied:,} of them copies, {found.had:,} in the ledger"
                f"; {found.calls:,} calls to make{signals}, {_priced(found, model)}"
            )
    return tuple(told)


def _verdicts_estimated(work: Work) -> tuple[str, ...]:
    """Return what judging would ask, a line a model; an answer that is not there yet counts as one of its own."""
    told: list[str] = []
    judging = work.design.judge
    with _looked_into(work) as silent:
        for model in work.design.models:
            asking, prompt = asking_of(model, work.design), prompt_of(judging, work.design)
            found = estimate_verdicts(plans_in(work)[1], silent(model), asking, silent(judging), prompt)
            told.append(
                f"{model.name}: {found.had:,} verdicts in the ledger; at most {found.calls:,} calls to make, "
                f"{_priced(found, judging)}"
            )
    return tuple(told)


def _answers_to_judge(work: Work, judging: Judging) -> list[str]:
    """Return what judging by a judge that asks no model would look at, a line a model."""

    async def all_models() -> list[str]:
        told = []
        with _looked_into(work) as silent:
            for model in work.design.models:
                voice, asking, count = silent(model), asking_of(model, work.design), Count()
                for plan in plans_in(work)[1]:
                    count.add(await walk(plan, voice, asking))
                told.append(
                    f"{model.name}: {count.states:,} states, {count.answered:,} answered, would be judged by "
                    f"{judging.name}; no model is asked"
                )
        return told

    return asyncio.run(all_models())


@contextmanager
def _looked_into(work: Work) -> Iterator[Callable[[Asked], Voice]]:
    """Yield what makes the voice of a model by what the ledger has, if there is one; no file changes."""
    design = work.design
    with ExitStack() as stack:
        ledger = None
        if design.ledger.is_file():
            ledger = stack.enter_context(Ledger.open(design.ledger, readonly=True))

        def silent(asked: Asked) -> Voice:
            calls = Calls(ledger, Tally(), Purse(Tally()), prices=asked.prices)
            return Voice(name_of(asked, design, work.cache), settings_of(asked, design), calls, nobody)

        yield silent


def _priced(found: Estimate, asked: Asked) -> str:
    price = found.price(asked.prices)
    cost = "no price named" if price is None else f"at most {price:,.2f} $"
    return f"about {found.input_tokens:,} tokens in and at most {found.output_tokens:,} out, {cost}"
