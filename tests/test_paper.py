"""Every published number, from the reconstructions that ship and from the real questions where they are."""

import dataclasses

import pytest

from gatewise import calibrate, summarize
from gatewise.files import published, reconstruction
from gatewise.studies.paper import Check, checks

MODELS = ["mistral-small-2603", "gpt-oss-120b", "qwen3-235b-a22b-2507"]


@pytest.fixture(scope="module")
def summaries():
    found = {}
    for model in MODELS:
        traces = reconstruction(model)
        found[model] = summarize(traces.split("test"), calibrated=calibrate(traces))
    return found


def test_every_published_number_is_replayed(summaries):
    found = list(checks(published(), summaries))
    assert len(found) == 599
    assert [one for one in found if not one.ok] == []


def numbers_in(value):
    if isinstance(value, dict):
        return sum(numbers_in(item) for item in value.values())
    return sum(numbers_in(item) for item in value) if isinstance(value, list) else isinstance(value, int | float)


def test_no_published_number_is_left_out(summaries):
    numbers = published()
    total = numbers_in({name: numbers[name] for name in ("table", "oa_cost", "ece_pp", "top_bin_depth3")})
    total += numbers_in(numbers["risk_coverage"]) + numbers_in(numbers["transitions"])
    labels = sum(  # tau and budget say where a point stands; they are no results
        isinstance(row, dict) and (("tau" in row) + ("budget" in row))
        for series in (*numbers["risk_coverage"].values(), *numbers["oa_cost"].values())
        for points in series.values()
        for row in points
    )
    n_is_shared = len(MODELS) - 1  # 7,367 transitions: published once, checked for each model
    assert len(list(checks(numbers, summaries))) == total - labels + n_is_shared


@pytest.mark.parametrize("model", MODELS)
def test_each_calibrated_threshold_is_the_raw_cut_that_the_method_names(summaries, model):
    cuts = {
        "mistral-small-2603": {0.20: 0.80, 0.33: 0.90, 0.50: 0.95, 0.67: 0.95, 0.70: 0.95},
        "gpt-oss-120b": {0.20: 0.70, 0.80: 0.90},
        "qwen3-235b-a22b-2507": {0.50: 0.80, 0.67: 0.90, 0.70: 0.90},
    }[model]
    raw = {step.at: step.point for step in summaries[model].thresholds["raw"]}
    mapped = {step.at: step.point for step in summaries[model].thresholds["calibrated"]}
    for tau, cut in cuts.items():
        for name in ("committed", "correct", "cost"):
            assert getattr(mapped[tau], name) == getattr(raw[cut], name)


def test_a_wrong_replay_is_noticed(summaries):
    """The check must be able to fail: a map fitted on one data set gives other numbers."""
    model = "gpt-oss-120b"
    traces = reconstruction(model)
    one_sided = calibrate(traces.choose(datasets=["hotpotqa"]))
    wrong = {**summaries, model: summarize(traces.split("test"), calibrated=one_sided)}
    assert sum(not one.ok for one in checks(published(), wrong)) >= 7


def test_a_number_agrees_to_the_published_decimals_and_counts_exactly():
    one = Check("m", "x", 39.1, 39.149, 1)
    assert one.ok
    assert not dataclasses.replace(one, replayed=39.151).ok
    assert not dataclasses.replace(one, replayed=None).ok
    assert not Check("m", "n", 2457, 2456, 0).ok
