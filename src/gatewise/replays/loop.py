"""replay: a policy walks recorded states. The heart, on one screen."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gatewise.errors import BadChoice, BadPolicy, GatewiseError, raised
from gatewise.replays.arrays import UNKNOWN, Bools, Floats, Ints, Labels
from gatewise.replays.calibrators import Raw, Score
from gatewise.replays.policies import Policy, View
from gatewise.replays.traces import Traces
from gatewise.types import Action

UNLIMITED = 2**31  # retrievals that no trace has, for policies that set their own depth


@dataclass(frozen=True, eq=False)
class Episodes:
    """How one policy walked every trace: where it stopped and what it did there; arrays of shape (n,)."""

    traces: Traces
    action: npt.NDArray[np.int8]
    depth: Ints

    @property
    def committed(self) -> Bools:
        """Which episodes answered."""
        committed: Bools = np.equal(self.action, Action.COMMIT)
        return committed

    @property
    def correct(self) -> Labels:
        """The label of each answer given: 1 right, 0 wrong, -1 no verdict or no answer."""
        stopped = self.traces.correct[np.arange(len(self.depth)), self.depth]
        return np.where(self.committed, stopped, UNKNOWN).astype(np.int8)

    @property
    def paid(self) -> Bools:
        """Which depths were reached and paid for, shape (n, depths)."""
        paid: Bools = np.less_equal(np.arange(self.traces.depths), self.depth[:, None])
        return paid


def replay(traces: Traces, policy: Policy, *, score: Score | None = None, budget: int = 3) -> Episodes:
    """Walk every trace with a policy and return where each episode stopped, and how.

    Nothing is asked, judged or retrieved: the states are fixed, so two policies replayed over the same traces
    differ by their rules alone. `score` maps confidence to what the policy sees (default: the confidence
    itself); `budget` is the largest number of retrievals.

    >>> from gatewise.replays.policies import Threshold
    >>> t = Traces.from_columns(
    ...     {"trace_id": ["a", "a"], "depth": [0, 1], "confidence": [0.4, 0.9], "correct": [False, True]})
    >>> e = replay(t, Threshold(lo=0.3, hi=0.7))
    >>> e.action.tolist(), e.depth.tolist(), e.correct.tolist()
    ([0], [1], [1])
    """
    if budget < 0:
        raise BadChoice(f"expected a budget of 0 or more retrievals, found {budget}. Choose another.")
    score, budget = score or Raw(), min(budget, UNLIMITED)
    n = len(traces)
    action = np.full(n, Action.ESCALATE, np.int8)
    stopped_at = np.zeros(n, np.int64)
    cost = np.zeros(n)
    scores: list[Floats] = []
    going = np.arange(n)
    for depth in range(min(budget + 1, traces.depths)):
        scores.append(np.asarray(score(traces.confidence[:, depth], depth), np.float64))
        cost[going] += traces.cost[going, depth]
        ends = traces.lengths[going] == depth + 1
        view = View(
            depth=depth,
            scores=np.stack([column[going] for column in scores], axis=1),
            signals={name: block[going, : depth + 1] for name, block in traces.signals.items()},
            retrievals_left=np.where(ends, 0, budget - depth),
            cost=cost[going],
            question=traces.questions[going],
            dataset=traces.datasets[going],
            model=traces.models[going],
        )
        chosen = _checked(policy, view)
        action[going] = chosen
        stopped_at[going] = depth
        going = going[chosen == Action.RETRIEVE]
        if not len(going):
            break
    return Episodes(traces, action, stopped_at)


def _checked(policy: Policy, view: View) -> npt.NDArray[np.int8]:
    name = getattr(policy, "__name__", type(policy).__name__)
    try:
        answer = np.asarray(policy(view))
    except GatewiseError:
        raise
    except (Exception, SystemExit) as error:
        raise BadPolicy(
            f"expected actions from policy {name} at depth {view.depth}, found {raised(error)}. Mend the policy."
        ) from error
    if answer.shape != (len(view),) or answer.dtype.kind not in "iu" or not np.isin(answer, list(Action)).all():
        raise BadPolicy(
            f"expected {len(view):,} actions from policy {name} at depth {view.depth} (0 commit, 1 retrieve, "
            f"2 abstain, 3 escalate), found shape {answer.shape} of {answer.dtype}. Return one Action an episode."
        )
    if ((answer == Action.RETRIEVE) & (view.retrievals_left == 0)).any():
        raise BadPolicy(
            f"expected policy {name} to stop where no retrieval is left, found that it retrieves at depth "
            f"{view.depth}. Look at view.retrievals_left."
        )
    return answer.astype(np.int8)
