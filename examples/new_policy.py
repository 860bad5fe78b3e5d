"""A policy of one's own beside the gate: stop retrieving once evidence no longer raises the score.

python examples/new_policy.py
gatewise replay traces.parquet --policy examples.new_policy:stop_when_stuck
"""

import numpy as np
import numpy.typing as npt

from gatewise import Action, Threshold, View, measure, replay
from gatewise.files import reconstruction


def stop_when_stuck(view: View) -> npt.NDArray[np.int64]:
    """Return commit where the score is high, or did not rise with the last slice of evidence."""
    sure = view.score >= 0.7
    stuck = (view.depth > 0) & (view.scores[:, -1] <= view.scores[:, max(view.depth - 1, 0)])
    return np.where(sure | stuck | (view.retrievals_left == 0), Action.COMMIT, Action.RETRIEVE)


def main() -> None:
    """Print both policies' operating points."""
    test = reconstruction("gpt-oss-120b").split("test")
    for policy in (Threshold(), stop_when_stuck):
        point = measure(replay(test, policy))
        name = getattr(policy, "__name__", str(policy))
        print(f"{name:30}  OA {point.overall_accuracy:.3f}  cost {point.mean_cost:.2f}")


if __name__ == "__main__":
    main()
