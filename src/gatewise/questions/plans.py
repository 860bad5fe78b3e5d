"""Plans: a question and scores → ranked passages → slices, the evidence of each depth (Section 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, zip_longest
from typing import Any

import numpy as np

from gatewise.errors import BadChoice, nearest, shown
from gatewise.questions.similarity import Floats, ranked
from gatewise.questions.splits import shuffled
from gatewise.types import Plan, Question
from gatewise.wording import proxy_depth

# What each order shows first, and whether it looks at the support labels.
ORDERS = {
    "paper": "supports and ranked distractors in turn, dealt out over the slices",
    "retriever": "all passages as ranked, without a look at the labels",
    "supports-first": "supports in source order, then ranked distractors",
    "distractors-first": "ranked distractors, then supports in source order",
    "random": "a seeded shuffle, without a look at the labels",
}
UNLABELLED = ("retriever", "random")


def plan(
    question: Question,
    scores: Sequence[Floats],
    *,
    order: str = "paper",
    slices: int = 3,
    distractors: int | None = None,
    seed: int = 0,
) -> Plan:
    """Return a question's plan: which passages each depth reveals.

    `scores` holds one column a similarity, one number a passage; ranking goes by the mean of their min–max.
    `distractors` keeps only so many of the best-ranked ones (default: all).

    In the paper's order the supports g and ranked distractors d alternate, g0 d0 g1 d1 …, and passage i (from 0)
    falls into slice 1 + (i mod slices). The other orders are cut into runs as equal as possible, the earlier
    ones longer, so that what an order puts first is what the first retrieval shows.

    >>> from gatewise.types import Passage
    >>> q = Question("q", "Who?", ("A",), tuple(Passage(t, t, t in "AB") for t in "AxByz"))
    >>> plan(q, [[0.0, 0.1, 0.0, 0.9, 0.5]]).slices
    ((0, 4), (3, 1), (2,))
    >>> plan(q, [[0.0, 0.1, 0.0, 0.9, 0.5]], order="retriever").slices
    ((3, 4), (1, 0), (2,))
    """
    require_makeable(order, slices, distractors)
    everything = range(len(question.passages))
    for column in scores:
        if np.shape(column) != (len(everything),) or not np.isfinite(column).all():
            raise BadChoice(
                f"expected a finite score for each of the {len(everything)} passages of question "
                f"{shown(question.id)}, found other scores. Repair the similarity."
            )
    if order == "random":
        seen = shuffled(map(str, everything), f"passages {seed} {question.id}")
    elif order == "retriever":
        seen = ranked(scores, everything)
    else:
        supports, others = question.supports, ranked(scores, question.distractors)[:distractors]
        if order == "paper":
            pairs = chain.from_iterable(zip_longest(supports, others))
            seen = [place for place in pairs if place is not None]
            return Plan(question, tuple(tuple(seen[first::slices]) for first in range(slices)))
        seen = [*supports, *others] if order == "supports-first" else [*others, *supports]
    size, longer = divmod(len(seen), slices)
    starts = [size * place + min(place, longer) for place in range(slices + 1)]
    return Plan(question, tuple(tuple(seen[a:b]) for a, b in pairwise(starts)))


def require_makeable(order: str, slices: int, distractors: int | None) -> None:
    """Raise unless plans can be made in this order, of so many slices, with so many distractors."""
    if order not in ORDERS:
        raise BadChoice(
            f"expected an order among {', '.join(ORDERS)}, found {order!r}{nearest(order, list(ORDERS))}. "
            "Choose one of them."
        )
    if slices < 1:
        raise BadChoice(f"expected one slice or more, found {slices}. Give more.")
    if distractors is not None and distractors < 0:
        raise BadChoice(f"expected 0 distractors or more, found {distractors}. Give more, or none to keep all.")
    if distractors is not None and order in UNLABELLED:
        raise BadChoice(
            f"expected an order that knows which passages are distractors, found {order!r}, which reads no labels. "
            "Leave out --distractors, or choose another order."
        )


@dataclass
class PlanCount:
    """What the plans of one split add up to."""

    questions: int = 0
    passages: int = 0
    supports: int = 0
    empty_slices: list[int] = field(default_factory=list)  # by depth, from 1
    proxy_depths: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0, 3: 0})
    planned_retrievals: int = 0  # of the adaptive proxy

    def add(self, planned: Plan) -> None:
        """Count one plan."""
        self.questions += 1
        self.passages += sum(map(len, planned.slices))
        self.supports += sum(planned.question.passages[place].supporting for place in chain(*planned.slices))
        self.empty_slices += [0] * (len(planned.slices) - len(self.empty_slices))
        for place, slice_ in enumerate(planned.slices):
            self.empty_slices[place] += not slice_
        depth = proxy_depth(planned.question.text)
        self.proxy_depths[depth] += 1
        self.planned_retrievals += min(depth, len(planned.slices))

    @property
    def mean_retrievals(self) -> float | None:
        """Planned retrievals of the adaptive proxy, a question."""
        return self.planned_retrievals / self.questions if self.questions else None

    def as_json(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "questions": self.questions,
            "passages": self.passages,
            "supports": self.supports,
            "empty_slices": self.empty_slices,
            "proxy_depths": {str(depth): count for depth, count in self.proxy_depths.items()},
            "planned_retrievals": self.planned_retrievals,
            "mean_planned_retrievals": self.mean_retrievals,
        }
