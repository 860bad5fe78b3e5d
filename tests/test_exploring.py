"""The command that serves the page, run and looked at as people do."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest

from browser import Shown, opened
from gatewise import BadChoice, Leak, Threshold, Traces, calibrate, measure, replay
from gatewise.files import read_traces, write_plans, write_traces
from gatewise.studies.exploring import look_up
from gatewise.types import Passage, Plan, Question


def table(n, seed=0):
    chance = np.random.default_rng(seed)
    ids = [f"q{place:05}" for place in range(n)]
    return {
        "trace_id": np.repeat(ids, 3).tolist(),
        "depth": np.tile([0, 1, 2], n).tolist(),
        "confidence": (chance.integers(0, 101, 3 * n) / 100).tolist(),
        "correct": (chance.random(3 * n) < 0.6).tolist(),
        "question": np.repeat([f"What is {id_}?" for id_ in ids], 3).tolist(),
        "answer": chance.choice(["yes", "no", "<b>perhaps</b>"], 3 * n).tolist(),
        "dataset": np.repeat(chance.choice(["one", "two"], n), 3).tolist(),
        "split": np.repeat(np.where(np.arange(n) % 4 == 0, "calibration", "test"), 3).tolist(),
    }


@contextmanager
def exploring(*arguments):
    """The command, running; gives its address and the process."""
    environment = {**os.environ, "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-m", "gatewise", "explore", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    process = subprocess.Popen(command, **pipes)
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()


def got(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=20) as reply:
        return reply.read()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("explore")
    traces = Traces.from_columns(table(4000))
    write_traces(traces, path / "traces.parquet")
    passages = (Passage("One", "first", True), Passage("Two", "second"))
    named = zip(traces.ids[:500], traces.datasets[:500], strict=True)
    plans = [Plan(Question(id_, "?", ("a",), passages, dataset=name), ((0,), (1,))) for id_, name in named]
    write_plans({"questions": len(plans)}, plans, path / "plans.jsonl")
    return path


def test_the_served_page_shows_what_the_library_says_and_fetches_rows_as_they_are_wanted(folder):
    path = folder / "traces.parquet"
    with opened() as browser, exploring(path, "--plans", folder / "plans.jsonl") as (address, process):
        traces = read_traces(path)
        score, part = calibrate(traces), traces.split("test")
        shown = Shown(browser, f"{address}#hi=0.6&budget=1&by=dataset&is=two", offline=False)
        shown.until("gatewise.counts() !== null")
        among = part.datasets == "two"
        for name, by in (("raw", None), ("calibrated", score)):
            point = measure(replay(part, Threshold(hi=0.6), score=by, budget=1), among=among)
            assert float(shown.value(name, "overall_accuracy")) == point.overall_accuracy
            assert float(shown.value(name, "mean_cost")) == point.mean_cost
            assert shown.look("gatewise.counts().by")[name][3:] == [point.abstained, point.escalated]
        size = int(among.sum())
        assert shown.tab.inner_text("#shown") == f"{size:,}"
        shown.tab.focus("#grid")
        shown.tab.keyboard.press("End")
        last = part.ids[among][-1]
        shown.until(f"document.querySelector('#rows .active .id')?.textContent === '{last}'")
        shown.tab.fill("#find", "Q00003")
        shown.until("document.querySelectorAll('#rows .id').length === 1 || document.querySelector('#rows p')")
        shown.tab.select_option("#column", value="-1")
        shown.until("document.querySelectorAll('#rows .id').length === 1")
        shown.tab.click("#rows .id")
        shown.until("document.querySelectorAll('#walk > li').length === 3")
        shown.tab.click("#walk details summary")
        assert shown.tab.inner_text("#walk details[open] h4") == "One supports the answer"
        shown.tab.fill("#hi-number", "0")
        shown.until("document.querySelector('#walk .stop').textContent.includes('≥ 0')")
        assert shown.complaints == []
        assert all(url.startswith(address) for url in shown.requests)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        shown.tab.fill("#hi-number", "0.5")
        shown.tab.wait_for_selector("#trouble:not([hidden])")
        assert "explore still running" in shown.tab.inner_text("#trouble")


def test_the_command_says_its_address_alone_and_answers_this_machine_alone(folder):
    with exploring(folder / "traces.parquet", "--model", "none") as (address, process):
        assert address == ""
        assert process.wait(20) == 2
    with exploring(folder / "traces.parquet", "--split", "calibration", "--allow-leak") as (address, _):
        assert address.startswith("http://127.0.0.1:")
        found = json.loads(got(f"{address}rows?most=2"))
        assert (found["total"], len(found["rows"])) == (1000, 2)


def test_each_model_has_a_lookup_with_the_map_that_was_fitted_on_it():
    both = {name: values * 2 for name, values in table(40).items()} | {"model": ["m"] * 120 + ["n"] * 120}
    traces = Traces.from_columns(both)
    books, warnings = look_up(traces)
    assert [(book.model, len(book.traces), list(book.maps)) for book in books] == [
        ("m", 30, ["raw", "calibrated"]),
        ("n", 30, ["raw", "calibrated"]),
    ]
    assert warnings == []
    maps = [calibrate(traces.choose([model])) for model in ("n", "m")]
    books, _ = look_up(traces, maps=maps)
    assert [book.maps["calibrated"] for book in books] == maps[::-1]
    with pytest.raises(Leak):
        look_up(traces, split="calibration")
    assert len(look_up(traces, split="calibration", allow_leak=True)[0]) == 2
    with pytest.raises(BadChoice, match="validation"):
        look_up(traces, split="validation")


def test_a_model_without_traces_of_the_split_or_without_a_map_is_said():
    split = ["test"] * 120 + ["calibration"] * 120
    both = {name: values * 2 for name, values in table(40).items()} | {"model": ["m"] * 120 + ["n"] * 120}
    books, warnings = look_up(Traces.from_columns({**both, "split": split}))
    assert [(book.model, list(book.maps)) for book in books] == [("m", ["raw"])]
    assert warnings == [
        "m: no calibration split and no --map: only the raw score is replayed.",
        "n: no traces of split test: it is left out.",
    ]
