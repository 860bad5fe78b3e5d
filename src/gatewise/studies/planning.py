"""Planning: a question file → its plans, ranked, sliced and split, one at a time.

A file is walked twice: once to see that every row is fit, how many there are and what leaks between splits, and once
to plan. Nothing but hashes and the split of each question is kept in between.
"""

import asyncio
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gatewise.errors import BadChoice, GatewiseError, nearest, raised, shown
from gatewise.files import QUESTIONS, digest_of, read_rows
from gatewise.questions.datasets import READERS, Intake, Reader, take_in
from gatewise.questions.plans import UNLABELLED, PlanCount, plan, require_makeable
from gatewise.questions.similarity import SIMILARITIES, Floats, Similarity, cosine, passage_text
from gatewise.questions.sources import SOURCES
from gatewise.questions.splits import SHARES, at_random, in_order, leaks, named
from gatewise.recordings.client import post, session
from gatewise.recordings.embedders import Embedder, Endpoint, MiniLM, SentenceTransformer
from gatewise.recordings.embedders import kept as kept_in
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.retries import Patience
from gatewise.studies.fetching import dataset_path
from gatewise.types import Passage, Plan, Question
from gatewise.wording import normalized

T = TypeVar("T")

BATCH = 32  # questions embedded together

Progress = Callable[[str, int, int], None]  # what, done, of how many


@dataclass(frozen=True)
class Source:
    """A question file and how it is read."""

    path: Path
    dataset: str
    format: str = "own"
    skip: tuple[str, ...] = ()
    reader: Reader | None = None  # one of your own, instead of the format's

    def questions(
        self,
        *,
        labelled: bool = True,
        intake: Intake | None = None,
        progress: Progress = lambda what, done, total: None,
    ) -> Iterator[Question]:
        """Yield the questions of the file, or raise what is wrong with it."""
        reader = self.reader or READERS.get(self.format)
        if reader is None:
            raise BadChoice(
                f"expected a format among {', '.join(READERS)}, found {self.format!r}"
                f"{nearest(self.format, list(READERS))}. Choose one, or name a reader of yours as module:name."
            )
        rows = read_rows(self.path, lambda done, total: progress(f"reading {self.path.name}", done, total))
        return take_in(
            rows, reader, dataset=self.dataset, labelled=labelled, skip=self.skip, file=str(self.path), intake=intake
        )


def find_source(
    dataset: str,
    file: Path | None,
    cache: Path,
    *,
    format: str = "",  # noqa: A002 -- as the option is called
    skip: Sequence[str] = (),
    own: Callable[[str], Reader] | None = None,
) -> Source:
    """Return where questions come from: the file named, or the one that the data set's name stands for."""
    if file is None and dataset == "worldfacts":
        file = QUESTIONS
    elif file is None and dataset in SOURCES:
        file = dataset_path(SOURCES[dataset], cache)
        if not file.is_file():
            raise BadChoice(
                f"expected the file of {dataset} at {file}, found none. Run gatewise fetch {dataset}, or name a copy "
                "with --file (in a study file: file)."
            )
    elif file is None:
        known = [*SOURCES, "worldfacts"]
        raise BadChoice(
            f"expected --file (in a study file: file) with the questions of {dataset!r}, found none"
            f"{nearest(dataset, known)}. Name the file, or a data set that is known."
        )
    reader = _guarded(own(format), f"a question of reader {format}") if ":" in format and own else None
    known_as = format or (dataset if dataset in READERS else "own")
    return Source(file, dataset, known_as, tuple(skip), reader)


def _guarded(call: Callable[..., T], what: str) -> Callable[..., T]:
    """Return the user's own function such that what it prints is no result, and what it raises is told."""

    def guarded(*values: Any) -> T:
        try:
            with redirect_stdout(sys.stderr):
                return call(*values)
        except GatewiseError:
            raise
        except (Exception, SystemExit) as error:
            raise BadChoice(f"expected {what}, found {raised(error)}. Mend it.") from error

    return guarded


@dataclass(frozen=True)
class Recipe:
    """How plans are made of questions: every setting that is not the questions or their similarity."""

    order: str = "paper"
    slices: int = 3
    distractors: int | None = None
    seed: int = 0
    split: str = "source"  # or "random", or "column:NAME"
    shares: tuple[float, float] = SHARES

    def __post_init__(self) -> None:
        require_makeable(self.order, self.slices, self.distractors)  # before anything is read or written

    @property
    def labelled(self) -> bool:
        """Whether supports must be marked."""
        return self.order not in UNLABELLED

    def as_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {**vars(self), "shares": list(self.shares)}


@dataclass(frozen=True)
class Ranking:
    """What ranks passages: similarities by name, and an embedder where `dense` is one of them."""

    similarities: tuple[tuple[str, Similarity | None], ...] = (("lexical", SIMILARITIES["lexical"]),)
    embedder: Embedder | None = None

    @staticmethod
    def of(names: str, embedder: Embedder | None = None, own: Callable[[str], Similarity] | None = None) -> "Ranking":
        """Return the ranking that names joined by + ask for, as in lexical+dense."""
        found: list[tuple[str, Similarity | None]] = []
        for name in names.split("+"):
            if name == "dense":
                if embedder is None:
                    raise BadChoice("expected an embedder for the dense similarity, found none. Choose one.")
                found.append((name, None))
            elif ":" in name and own:
                found.append((name, _guarded(own(name), f"scores of similarity {name}")))
            elif name in SIMILARITIES:
                found.append((name, SIMILARITIES[name]))
            else:
                known = [*SIMILARITIES, "dense"]
                raise BadChoice(
                    f"expected similarities among {', '.join(known)} or module:name, joined by +, found {name!r}"
                    f"{nearest(name, known)}. Choose among them."
                )
        return Ranking(tuple(found), embedder)

    def as_json(self, run: asyncio.Runner) -> list[dict[str, str]]:
        """Return the name of everything that ranks, with a digest of how it ranks a few fixed texts.

        An embedder whose weights are known is known by their digest.
        """
        rows = []
        for name, similarity in self.similarities:
            if similarity is not None:
                rows.append({"name": name, "digest": fingerprint(similarity, name)})
            elif self.embedder is not None:
                digest = self.embedder.digest or fingerprint(
                    lambda question, passages: self._dense(run, [Question("", question, (), tuple(passages))])[0],
                    name,
                )
                rows.append({"name": name, "embedder": self.embedder.name, "digest": digest})
        return rows

    def scores(self, questions: Sequence[Question], run: asyncio.Runner) -> list[list[Floats]]:
        """Return one column a similarity for each of some questions, checked to be one finite number a passage."""
        dense = self._dense(run, questions) if any(one is None for _, one in self.similarities) else []
        found = []
        for place, question in enumerate(questions):
            columns = []
            for name, similarity in self.similarities:
                column = dense[place] if similarity is None else similarity(question.text, question.passages)
                columns.append(_checked(column, name, question.passages, f"question {question.id!r}"))
            found.append(columns)
        return found

    def _dense(self, run: asyncio.Runner, questions: Sequence[Question]) -> list[Floats]:
        texts = [[question.text, *map(passage_text, question.passages)] for question in questions]
        distinct = list(dict.fromkeys(text for row in texts for text in row))
        assert self.embedder is not None  # noqa: S101 -- Ranking.of saw to it
        place = dict(zip(distinct, run.run(_await(self.embedder, distinct)), strict=True))
        return [cosine(place[row[0]], np.stack([place[text] for text in row[1:]])) for row in texts]


async def _await(embedder: Embedder, texts: Sequence[str]) -> Any:
    return await embedder(texts)


def _checked(column: Any, name: str, passages: Sequence[Passage], asked: str) -> Floats:
    try:
        scores = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        scores = np.array(np.nan)
    if scores.shape != (len(passages),) or not np.isfinite(scores).all():
        found = shown(column.tolist() if isinstance(column, np.ndarray) else column)
        raise BadChoice(
            f"expected {len(passages)} finite scores of similarity {name} for {asked}, found {found}. Mend the "
            "similarity."
        )
    return scores


_PROBE = (
    Passage("Seine", "The Seine flows through Paris."),
    Passage("Paris", "Paris is the capital of France, and the capital of fashion."),
    Passage("Thames", "The Thames flows through London, the capital of England."),
    Passage("Tin", "Tin is a metal."),
)


def fingerprint(similarity: Similarity, name: str = "") -> str:
    """Return a digest of what a similarity says of a few fixed texts, to two decimals: it tells one from another."""
    found = similarity("Which river flows through the capital of France?", _PROBE)
    scores = _checked(found, name, _PROBE, "a first trial")
    return hashlib.sha256(" ".join(f"{score + 0.0:.2f}" for score in scores.tolist()).encode()).hexdigest()


@dataclass
class Survey:
    """What a first walk over a source found: how many questions, their splits, and what stands in several of them."""

    intake: Intake = field(default_factory=Intake)
    splits: list[str] = field(default_factory=list)
    shared_texts: int = 0  # normalized question texts that stand in more than one split; an id stands but once

    @property
    def warnings(self) -> tuple[str, ...]:
        """What leaks from one split into another."""
        if not self.shared_texts:
            return ()
        return (
            f"{self.shared_texts:,} normalized question texts stand in more than one split: a map will not be "
            "applied to the states of a question that took part in its fit.",
        )


def survey(source: Source, recipe: Recipe, progress: Progress = lambda what, done, total: None) -> Survey:
    """Return the splits of a source's questions and what leaks between them, or raise what is wrong with its rows."""
    found = Survey()
    column = recipe.split.removeprefix("column:") if recipe.split.startswith("column:") else None
    if column is None and recipe.split not in ("source", "random"):
        raise BadChoice(
            f"expected a split of source, random or column:NAME, found {recipe.split!r}. Choose one of them."
        )
    ids: list[str] = []
    texts: list[bytes | None] = []
    for question in source.questions(labelled=recipe.labelled, intake=found.intake, progress=progress):
        ids.append(question.id if recipe.split == "random" else "")
        texts.append(text_key(question.text))
        if column is not None:
            value = question.split if column == "split" else question.about.get(column)
            found.splits.append(named(value, column, question.id))
    if recipe.split == "random":
        found.splits = at_random(ids, recipe.seed, recipe.shares)
    elif column is None:
        found.splits = in_order(len(ids), recipe.shares)
    found.shared_texts = leaks(texts, found.splits)
    return found


def text_key(text: str) -> bytes | None:
    """Return what two questions of the same words share, None for one without words."""
    words = normalized(text)
    return hashlib.blake2b(words.encode(), digest_size=8).digest() if words else None


def plans(
    source: Source,
    recipe: Recipe,
    ranking: Ranking,
    splits: Sequence[str],
    run: asyncio.Runner,
    progress: Progress = lambda what, done, total: None,
    *,
    keep: Sequence[bool] | None = None,
) -> Iterator[Plan]:
    """Yield the plan of every question of a source that is kept, in order; without `keep`, of all."""
    splits = splits if keep is None else list(compress(splits, keep))
    questions = source.questions(labelled=recipe.labelled)
    done = 0
    for batch in _batches(questions if keep is None else compress(questions, keep)):
        for question, scores in zip(batch, ranking.scores(batch, run), strict=True):
            placed = replace(question, split=splits[done])
            yield plan(
                placed,
                scores,
                order=recipe.order,
                slices=recipe.slices,
                distractors=recipe.distractors,
                seed=recipe.seed,
            )
            done += 1
            progress("planning", done, len(splits))


def kept(splits: Sequence[str], wanted: Collection[str], limit: int | None = None) -> list[bool]:
    """Return which questions are kept: those of the wanted splits, of each the first so many.

    >>> kept(["calibration", "calibration", "test", "test"], ["test", "calibration"], 1)
    [True, False, True, False]
    """
    seen: Counter[str] = Counter()
    found = []
    for split in splits:
        seen[split] += 1
        found.append(split in wanted and (limit is None or seen[split] <= limit))
    return found


def _batches(questions: Iterable[Question]) -> Iterator[list[Question]]:
    walk = iter(questions)
    while batch := list(islice(walk, BATCH)):
        yield batch


def header(source: Source, recipe: Recipe, ranking: Ranking, found: Survey, run: asyncio.Runner) -> dict[str, Any]:
    """Return what stands in the first line of a plan file: settings and digests of all that made the plans."""
    return {
        "questions": found.intake.kept,
        "skipped": found.intake.skipped,
        "dataset": source.dataset,
        "format": source.format,
        "source": {"file": source.path.name, "sha256": digest_of(source.path)},
        "recipe": recipe.as_json(),
        "similarity": ranking.as_json(run),
    }


def counted(planned: Iterable[Plan], counts: dict[str, PlanCount]) -> Iterator[Plan]:
    """Yield plans on, and count by split what they add up to."""
    for one in planned:
        counts.setdefault(one.question.split, PlanCount()).add(one)
        yield one


@contextmanager
def embedding(
    similarity: str,
    by: str,
    model: str,
    key: Callable[[], str],
    cache: Path,
    run: asyncio.Runner,
    *,
    ledger: Path | None = None,
) -> Iterator[Embedder | None]:
    """Yield the embedder that a similarity asks for, None where it asks for none.

    `by` is minilm, sentence-transformers, or the base address of an endpoint that serves `model`. What an endpoint
    says is kept in the ledger, where one is named, and not paid for again.
    """
    if "dense" not in similarity.split("+"):
        yield None
    elif by == "minilm":
        yield MiniLM(cache)
    elif by == "sentence-transformers":
        yield SentenceTransformer(model)
    elif by.startswith(("http://", "https://")):
        patience = Patience()
        stack = AsyncExitStack()
        opened = run.run(_entered(stack, session(patience)))
        try:
            url = f"{by.rstrip('/')}/embeddings"

            async def call(body: Mapping[str, Any]) -> Any:
                return await post(opened, url, body, key=key(), patience=patience)

            if ledger is None:
                yield Endpoint(model, call)
            else:
                with Ledger.open(ledger) as book:
                    book.require_room()
                    yield Endpoint(model, kept_in(call, url, book))
        finally:
            run.run(_left(stack))
    else:
        known = ("minilm", "sentence-transformers")
        raise BadChoice(
            f"expected an embedder among {', '.join(known)}, or the address of an endpoint such as "
            f"http://127.0.0.1:8000/v1, found {by!r}{nearest(by, known)}. Choose one of them."
        )


async def _entered(stack: AsyncExitStack, context: AbstractAsyncContextManager[T]) -> T:
    return await stack.enter_async_context(context)


async def _left(stack: AsyncExitStack) -> None:
    await stack.aclose()


@dataclass
class Range:
    """The fewest, the most and the sum of something that every question has."""

    fewest: int | None = None
    most: int = 0
    total: int = 0

    def add(self, count: int) -> None:
        """Take in one question."""
        self.fewest = count if self.fewest is None else min(self.fewest, count)
        self.most = max(self.most, count)
        self.total += count


@dataclass
class Census:
    """What a question file holds."""

    intake: Intake = field(default_factory=Intake)
    passages: Range = field(default_factory=Range)
    supports: Range = field(default_factory=Range)
    references: Range = field(default_factory=Range)
    splits: dict[str, int] = field(default_factory=dict)
    repeated_texts: int = 0  # questions whose normalized text an earlier one has

    def as_json(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "schema": "gatewise.questions/1",
            "rows": self.intake.rows,
            "questions": self.intake.kept,
            "skipped": self.intake.skipped,
            "repeated_texts": self.repeated_texts,
            "splits": self.splits,
            **{name: vars(getattr(self, name)) for name in ("passages", "supports", "references")},
        }


def take_census(
    source: Source, *, labelled: bool = True, progress: Progress = lambda what, done, total: None
) -> Census:
    """Return what a question file holds, or raise what is wrong with it."""
    found = Census()
    seen: set[bytes] = set()
    for question in source.questions(labelled=labelled, intake=found.intake, progress=progress):
        found.passages.add(len(question.passages))
        found.supports.add(len(question.supports))
        found.references.add(len(question.references))
        if question.split:
            found.splits[question.split] = found.splits.get(question.split, 0) + 1
        key = text_key(question.text)
        if key is not None:
            found.repeated_texts += key in seen
            seen.add(key)
    return found
