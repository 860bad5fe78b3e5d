import numpy as np
import pytest
from hypothesis import given, settings

import strategies
from gatewise import calibrate, compare, ece, frontier, reliability, replay
from gatewise.replays.calibrators import fittable
from gatewise.replays.findings import find, wilson
from gatewise.replays.policies import Threshold


@given(strategies.tables())
@settings(max_examples=25)
def test_findings_are_what_each_function_says_alone(table):
    traces = strategies.traces(table)
    calibration = traces.split("calibration")
    phi = calibrate(traces) if fittable(calibration) else None
    part = traces.split("test")
    if not len(part):
        return
    found = find(part, calibrated=phi, calibration=calibration, allow_leak=True)
    assert found.depths == part.depths
    assert np.array_equal(found.frontiers["raw"].correct, frontier(part).correct)
    for depth in range(part.depths):
        column = part.confidence[:, depth], part.correct[:, depth]
        assert found.reliability["raw"][depth] == reliability(*column)
    assert (found.fitted is None) == (phi is None)
    if phi:
        first, second = replay(part, Threshold()), replay(part, Threshold(), score=phi)
        moved = sum(
            one.count
            for one in found.moves
            if (one.first.action, one.first.depth) != (one.second.action, one.second.depth)
        )
        assert moved == compare(first, second).moved
        assert sum(one.count for one in found.moves) == len(part)
    else:
        assert found.moves == ()


def test_bins_and_calibration_error_agree():
    traces = strategies.traces(
        [
            {
                "id": "a",
                "question": "Who?",
                "dataset": "x",
                "split": "test",
                "states": [{"confidence": 0.9, "correct": False, "cost": 0.0, "new": True}],
            }
        ]
    )
    found = find(traces)
    bins = [one for one in found.reliability["raw"][0] if one.n]
    assert [(one.n, one.mean_score, one.accuracy) for one in bins] == [(1, 0.9, 0.0)]
    assert found.summary.pooled.diagnoses["raw"].ece == [ece(np.array([0.9]), np.array([0]))]
    assert found.as_json()["moves"] == []


def test_wilson_holds_the_share_and_narrows_with_n():
    assert wilson(0.0, 1) == pytest.approx((0.0, 0.7935), abs=1e-4)  # 1 / (1 + z²) from above
    for n in (1, 5, 100, 10**6):
        for right in {0, n // 2, n}:
            low, high = wilson(right / n, n)
            assert 0 <= low <= right / n <= high <= 1
    assert wilson(0.5, 10**6)[1] - wilson(0.5, 10**6)[0] < wilson(0.5, 100)[1] - wilson(0.5, 100)[0]
