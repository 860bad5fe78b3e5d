"""Shelves: the questions of one model a slice at a time, for a page that cannot hold them all.

What the page reads off ranks where it holds every row, a shelf takes from the replay itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gatewise.replays.arrays import UNKNOWN, Bools, Coded, Ints, objects
from gatewise.replays.lookups import Lookup, texts_of
from gatewise.replays.loop import Episodes, replay
from gatewise.replays.policies import Threshold
from gatewise.reports.passages import Evidence
from gatewise.types import Action

OUTCOMES = ("right", "wrong", "unknown", "abstained", "escalated")
SORTS = ("id", "question", "answer", "depth", "outcome", "moved")
CLIPPED = 300  # characters of a text in a row; a question's own page has all of it


@dataclass(frozen=True)
class Gate:
    """The gate on screen."""

    lo: float
    hi: float
    budget: int


@dataclass(frozen=True)
class Choice:
    """Which rows are wanted and in what order: of one group, with one outcome or moved, that hold some words."""

    score: str = "raw"
    column: int = -1
    value: int = 0
    show: str = "all"
    find: str = ""
    sort: str = ""


@dataclass(frozen=True, eq=False)
class Walks:
    """Where one gate stops every episode under every score."""

    episodes: Mapping[str, Episodes]
    outcomes: Mapping[str, Ints]  # places among OUTCOMES
    moved: Bools


def walk(book: Lookup, gate: Gate) -> Walks:
    """Return where a gate stops every episode, from a replay under each score."""
    policy = Threshold(lo=gate.lo, hi=gate.hi)
    episodes = {
        name: replay(book.traces, policy, score=score, budget=gate.budget) for name, score in book.maps.items()
    }
    raw, other = episodes["raw"], episodes.get("calibrated", episodes["raw"])
    moved = (raw.action != other.action) | (raw.depth != other.depth)
    return Walks(episodes, {name: _outcomes(one) for name, one in episodes.items()}, moved)


def _outcomes(episodes: Episodes) -> Ints:
    correct = episodes.correct
    answered = np.where(correct == 1, 0, np.where(correct == UNKNOWN, 2, 1))
    ended = np.where(episodes.action == Action.ABSTAIN, 3, 4)
    return np.where(episodes.committed, answered, ended)


class Shelf:
    """The questions of one model, and what was last worked out about them."""

    def __init__(self, book: Lookup, evidence: Evidence) -> None:
        self.book = book
        self.evidence = evidence
        self._walked: tuple[Gate, Walks] | None = None
        self._sifted: tuple[tuple[Gate, Choice], Ints] | None = None

    def walks(self, gate: Gate) -> Walks:
        """Return where this gate stops every episode."""
        if self._walked is None or self._walked[0] != gate:
            self._walked = (gate, walk(self.book, gate))
        return self._walked[1]

    def counts(self, gate: Gate, choice: Choice) -> dict[str, Any]:
        """Return how many episodes of a group have each outcome under each score, and how many moved."""
        walks, among = self.walks(gate), self._among(choice)
        return {
            "by": {
                name: np.bincount(found[among], minlength=len(OUTCOMES)).tolist()
                for name, found in walks.outcomes.items()
            },
            "moved": int((walks.moved & among).sum()),
        }

    def _among(self, choice: Choice) -> Bools:
        if choice.column < 0:
            return np.ones(len(self.book.traces), np.bool_)
        among: Bools = np.equal(self.book.groupings[choice.column].places, choice.value)
        return among

    def order(self, gate: Gate, choice: Choice) -> Ints:
        """Return the wanted rows in the wanted order."""
        if self._sifted is None or self._sifted[0] != (gate, choice):
            self._sifted = ((gate, choice), self._sift(gate, choice))
        return self._sifted[1]

    def _sift(self, gate: Gate, choice: Choice) -> Ints:
        walks, wanted = self.walks(gate), self._among(choice)
        outcomes = walks.outcomes[choice.score]
        if choice.show == "moved":
            wanted = wanted & walks.moved
        elif choice.show in OUTCOMES:
            wanted = wanted & (outcomes == OUTCOMES.index(choice.show))
        if choice.find.strip():
            wanted = wanted & self._holding(choice.find.strip().lower())
        rows = np.flatnonzero(wanted)
        key = choice.sort.removeprefix("-")
        if key not in SORTS or key == "id":
            return rows[::-1] if choice.sort == "-id" else rows
        values = self._keys(choice, walks, rows)[key]().astype(np.int64)
        return rows[np.argsort(-values if choice.sort.startswith("-") else values, kind="stable")]

    def _keys(self, choice: Choice, walks: Walks, rows: Ints) -> dict[str, Callable[[], npt.NDArray[Any]]]:
        episodes = walks.episodes[choice.score]
        return {
            "question": lambda: self._question_ranks[rows],
            "answer": lambda: self._answers(episodes, rows),
            "depth": lambda: episodes.depth[rows],
            "outcome": lambda: walks.outcomes[choice.score][rows],
            "moved": lambda: ~walks.moved[rows],
        }

    def _holding(self, needle: str) -> Bools:
        """Return which questions hold these words in their id, wording or an answer."""
        ids, questions = self._lowered
        found = np.fromiter((needle in text for text in ids), np.bool_, len(ids))
        found |= np.fromiter((needle in text for text in questions), np.bool_, len(questions))
        said = np.array([needle in text.lower() for text in self._answer_codes.values.tolist()] + [False], np.bool_)
        trace = np.repeat(np.arange(len(ids)), self.book.traces.lengths)
        found[trace[said[self._answer_codes.codes]]] = True
        return found

    @cached_property
    def _lowered(self) -> tuple[list[str], list[str]]:
        traces = self.book.traces
        return [text.lower() for text in traces.ids], [(text or "").lower() for text in traces.questions]

    @cached_property
    def _answer_codes(self) -> Coded:
        column = self.book.traces.table.get("answer")
        return column if isinstance(column, Coded) else Coded.of(texts_of(self.book.traces, "answer").tolist())

    @cached_property
    def _question_ranks(self) -> Ints:
        texts = objects([text or "" for text in self.book.traces.questions.tolist()])
        ranks = np.empty(len(texts), np.int64)
        ranks[np.argsort(texts, kind="stable")] = np.arange(len(texts))
        return ranks

    @cached_property
    def _starts(self) -> Ints:
        lengths = self.book.traces.lengths
        return np.cumsum(lengths) - lengths

    def _answers(self, episodes: Episodes, rows: Ints) -> Ints:
        """Return the place of each answer given among all answers, -1 where none was given."""
        codes = self._answer_codes.codes[self._starts[rows] + episodes.depth[rows]]
        return np.where(episodes.action[rows] == Action.COMMIT, codes, UNKNOWN)

    def rows(self, gate: Gate, choice: Choice, start: int, most: int) -> list[list[Any]]:
        """Return some of the wanted rows: place in the traces, id, question, answer, depth, outcome, moved."""
        chosen = self.order(gate, choice)[start : start + most]
        walks, traces = self.walks(gate), self.book.traces
        episodes = walks.episodes[choice.score]
        answers = [self._answer(code) for code in self._answers(episodes, chosen).tolist()]
        columns = (
            chosen.tolist(),
            map(_clipped, traces.ids[chosen].tolist()),
            map(_clipped, traces.questions[chosen].tolist()),
            map(_clipped, answers),
            episodes.depth[chosen].tolist(),
            (OUTCOMES[one] for one in walks.outcomes[choice.score][chosen].tolist()),
            walks.moved[chosen].tolist(),
        )
        return [list(row) for row in zip(*columns, strict=True)]

    def _answer(self, code: int) -> str | None:
        return None if code < 0 else str(self._answer_codes.values[code])

    def question(self, row: int, gate: Gate) -> dict[str, Any]:
        """Return everything about one question: its walk, and where this gate stops it under each score."""
        book, traces = self.book, self.book.traces
        states = []
        for depth in range(int(traces.lengths[row])):
            confidence = traces.confidence[row, depth]
            states.append(
                {
                    "answer": self._answer(self._answer_codes.codes[self._starts[row] + depth]),
                    "correct": int(traces.correct[row, depth]),
                    "copied": bool(traces.copied[row, depth]),
                    **{name: _number(score(np.array([confidence]), depth)[0]) for name, score in book.maps.items()},
                }
            )
        about = [[one.column, one.values[one.places[row]]] for one in book.groupings]
        if traces.datasets[row] is not None and "dataset" not in (one.column for one in book.groupings):
            about.insert(0, ["dataset", traces.datasets[row]])
        walks = self.walks(gate)
        return {
            "id": traces.ids[row],
            "question": traces.questions[row],
            "about": [[name, value if value is None else str(value)] for name, value in about],
            "states": states,
            "evidence": self.evidence.of((traces.datasets[row], traces.ids[row], traces.plans[row])),
            "stops": {
                name: {"depth": int(one.depth[row]), "action": int(one.action[row])}
                for name, one in walks.episodes.items()
            },
        }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _clipped(text: str | None) -> str | None:
    return text if text is None or len(text) <= CLIPPED else f"{text[:CLIPPED]}…"


def shelf_answers(shelves: Sequence[Shelf]) -> dict[str, Any]:
    """Return the functions that answer the page: query → plain values. What they cannot read is as if unsaid."""

    def asked(query: Mapping[str, str]) -> tuple[Shelf, Gate, Choice]:
        shelf = shelves[min(_whole(query, "set"), len(shelves) - 1)]
        hi = _unit(query, "hi", 0.7)
        gate = Gate(min(_unit(query, "lo", 0.3), hi), hi, _whole(query, "budget", 3))
        score = query.get("map", "raw")
        column = _whole(query, "column", -1)
        groupings = shelf.book.groupings
        if column >= len(groupings):
            column = -1
        choice = Choice(
            score if score in shelf.book.maps else "raw",
            column,
            _whole(query, "value"),
            query.get("show", "all"),
            query.get("find", ""),
            query.get("sort", ""),
        )
        return shelf, gate, choice

    def rows(query: Mapping[str, str]) -> Any:
        shelf, gate, choice = asked(query)
        return {
            "total": len(shelf.order(gate, choice)),
            "counts": shelf.counts(gate, choice),
            "rows": shelf.rows(gate, choice, _whole(query, "from"), min(_whole(query, "most", 200), 1000)),
        }

    def question(query: Mapping[str, str]) -> Any:
        shelf, gate, _ = asked(query)
        return shelf.question(min(_whole(query, "row"), len(shelf.book.traces) - 1), gate)

    return {"/rows": rows, "/question": question}


def _whole(query: Mapping[str, str], name: str, default: int = 0) -> int:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default


def _unit(query: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(query.get(name, ""))
    except ValueError:
        return default
    return value if 0 <= value <= 1 else default
