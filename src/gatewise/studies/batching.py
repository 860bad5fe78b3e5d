"""Batching: what a study still has to ask, as batch files for a distributed engine, and its results into the ledger.

The same walk that records also writes and reads: it asks a file instead of an endpoint. One round brings answers, the
next what follows from them (another attempt, P(True), verdicts), until nothing is missing.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gatewise.errors import BadChoice, Refused, Unavailable, nearest
from gatewise.files.disk import draft, make_folder, read_lines, require_apart
from gatewise.recordings.batches import MOST_BYTES, MOST_LINES, Intake, Results, batch_line
from gatewise.recordings.calls import KINDS, Reply, Request
from gatewise.recordings.endpoints import simpler
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.recorder import Decide, by_model, record, walk
from gatewise.recordings.store import Shelf
from gatewise.recordings.voices import NOT_ASKED, Ask, Calls, Purse, Tally, Voice
from gatewise.studies.accounts import Count
from gatewise.studies.asking import asking_of, ledger_of, plans_in, prompt_of, settings_of
from gatewise.studies.designs import Asked, Model
from gatewise.studies.running import Work
from gatewise.types import Plan

AT_ONCE = 256  # walks, so that many replies go to the disk together


@dataclass(frozen=True)
class Sheet:
    """One batch file: what it asks, of which model, and by what the ledger knows the endpoint."""

    path: Path
    model: str  # as the endpoint calls it
    endpoint: str
    requests: dict[str, int]  # by kind
    size: int  # bytes


@dataclass(frozen=True)
class Intakes:
    """What became of results: of their lines, and of the states of each model."""

    intake: Intake
    models: dict[str, Count]
    notes: tuple[str, ...] = ()


def write_batches(work: Work, folder: Path, only: str = "") -> list[Sheet]:
    """Write what is still to be asked, each request once, and return the files; files of an earlier round go.

    The same ledger and plans give the same files. All of them stand in their places when all are written.
    """
    models = _chosen(work, only)
    make_folder(folder)

    async def all_models() -> list[Sheet]:
        with Shelf() as seen, ExitStack() as drafts:
            judge = _Writer(folder, "verdicts", seen, drafts)
            writers = [(model, _Writer(folder, f"answers-{model.name}", seen, drafts)) for model in models]
            with ledger_of(work.design) as ledger:
                for model, writer in writers:
                    asks = (writer.ask, judge.ask)
                    async with _walking(work, ledger, model, asks) as (voice, decide, _):
                        total, plans = plans_in(work)
                        for done, plan in enumerate(plans):
                            await walk(plan, voice, asking_of(model, work.design), decide)
                            if done % 64 == 0:
                                work.progress(f"writing {model.name}", done, total)
            return [sheet for one in (*(writer for _, writer in writers), judge) for sheet in one.sheets()]

    sheets = asyncio.run(all_models())
    _remove_others(folder, models, {one.path for one in sheets})
    return sheets


def read_batches(work: Work, results: Sequence[Path]) -> Intakes:
    """Put the replies in results files into the ledger, and return what became of them."""
    require_apart(work.design.ledger, results)
    models = _chosen(work, "")

    async def all_models() -> Intakes:
        counts: dict[str, Count] = {}
        notes: list[str] = []
        with ledger_of(work.design) as ledger, Results() as found:
            for path in results:
                found.take_in(_told_on(read_lines(path), work, f"reading {path.name}"))
            ledger.require_room()
            for model in models:
                counts[model.name], told = await _read(work, ledger, found, model)
                notes += told
            found.count_rest(ledger)
            return Intakes(found.intake, counts, tuple(dict.fromkeys(notes)))

    return asyncio.run(all_models())


async def _read(work: Work, ledger: Ledger, found: Results, model: Model) -> tuple[Count, list[str]]:
    """Walk through the plans of one model, asking the results; return what became of its states."""
    count, asking = Count(), asking_of(model, work.design)
    heard, judged = _Heard(found), _Heard(found)
    async with _walking(work, ledger, model, (heard.ask, judged.ask)) as (voice, decide, judge):
        total, plans = plans_in(work)
        done = 0

        async def go(plan: Plan) -> None:
            count.add(await walk(plan, voice, asking, decide))

        def one_more() -> None:
            nonlocal done
            done += 1
            if done % 64 == 0:
                work.progress(f"storing {model.name}", done, total)

        await record(plans, go, workers=AT_ONCE, stopped=lambda: False, done=one_more)
        notes = [heard.settle(voice)]
        if judge:
            notes.append(judged.settle(judge))
    return count, [one for one in notes if one]


@asynccontextmanager
async def _walking(
    work: Work, ledger: Ledger, model: Model, asks: tuple[Ask, Ask]
) -> AsyncIterator[tuple[Voice, Decide | None, Voice | None]]:
    """Yield the voice of a model, and who decides where that is a model, too; both ask as they are told to."""
    judging = work.design.judge
    voice = _voice(work, ledger, model, asks[0])
    if judging.kind == "model" and judging.url:
        judge = _voice(work, ledger, judging, asks[1])
        yield voice, by_model(judge, prompt_of(judging, work.design), judging.attempts), judge
    else:
        yield voice, None, None


def _voice(work: Work, ledger: Ledger, asked: Asked, ask: Ask) -> Voice:
    settings = settings_of(asked, work.design)
    calls = Calls(ledger, Tally(), Purse(Tally()), prices=asked.prices)
    return Voice(settings.address, settings, calls, ask).asking(ask)


def _chosen(work: Work, only: str) -> list[Model]:
    """Return the models of a study that a batch can ask: those behind an address."""
    models = work.design.models
    names = [one.name for one in models]
    if only and only not in names:
        raise BadChoice(f"expected a model among {', '.join(names)}, found {only!r}{nearest(only, names)}.")
    found = [one for one in models if one.url and only in ("", one.name)]
    if not found:
        raise BadChoice(
            "expected a model with a url, found models that run in this process. Record those with gatewise record, "
            "or give the url that replies of a batch are kept under."
        )
    return found


def _told_on(lines: Iterable[bytes], work: Work, what: str) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        if number % 1024 == 0:
            work.progress(what, number, None)
        yield line


def _remove_others(folder: Path, models: Sequence[Model], written: set[Path]) -> None:
    """Remove what an earlier round wrote and this one did not: asked again, it would be paid for twice."""
    names = "|".join(["verdicts", *(re.escape(f"answers-{one.name}") for one in models)])
    for path in sorted(folder.iterdir()):
        if re.fullmatch(rf"({names})(~\d+)?\.jsonl", path.name) and path not in written:
            path.unlink()


@dataclass
class _Heard:
    """Results as one voice hears them: whether there was a reply, and what a refusal said."""

    results: Results
    replies: int = 0
    refused: Refused | None = None

    async def ask(self, request: Request) -> Reply:
        try:
            reply = await self.results.ask(request)
        except Refused as refused:
            self.refused = refused
            raise
        self.replies += 1
        return reply

    def settle(self, voice: Voice) -> str:
        """Note the form that was served, or a simpler one where nothing was; return what is to be said about it."""
        if self.replies:
            voice.note(voice.form)
        elif self.refused and not voice.calls.tally.found:
            form = simpler(voice.form, self.refused)
            if form:
                voice.note(form)
                return f"{voice.settings.model} refused how it was asked; the next batch asks in a simpler form"
        return ""


@dataclass
class _Writer:
    """Writes requests, each once, into as many files as a service takes of them."""

    folder: Path
    name: str
    seen: Shelf
    drafts: ExitStack
    _written: list[Sheet] = field(default_factory=list)
    _out: IO[bytes] | None = None
    _path: Path = Path()
    _model: str = ""
    _endpoint: str = ""
    _kinds: dict[str, int] = field(default_factory=dict)
    _size: int = 0

    async def ask(self, request: Request) -> Reply:
        """Write a request, and raise that it was not asked."""
        if self.seen.add(request.key, ""):
            line = batch_line(request)
            full = sum(self._kinds.values()) == MOST_LINES or self._size + len(line) > MOST_BYTES
            if self._out is None or full:
                self._turn()
                number = len(self._written) + 1
                self._path = self.folder / f"{self.name}{f'~{number}' if number > 1 else ''}.jsonl"
                self._out = self.drafts.enter_context(draft(self._path))
                self._kinds, self._size = {}, 0
                self._model, self._endpoint = str(request.body.get("model", "")), request.endpoint
            self._out.write(line)
            self._kinds[request.kind] = self._kinds.get(request.kind, 0) + 1
            self._size += len(line)
        raise Unavailable(
            "expected the reply in the ledger, found none yet. Read the results of the batch.", NOT_ASKED
        )

    def _turn(self) -> None:
        if self._out is not None:
            kinds = {kind: self._kinds[kind] for kind in KINDS if kind in self._kinds}
            self._written.append(Sheet(self._path, self._model, self._endpoint, kinds, self._size))
            self._out = None

    def sheets(self) -> list[Sheet]:
        """Return all files."""
        self._turn()
        return self._written
