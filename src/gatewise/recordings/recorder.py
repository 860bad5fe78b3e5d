"""The recorder: what is still missing? Ask it, judge it, and hand the states on as rows of the trace table.

A walk goes through the depths of one plan. The same walk records, with voices that ask, and assembles, with voices
that only look into the ledger: so whatever is in the trace table has been stored first.
"""

import asyncio
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from gatewise.errors import Mistake, Unavailable
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.endpoints import Prices
from gatewise.recordings.entries import Entry
from gatewise.recordings.judges import Judge, Verdict
from gatewise.recordings.prompts import (
    VERDICT_SCHEMA,
    Messages,
    Prompt,
    answer_messages,
    answer_schema,
    p_true_messages,
    verdict_messages,
)
from gatewise.recordings.readings import Said, Unreadable, read_answer, read_verdict
from gatewise.recordings.replies import Completion, p_true, token_probability
from gatewise.recordings.voices import NOT_ASKED, Calls, Voice, price_of
from gatewise.types import Plan, Question, Scalar

Decide = Callable[[Question, str], Awaitable[Verdict]]

NOT_JUDGED = "not judged"
NO_VERDICT = "verdict: none"
NOT_OFFERED = "no log-probabilities"
OTHER_TOKENS = "token_probability: other tokens than the answer's"
ALTERNATIVES = 10  # first tokens among which Yes and No are looked for


@dataclass(frozen=True, slots=True)
class State:
    """One answered, judged depth: the columns of the trace table that differ from depth to depth."""

    depth: int
    confidence: float | None = None
    correct: bool | None = None
    answer: str | None = None
    missing_reason: str | None = None  # why confidence or verdict is null, or a signal that was asked for
    new_passages: int = 0
    token_probability: float | None = None
    p_true: float | None = None
    cost_usd: float | None = None  # of the answer, with what was asked again; without signals and verdict
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_s: float | None = None
    served_model: str | None = None
    provider: str | None = None


@dataclass(frozen=True)
class Asking:
    """How a model is asked: its label in the trace table, the prompt, how often, and for which signals."""

    label: str
    prompt: Prompt
    attempts: int = 3
    p_true: bool = False


async def walk(plan: Plan, voice: Voice, asking: Asking, decide: Decide | None = None) -> list[State]:
    """Return the states of a plan, depth by depth; one whose slice is empty is the state before it, copied."""
    found: list[State] = []
    for depth in range(plan.depths):
        if depth and not plan.reveals(depth):
            found.append(
                replace(
                    found[-1],
                    depth=depth,
                    new_passages=0,
                    cost_usd=0.0,
                    input_tokens=0,
                    output_tokens=0,
                    latency_s=None,
                )
            )
            continue
        state = await _answered(plan, depth, voice, asking)
        found.append(await _judged(state, plan.question, decide))
    return found


async def _answered(plan: Plan, depth: int, voice: Voice, asking: Asking) -> State:
    """Return a state without its verdict; an unreadable reply is asked for again, as another attempt."""
    messages = answer_messages(asking.prompt, plan, depth)
    schema = answer_schema(asking.prompt)
    new = len(plan.reveals(depth))
    state, cost, tokens_in, tokens_out = State(depth, new_passages=new), 0.0, 0, 0
    reason = NOT_ASKED
    for attempt in range(asking.attempts):
        try:
            entry = await voice.say(messages, schema, attempt=attempt)
        except Unavailable as failure:
            return replace(state, missing_reason=_reason(failure))
        completion = entry.completion
        if isinstance(completion, Unreadable):
            reason = f"unreadable: {completion.reason}"
            continue
        price = price_of(completion, voice.settings.prices)
        cost = cost + price if price is not None else float("nan")
        tokens_in += completion.input_tokens or 0
        tokens_out += completion.output_tokens or 0
        state = State(
            depth,
            new_passages=new,
            cost_usd=cost if cost == cost else None,
            input_tokens=tokens_in if completion.input_tokens is not None else None,
            output_tokens=tokens_out if completion.output_tokens is not None else None,
            latency_s=entry.latency,
            served_model=completion.served_model or None,
            provider=completion.provider or None,
        )
        said = read_answer(completion.content, completion.finish)
        if isinstance(said, Said):
            return await _signalled(state, said, completion, messages, voice, asking)
        reason = f"unreadable: {said.reason}"
    return replace(state, missing_reason=reason)


async def _signalled(
    state: State, said: Said, completion: Completion, messages: Messages, voice: Voice, asking: Asking
) -> State:
    """Return a state with what was said and its signals."""
    probability, reason = token_probability(completion), None
    if probability is None and voice.settings.logprobs:
        reason = OTHER_TOKENS if completion.tokens else f"token_probability: {NOT_OFFERED}"
    state = replace(
        state,
        answer=said.answer,
        confidence=said.confidence,
        token_probability=probability,
        missing_reason=reason,
    )
    if not asking.p_true:
        return state
    if not voice.form.logprobs:
        return replace(state, missing_reason=f"p_true: {NOT_OFFERED}")
    asked = p_true_messages(asking.prompt, messages, completion.content)
    try:
        entry = await voice.say(asked, kind="p_true", max_tokens=1, top_logprobs=ALTERNATIVES)
    except Unavailable as failure:
        return replace(state, missing_reason=f"p_true: {_reason(failure)}")
    reply = entry.completion
    found = None if isinstance(reply, Unreadable) else p_true(reply)
    return replace(state, p_true=found, missing_reason=reason if found is not None else "p_true: unreadable")


async def _judged(state: State, question: Question, decide: Decide | None) -> State:
    """Return a state with its verdict; one without an answer has none."""
    if state.answer is None:
        return state
    if decide is None:
        return replace(state, missing_reason=state.missing_reason or NOT_JUDGED)
    try:
        correct = await decide(question, state.answer)
    except Unavailable as failure:
        return replace(state, missing_reason=f"verdict: {_reason(failure)}")
    reason = NO_VERDICT if correct is None else state.missing_reason
    return replace(state, correct=correct, missing_reason=reason)


def _reason(failure: Unavailable) -> str:
    """Return why a call was not had; what no other call can better ends the run."""
    if failure.final:
        raise failure
    return failure.kind


def settled(reason: str) -> bool:
    """Return whether asking again would change nothing: there was a reply, or there is nothing to ask."""
    told = reason in (NOT_JUDGED, NO_VERDICT, OTHER_TOKENS) or reason.endswith(NOT_OFFERED)
    return told or "unreadable" in reason


class Missed:
    """Why calls were not had, by trace and depth: the ledger keeps what was said, and not what was not."""

    def __init__(self, known: Iterable[tuple[str, int, str]] = ()) -> None:
        self._reasons: dict[tuple[str, int], str] = {}
        for trace, depth, reason in known:
            self._add(trace, depth, reason)

    def _add(self, trace: str, depth: int, reason: str) -> None:
        if not settled(reason) and not reason.endswith(NOT_ASKED):
            self._reasons[trace, depth] = reason

    def note(self, plan: Plan, states: Iterable[State]) -> None:
        """Keep why states are missing that were just asked for."""
        for state in states:
            if state.missing_reason:
                self._add(plan.question.id, state.depth, state.missing_reason)

    def told(self, plan: Plan, states: Iterable[State]) -> list[State]:
        """Return states as the ledger has them, with the reasons of those that were asked for in vain."""
        return [replace(one, missing_reason=self._reason(plan, one)) for one in states]

    def _reason(self, plan: Plan, state: State) -> str | None:
        reason = state.missing_reason
        if reason and reason.endswith(NOT_ASKED):
            known = self._reasons.get((plan.question.id, state.depth), "")
            return known if known.startswith(reason.removesuffix(NOT_ASKED)) and known else reason
        return reason


# Judging through the ledger


def by_model(voice: Voice, prompt: Prompt, attempts: int) -> Decide:
    """Return a judge that asks a model, once for each distinct question, references and answer."""

    async def decide(question: Question, answer: str) -> Verdict:
        messages = verdict_messages(prompt, question.text, question.references, answer)
        reason = NOT_ASKED
        for attempt in range(attempts):
            entry = await voice.say(messages, VERDICT_SCHEMA, kind="verdict", attempt=attempt)
            completion = entry.completion
            verdict = (
                completion
                if isinstance(completion, Unreadable)
                else read_verdict(completion.content, completion.finish)
            )
            if not isinstance(verdict, Unreadable):
                return verdict
            reason = verdict.reason
        raise Unavailable("expected a verdict, found an unreadable reply. Judge again.", f"unreadable: {reason}")

    return decide


def by_own(judge: Judge, calls: Calls, *, asks: bool = True) -> Decide:
    """Return a judge of the user's whose verdicts are kept like any other call; a changed function is asked anew."""
    try:
        source = inspect.getsource(inspect.getmodule(judge.decide) or judge)
    except (OSError, TypeError):
        source = ""
    name = f"judge:{judge.name}@{hashlib.sha256(source.encode()).hexdigest()[:12]}"

    async def decide(question: Question, answer: str) -> Verdict:
        async def ask(request: Request) -> Reply:
            if not asks:
                raise Unavailable("expected the verdict in the ledger, found none. Judge first.", NOT_ASKED)
            return Reply(json.dumps(await judge(question, answer)), None, None)

        body = {"id": question.id, "question": question.text, "references": list(question.references)}
        entry: Entry = await calls.once(Request(name, body | {"answer": answer}, kind="verdict"), ask)
        verdict = json.loads(entry.raw)
        return None if verdict is None else bool(verdict)

    return decide


# Going through the plans


async def record(
    plans: Iterable[Plan],
    go: Callable[[Plan], Awaitable[None]],
    *,
    workers: int,
    stopped: Callable[[], bool],
    done: Callable[[], None],
) -> None:
    """Walk through plans, so many at a time, each from its first depth to its last; end early when told to stop."""
    waiting = iter(plans)

    async def work() -> None:
        for plan in waiting:
            if stopped():
                return
            await go(plan)
            done()
            await asyncio.sleep(0)  # an interrupt gets through, also where nothing had to be waited for

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
    except ExceptionGroup as failed:
        mistakes = [one for one in failed.exceptions if isinstance(one, Mistake)]
        if len(mistakes) == len(failed.exceptions):
            raise mistakes[0] from None  # one is enough to say what is wrong
        raise


def rows(plan: Plan, states: Iterable[State], label: str, prompt: str, judge: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of the trace table that the states of a plan make."""
    question = plan.question
    same = {
        "trace_id": question.id,
        "model": label,
        "dataset": question.dataset or None,
        "split": question.split or None,
        "plan": plan.digest,
        "question": question.text,
        "prompt": prompt,
        "judge": judge or None,
        **about(question),
    }
    for state in states:
        yield same | {name: getattr(state, name) for name in _STATE}


_STATE = tuple(one.name for one in fields(State))
COLUMNS = (
    "trace_id",
    "depth",
    "confidence",
    "correct",
    "model",
    "dataset",
    "split",
    "plan",
    "question",
    *(name for name in _STATE if name not in ("depth", "confidence", "correct")),
    "judge",
    "prompt",
)


def about(question: Question) -> dict[str, Scalar]:
    """Return what else the source says of a question, under names that no column of ours has."""
    return {f"about_{name}" if name in _TAKEN else name: value for name, value in question.about.items()}


_TAKEN = {*COLUMNS, "cost"}


# What a recording would ask


@dataclass
class Estimate:
    """What is still to be asked for some plans, and what that may cost."""

    states: int = 0
    copied: int = 0
    had: int = 0  # in the ledger
    calls: int = 0  # to be made at least; replies that turn out unreadable are asked for again
    signals: int = 0  # further calls of one token each, at most
    input_tokens: int = 0  # of the calls, at four bytes a token
    output_tokens: int = 0  # at most

    def add(self, request: Request, most: int) -> None:
        """Take in a call that is to be made, whose reply has so many tokens at most."""
        size = sum(len(one["content"].encode("utf-8", "replace")) for one in request.body["messages"])
        self.calls += 1
        self.input_tokens += size // BYTES_A_TOKEN
        self.output_tokens += most

    def price(self, prices: Prices | None) -> float | None:
        """Return what the calls may cost in US dollars, each reply as long as it may be."""
        if prices is None:
            return None
        return (self.input_tokens * prices.input + self.output_tokens * prices.output) / 1e6


BYTES_A_TOKEN = 4


def estimate(plans: Iterable[Plan], voice: Voice, asking: Asking) -> Estimate:
    """Return what recording some plans would ask, by what the ledger has and the form that is known so far."""
    found = Estimate()

    def miss(request: Request) -> None:
        if request.kind == "answer":
            found.add(request, voice.settings.max_tokens)
        if request.kind == "p_true" or (asking.p_true and voice.form.logprobs):
            found.add(request, 1)
            found.calls, found.signals = found.calls - 1, found.signals + 1

    silent = voice.offline(miss)
    with asyncio.Runner() as run:
        for plan in plans:
            for state in run.run(walk(plan, silent, asking)):
                copied = bool(state.depth) and not plan.reveals(state.depth)
                found.states += 1
                found.copied += copied
                found.had += not copied and state.missing_reason != NOT_ASKED
    return found


def estimate_verdicts(
    plans: Iterable[Plan], answers: Voice, asking: Asking, judge: Voice, prompt: Prompt
) -> Estimate:
    """Return what judging would ask: a call for each distinct answer, and for each that is not there yet."""
    found = Estimate()
    with asyncio.Runner() as run:
        for plan in plans:
            _estimate_verdicts_of(plan, run.run(walk(plan, answers, asking)), judge, prompt, found)
    return found


def _estimate_verdicts_of(plan: Plan, states: Iterable[State], judge: Voice, prompt: Prompt, found: Estimate) -> None:
    question, told = plan.question, set[str]()
    for state in states:
        found.states += 1
        if state.depth and not plan.reveals(state.depth):
            found.copied += 1
            continue
        if state.answer in told:
            continue
        messages = verdict_messages(prompt, question.text, question.references, state.answer or "")
        request = judge.request(messages, VERDICT_SCHEMA, kind="verdict")
        if state.answer is not None:
            told.add(state.answer)
            if judge.calls.known(request):
                found.had += 1
                continue
        found.add(request, judge.settings.max_tokens)
