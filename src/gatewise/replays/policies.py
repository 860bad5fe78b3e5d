"""Policies: what a controller may know → what it does.

A policy is any callable `View -> array of Action`, one action for each episode in the view. It never sees a
label, a split or a later depth, so none of them can move it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gatewise.errors import BadChoice
from gatewise.replays.arrays import Floats, Ints, Texts
from gatewise.types import Action
from gatewise.wording import proxy_depth


@dataclass(frozen=True, eq=False)
class View:
    """What a controller may know at one depth, for the m episodes still going on.

    Scores and signals cover the depths up to this one; NaN stands where no confidence could be read.
    """

    depth: int
    scores: Floats  # (m, depth + 1)
    signals: Mapping[str, Floats]  # name → (m, depth + 1)
    retrievals_left: Ints  # (m,): what the budget still allows, 0 at the end of a trace
    cost: Floats  # (m,): paid so far
    question: Texts
    dataset: Texts
    model: Texts

    @property
    def score(self) -> Floats:
        """The scores at this depth, shape (m,)."""
        return self.scores[:, self.depth]

    def __len__(self) -> int:
        return len(self.cost)


Policy = Callable[[View], npt.NDArray[Any]]


@dataclass(frozen=True)
class Threshold:
    """The gate of the paper: commit at `hi` or above, else go on, and at the end abstain at `lo` or below.

    A score that could not be read never commits and never abstains: the episode goes on, or escalates.
    """

    lo: float = 0.3
    hi: float = 0.7

    def __post_init__(self) -> None:
        if not self.lo <= self.hi:
            raise BadChoice(f"expected lo ≤ hi, found lo {self.lo} and hi {self.hi}. Swap or change them.")

    def __call__(self, view: View) -> npt.NDArray[Any]:
        """Return what the gate does with each episode."""
        at_end = np.where(view.score <= self.lo, Action.ABSTAIN, Action.ESCALATE)
        otherwise = np.where(view.retrievals_left > 0, Action.RETRIEVE, at_end)
        return np.where(view.score >= self.hi, Action.COMMIT, otherwise)


@dataclass(frozen=True)
class FixedDepth:
    """Commit at one depth, whatever the confidence; where evidence ends before it, commit there."""

    depth: int

    def __call__(self, view: View) -> npt.NDArray[Any]:
        """Return retrieve above that depth, commit at it."""
        done = (view.retrievals_left == 0) | (view.depth >= self.depth)
        return np.where(done, Action.COMMIT, Action.RETRIEVE)


@dataclass(frozen=True)
class Adaptive:
    """The adaptive proxy: commit at a depth that the wording of the question alone decides."""

    def __call__(self, view: View) -> npt.NDArray[Any]:
        """Return retrieve above the depth that each question asks for, commit at it."""
        texts = view.question.tolist()
        if any(not has_words(text) for text in texts):
            raise BadChoice("expected the question of every trace, found none for some. Add a question column.")
        wanted = np.array([proxy_depth(text) for text in texts], np.int64)
        done = (view.retrievals_left == 0) | (view.depth >= wanted)
        return np.where(done, Action.COMMIT, Action.RETRIEVE)


def has_words(question: str | None) -> bool:
    """Tell whether there is a question to read."""
    return bool(question and question.strip())


BASELINES: dict[str, Policy] = {
    "parametric": FixedDepth(0),
    "rag@1": FixedDepth(1),
    "rag@2": FixedDepth(2),
    "rag@3": FixedDepth(3),
    "adaptive": Adaptive(),
}
