"""Every published number, from the reconstructions that ship and from the real questions where they are."""

import dataclasses
import os
from itertools import chain
from pathlib import Path

import pytest

import oracles
from gatewise import calibrate, summarize
from gatewise.files import published, read_rows, reconstruction
from gatewise.questions.plans import plan
from gatewise.questions.similarity import lexical
from gatewise.questions.splits import in_order
from gatewise.studies.paper import Check, checks, coordinates
from gatewise.studies.planning import Source
from gatewise.wording import proxy_depth

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


@pytest.fixture(scope="module")
def drawn():
    """The regenerated figures with the published coordinates over them, and the series by panel."""
    from gatewise.replays.findings import find
    from gatewise.reports.plots import accuracy_cost, risk_coverage

    found, over = [], coordinates(published())
    for model in MODELS:
        traces = reconstruction(model)
        found.append(find(traces.split("test"), calibrated=calibrate(traces)))
    figures = {
        "risk_coverage": risk_coverage(found, published=over["risk-coverage"]),
        "oa_cost": accuracy_cost(found, published=over["accuracy-cost"]),
    }
    return {
        (name, model): {line.get_gid(): line.get_xydata().tolist() for line in axes.get_lines() if line.get_gid()}
        for name, figure in figures.items()
        for model, axes in zip(MODELS, figure.axes, strict=True)
    }


BASELINES = ("parametric", "rag@1", "rag@2", "rag@3", "adaptive")


@pytest.mark.parametrize("model", MODELS)
def test_every_published_coordinate_lies_on_the_regenerated_curves(drawn, model):
    count = 0
    for name, x, y in (("risk_coverage", "coverage", "selective_risk"), ("oa_cost", "cost", "oa")):
        lines = drawn[name, model]
        for series, rows in published()[name][model].items():
            for place, row in enumerate(rows):
                score, at, _ = series.partition("@")
                if score == "baselines":
                    curves = [f"baseline-{row.get('system', BASELINES[place])}"]
                elif at:
                    curves = [f"gate-{score}", f"frontier-{score}", "frontier-raw"]
                elif name == "risk_coverage":
                    curves = [f"sampled-{score}", f"frontier-{score}", "frontier-raw"]
                else:
                    curves = [f"budgets-{score}"]
                for curve in curves:
                    near = [abs(a - row[x]) <= 5e-7 and abs(b - row[y]) <= 5e-7 for a, b in lines[curve]]
                    assert any(near), (series, row, curve)
                assert [row[x], row[y]] in lines["published"]
                count += 1
        assert len(lines["published"]) == sum(map(len, published()[name][model].values()))
    assert count > 30


def test_a_number_agrees_to_the_published_decimals_and_counts_exactly():
    one = Check("m", "x", 39.1, 39.149, 1)
    assert one.ok
    assert not dataclasses.replace(one, replayed=39.151).ok
    assert not dataclasses.replace(one, replayed=None).ok
    assert not Check("m", "n", 2457, 2456, 0).ok


# The real questions: rows of the public data sets, found through GATEWISE_DATA and never part of the project.

DATA = os.environ.get("GATEWISE_DATA")
real = pytest.mark.skipif(not DATA, reason="GATEWISE_DATA names no folder with the real questions")

ORDERED = {
    "hotpotqa": ("hotpot_dev_official_order.jsonl", 7405, (3702, 1851, 1852)),
    "musique": ("musique_ans_dev_official_order_noparagraphs.jsonl", 2417, (1208, 604, 605)),
}
FULL = {
    "hotpotqa": ("hotpot_dev_full_context_subset.jsonl", 1772),
    "musique": ("musique_ans_dev_full_subset.jsonl", 200),
}


@pytest.fixture(scope="module")
def ordered():
    return {name: list(read_rows(Path(DATA) / file)) for name, (file, _, _) in ORDERED.items()}


@real
def test_splits_have_the_published_sizes(ordered):
    for name, (_, rows, sizes) in ORDERED.items():
        splits = in_order(len(ordered[name]))
        assert len(splits) == rows
        assert tuple(splits.count(split) for split in ("calibration", "validation", "test")) == sizes


@real
def test_the_adaptive_proxy_plans_the_published_retrievals(ordered):
    depths = {}
    for name, rows in ordered.items():
        splits = in_order(len(rows))
        asked = [row["question"] for row, split in zip(rows, splits, strict=True) if split == "test"]
        depths[name] = [proxy_depth(question) for question in asked]
        assert depths[name] == [oracles.proxy_depth_of(question) for question in asked]
    assert [depths["hotpotqa"].count(depth) for depth in (1, 2, 3)] == [41, 1170, 641]
    assert [depths["musique"].count(depth) for depth in (1, 2, 3)] == [0, 73, 532]
    assert (sum(depths["hotpotqa"]), sum(depths["musique"])) == (4304, 1742)
    both = depths["hotpotqa"] + depths["musique"]
    assert sum(both) == 6046
    assert round(sum(both) / len(both), 6) == 2.460724


@real
def test_real_questions_have_the_supports_that_the_data_sets_promise(ordered):
    assert {len(set(row["supporting_fact_titles"])) for row in ordered["hotpotqa"]} == {2}
    hops = [len(row["question_decomposition"]) for row in ordered["musique"]]
    assert [hops.count(count) for count in (2, 3, 4)] == [1252, 760, 405]


@real
@pytest.mark.parametrize("name", FULL)
def test_every_full_context_row_is_planned_as_the_paper_does(name):
    file, rows = FULL[name]
    read = Source(Path(DATA) / file, name, name).questions()
    planned = [plan(question, [lexical(question.text, question.passages)]) for question in read]
    assert len(planned) == rows
    for one in planned:
        question = one.question
        assert sorted(chain(*one.slices)) == list(range(len(question.passages)))
        shown = [None] * len(question.passages)
        for place, slice_ in enumerate(one.slices):
            shown[place::3] = slice_
        supports, distractors = question.supports, question.distractors
        both = min(len(supports), len(distractors))
        assert tuple(shown[0 : 2 * both : 2]) == supports[:both]
        assert [place for place in shown if place in supports] == list(supports)
        passages = [{"title": p.title, "text": p.text, "supporting": p.supporting} for p in question.passages]
        scores = [oracles.lexical_of(question.text, passage) for passage in passages]
        assert list(map(list, one.slices)) == oracles.paper_slices(passages, [scores])
        if name == "hotpotqa":
            assert len(supports) == 2
    if name == "hotpotqa":
        assert sum(not one.slices[2] for one in planned) == 4  # two supports and no distractor
        assert {
            min(len(one.question.passages) for one in planned),
            max(len(one.question.passages) for one in planned),
        } == {2, 10}
    else:
        assert {len(one.question.passages) for one in planned} == {20}
        assert all(len(one.question.supports) == one.question.about["hops"] for one in planned)
        assert any(len(one.question.references) > 1 for one in planned)
