import dataclasses

import pytest

from gatewise import BadChoice, Isotonic, Traces, calibrate
from gatewise.studies.choosing import map_for, map_of_model, part_of

COLUMNS = {
    "trace_id": ["a", "b"],
    "depth": [0, 0],
    "confidence": [0.4, 0.9],
    "correct": [False, True],
    "split": ["calibration", "test"],
    "model": ["m", "m"],
}


def test_a_split_that_is_not_there_is_refused_with_those_that_are():
    traces = Traces.from_columns(COLUMNS)
    assert part_of(traces, "test").ids.tolist() == ["b"]
    with pytest.raises(BadChoice, match="found only calibration, test"):
        part_of(traces, "validation")


def test_a_map_is_the_one_given_or_fitted_here_or_none_with_its_reason():
    traces = Traces.from_columns(COLUMNS)
    given = Isotonic((0.5,), (0.5,))
    assert map_for(traces, given) == (given, "")
    assert map_for(traces)[0] == calibrate(traces)
    fitted, reason = map_for(traces.split("test"))
    assert fitted is None
    assert "no calibration split" in reason


def test_each_model_takes_the_map_that_was_fitted_on_it():
    ours = calibrate(Traces.from_columns(COLUMNS))
    theirs = dataclasses.replace(ours, fitted_on=dataclasses.replace(ours.fitted_on, models=("k",)))
    nameless = dataclasses.replace(ours, fitted_on=dataclasses.replace(ours.fitted_on, models=()))
    assert map_of_model([ours, theirs, nameless], "m", several=True) is ours
    assert map_of_model([ours, theirs, nameless], None, several=True) is nameless
    assert map_of_model([theirs], "m", several=False) is theirs  # and a warning says so
    with pytest.raises(BadChoice, match="fitted on model 'm', found 0"):
        map_of_model([theirs], "m", several=True)
    with pytest.raises(BadChoice, match="found 2"):
        map_of_model([ours, ours], "m", several=True)
