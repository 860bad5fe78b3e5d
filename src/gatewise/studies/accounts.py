"""Accounts: what a recording would ask, and what became of it, in words."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from gatewise.recordings.ledger import Ledger
from gatewise.recordings.recorder import NOT_JUDGED, Estimate, State, estimate, estimate_verdicts, settled, walk
from gatewise.recordings.voices import Calls, Purse, Tally, Voice, nobody
from gatewise.studies.asking import asking_of, name_of, plans_in, prompt_of, settings_of
from gatewise.studies.designs import Asked, Judging
from gatewise.studies.running import Work


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


def count_told(name: str, count: Count) -> str:
    """Return what became of a model's states, in a line."""
    parts = [f"{name}: {count.states:,} states, {count.answered:,} answered"]
    if count.judged:
        parts.append(f"{count.judged:,} judged")
    parts += [f"{number:,} {reason}" for reason, number in sorted(count.missing.items()) if reason != NOT_JUDGED]
    return ", ".join(parts)


def stopped_told(tally: Tally) -> str:
    """Return why a run has stopped, and how to go on."""
    return f"stopped: {tally.stopped}. Run the same command again to go on; what was answered is kept."


def calls_estimated(work: Work) -> tuple[str, ...]:
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


def verdicts_estimated(work: Work) -> tuple[str, ...]:
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


def answers_to_judge(work: Work, judging: Judging) -> list[str]:
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
