import pytest

from gatewise.replays.comparisons import Move, Outcome
from gatewise.reports.flows import FATES, fate
from gatewise.types import Action

RIGHT, WRONG, UNJUDGED = (Outcome(Action.COMMIT, 1, verdict) for verdict in (True, False, None))
ABSTAINED, ESCALATED = Outcome(Action.ABSTAIN, 3, None), Outcome(Action.ESCALATE, 3, None)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (RIGHT, RIGHT, "right under both"),
        (RIGHT, WRONG, "right only when raw"),
        (RIGHT, ESCALATED, "right only when raw"),
        (ABSTAINED, RIGHT, "right only when calibrated"),
        (WRONG, RIGHT, "right only when calibrated"),
        (WRONG, ABSTAINED, "wrong answer withheld"),
        (ESCALATED, WRONG, "wrong answer added"),
        (WRONG, WRONG, "wrong or none under both"),
        (ABSTAINED, ESCALATED, "wrong or none under both"),
        (UNJUDGED, RIGHT, "no verdict"),
        (ABSTAINED, UNJUDGED, "no verdict"),
    ],
)
def test_what_became_of_an_episode(first, second, expected):
    assert fate(Move(first, second, 1)) == expected
    assert expected in FATES
