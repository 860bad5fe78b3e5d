"""The nouns that several rooms share: frozen, standard library only."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

Scalar = str | int | float | bool | None


class Action(IntEnum):
    """What a controller does at one depth of evidence."""

    COMMIT = 0
    RETRIEVE = 1
    ABSTAIN = 2
    ESCALATE = 3


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of evidence, and whether the answer rests on it."""

    title: str
    text: str
    supporting: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, the answers that count as right, and the evidence, in the order of its source."""

    id: str
    text: str
    references: tuple[str, ...]
    passages: tuple[Passage, ...]
    dataset: str = ""
    split: str = ""  # as the source names it, where it does
    about: Mapping[str, Scalar] = field(default_factory=dict)  # what else the source says, for subgroups

    @property
    def supports(self) -> tuple[int, ...]:
        """Positions of the supporting passages, in source order."""
        return tuple(place for place, passage in enumerate(self.passages) if passage.supporting)

    @property
    def distractors(self) -> tuple[int, ...]:
        """Positions of the other passages, in source order."""
        return tuple(place for place, passage in enumerate(self.passages) if not passage.supporting)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which passages each depth reveals, fixed before any model is asked.

    Slices hold positions of passages (from 0, in source order), in the order in which they are shown. Depth 0
    shows nothing, depth t the slices 1 … t.

    >>> q = Question("q", "Who?", ("A",), (Passage("A", "a", True), Passage("B", "b")))
    >>> Plan(q, ((0,), (1,), ())).visible(2)
    (0, 1)
    """

    question: Question
    slices: tuple[tuple[int, ...], ...]

    @property
    def depths(self) -> int:
        """How many states the plan has: one more than slices."""
        return len(self.slices) + 1

    def reveals(self, depth: int) -> tuple[int, ...]:
        """Return the passages that are new at a depth; none at depth 0."""
        return self.slices[depth - 1] if depth else ()

    def visible(self, depth: int) -> tuple[int, ...]:
        """Return all passages that a depth shows, in the order revealed."""
        return tuple(place for slice_ in self.slices[:depth] for place in slice_)

    @property
    def digest(self) -> str:
        """A digest of everything that a model would be shown, depth by depth, and of nothing else.

        Ids, references, support labels and passages left out of the plan do not enter it.
        """
        shown = [
            [[self.question.passages[place].title, self.question.passages[place].text] for place in slice_]
            for slice_ in self.slices
        ]
        return hashlib.sha256(json.dumps([self.question.text, shown]).encode()).hexdigest()
