"""What the steps that ask nobody do, with states made up in the place of a recording."""

import hashlib
import json

import pytest

from gatewise.errors import BadChoice, Leak
from gatewise.files import read_map, read_plans, read_traces, write_traces
from gatewise.recordings.ledger import Ledger
from gatewise.replays.calibrators import Isotonic, IsotonicByDepth
from gatewise.replays.traces import Traces
from gatewise.studies.designs import read_design
from gatewise.studies.running import Outcome, Step, Work, run
from gatewise.studies.steps import code_digest, local_steps, plans_of
from server import Server, as_json

TEXT = """
[study]
name = "s"
[[data]]
dataset = "mine"
file = "mine.jsonl"
[[models]]
name = "m"
local = "x"
"""

ROWS = [
    {
        "id": f"q{n:02}",
        "question": f"Which river is number {n}?",
        "answers": [f"river {n}"],
        "passages": [
            {"title": "Hill", "text": "A hill."},
            {"title": f"River {n}", "text": f"It is number {n}.", "supporting": True},
            {"title": "Lake", "text": "Which lake is it?"},
        ],
    }
    for n in range(24)
]


def chance(*what):
    return hashlib.sha256(repr(what).encode()).digest()[0] / 255


def judged(work):
    """Write a trace table as a recording would, confidences and verdicts made up from the ids."""
    if work.dry_run:
        return Outcome(told=(f"{sum(plans_of(data, work)[0] for data in work.design.data)} verdicts",))
    written = []
    for model in work.design.models:
        rows = []
        for data in work.design.data:
            for plan in plans_of(data, work)[1]:
                for depth in range(plan.depths):
                    sure = round(chance(plan.question.id, depth), 2)
                    rows.append(
                        {
                            "trace_id": plan.question.id, "depth": depth, "confidence": sure,
                            "correct": chance("right", plan.question.id, depth) < sure, "model": model.name,
                            "dataset": data.dataset, "split": plan.question.split, "question": plan.question.text,
                        }
                    )  # fmt: skip
        path = work.design.traces_path(model)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_traces(Traces.from_columns({name: [row[name] for row in rows] for name in rows[0]}), path)
        written.append(path)
    return Outcome(tuple(written))


@pytest.fixture
def study(tmp_path):
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def go(more="", *, dry_run=False, own=None, **options):
        design = read_design(TEXT + more, tmp_path)
        warned = []
        work = Work(design, tmp_path / "cache", dry_run=dry_run, warn=warned.extend, **({"own": own} if own else {}))
        steps = {
            **local_steps(),
            "record": Step(lambda work: "", lambda work: Outcome()),
            "judge": Step(lambda work: work.design.judge.name, judged),
        }
        done = {one.step: one for one in run(work, steps, **options)}
        return design, done, warned

    return go


def how(done):
    return {name: one.how for name, one in done.items()}


def test_a_study_goes_from_questions_to_replays(study):
    design, done, _ = study()
    assert how(done) == dict.fromkeys(("plan", "record", "judge", "calibrate", "replay"), "done") | {
        "report": "absent"
    }
    header, plans = read_plans(design.plans_path(design.data[0]))
    assert [plan.question.id for plan in plans] == [row["id"] for row in ROWS]
    assert (header["splits"], header["limit"]) == (["calibration", "validation", "test"], None)
    fitted = read_map(design.map_path(design.models[0]))
    assert isinstance(fitted, Isotonic)
    assert fitted.fitted_on.n == 12
    found = json.loads(design.replay_path(design.models[0]).read_text())
    assert (found["schema"], found["settings"]["hi"]) == ("gatewise.replay/1", 0.7)
    assert found["systems"]["pooled"]["calibrated"]["n"] == 6
    assert [one.partition(":")[0] for one in done["replay"].told] == ["m, raw gate", "m, calibrated gate"]
    assert set(how(study()[1]).values()) == {"unchanged", "absent"}


def test_the_gate_that_is_replayed_is_the_one_that_the_study_names(study):
    design, done, _ = study(
        '[gates]\nlo = 0.1\nhi = 0.5\nbudget = 1\nthresholds = [0.25, 1]\nmap = "isotonic-by-depth"'
    )
    assert isinstance(read_map(design.map_path(design.models[0])), IsotonicByDepth)
    found = json.loads(design.replay_path(design.models[0]).read_text())
    assert {name: found["settings"][name] for name in ("lo", "hi", "budget")} == {"lo": 0.1, "hi": 0.5, "budget": 1}
    assert [step["tau"] for step in found["thresholds"]["raw"]] == [0.25, 1.0]
    again, done, _ = study("[gates]\nlo = 0.1\nhi = 0.6")
    assert [name for name, one in how(done).items() if one == "done"] == ["calibrate", "replay"]
    _, done, _ = study("[gates]\nlo = 0.2\nhi = 0.6")
    assert [name for name, one in how(done).items() if one == "done"] == ["replay"]
    assert isinstance(read_map(again.map_path(again.models[0])), Isotonic)


def test_without_a_map_only_the_raw_gate_is_replayed_whatever_an_earlier_run_left(study):
    study()
    design, done, _ = study('[gates]\nmap = "none"')
    assert not design.map_path(design.models[0]).exists()
    found = json.loads(design.replay_path(design.models[0]).read_text())
    assert found["map"] is None
    assert found["systems"]["pooled"]["calibrated"] is None
    assert done["calibrate"].told == ("no map is asked for",)


def test_splits_and_a_limit_leave_questions_out_and_move_none_to_another_split(study):
    design, _, _ = study()
    whole = {plan.question.id: plan.question.split for plan in read_plans(design.plans_path(design.data[0]))[1]}
    more = TEXT.replace('file = "mine.jsonl"', 'file = "mine.jsonl"\nsplits = ["calibration", "test"]\nlimit = 4')
    design = read_design(more, design.folder)
    work = Work(design, design.folder)
    (plan_done,) = run(work, local_steps(), only=["plan"])
    header, plans = read_plans(design.plans_path(design.data[0]))
    kept = {plan.question.id: plan.question.split for plan in plans}
    assert kept.items() <= whole.items()
    assert sorted(kept.values()) == ["calibration"] * 4 + ["test"] * 4
    assert (header["questions"], header["limit"]) == (8, 4)
    assert plan_done.told == ("mine: 8 questions, 16 left out",)


def test_a_changed_question_file_is_planned_again(study, tmp_path):
    study()
    path = tmp_path / "mine.jsonl"
    path.write_text(path.read_text().replace("A hill.", "A high hill."))
    _, done, _ = study()
    assert how(done)["plan"] == "done"


def test_a_similarity_of_your_own_is_known_by_its_code(study, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "ranks_for_study.py"
    module.write_text("def flat(question, passages):\n    return [0.0 for _ in passages]\n")

    def own(name, what, shape):
        import ranks_for_study

        return ranks_for_study.flat

    more = '[plan]\nsimilarity = "ranks_for_study:flat"'
    assert how(study(more, own=own)[1])["plan"] == "done"
    assert how(study(more, own=own)[1])["plan"] == "unchanged"
    module.write_text(module.read_text() + "# changed\n")
    assert how(study(more, own=own)[1])["plan"] == "done"
    assert code_digest(None) == code_digest(len) == ""


def test_vectors_of_an_endpoint_are_paid_for_once_and_stand_in_the_ledger_of_the_study(study):
    def answering(seen):
        return as_json(
            {"data": [{"index": n, "embedding": [len(text), 1.0]} for n, text in enumerate(seen.json["input"])]}
        )

    with Server() as server:
        server.on("/v1/embeddings", answering)
        more = f'[plan]\nsimilarity = "lexical+dense"\nembedder = "{server.url("/v1")}"'
        design, _, _ = study(more)
        asked, content = len(server.seen), design.plans_path(design.data[0]).read_bytes()
        assert asked > 0
        study(more, fresh=["plan"])
        assert len(server.seen) == asked
        assert design.plans_path(design.data[0]).read_bytes() == content
    with Ledger.open(design.ledger) as ledger:
        assert {entry.kind for entry in ledger.entries()} == {"embedding"}


def test_a_dry_run_makes_plans_by_words_alone_and_writes_none(study, tmp_path):
    design, done, _ = study('[plan]\nsimilarity = "dense"\nembedder = "http://127.0.0.1:9/v1"', dry_run=True)
    assert set(how(done).values()) == {"would run", "absent"}
    assert done["judge"].told == ("24 verdicts",)
    assert not design.out.exists()
    count, plans = plans_of(design.data[0], Work(design, tmp_path, dry_run=True))
    assert count == len(list(plans)) == len(ROWS)


def test_a_study_without_test_questions_says_so(study, tmp_path):
    path = tmp_path / "mine.jsonl"
    rows = [{**row, "fold": "calibration"} for row in ROWS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, done, _ = study('[plan]\nsplit = "column:fold"')
    assert done["replay"].told == ("m: no traces of split test, so no replay",)
    path.write_text(path.read_text().replace("calibration", "test"))
    _, done, _ = study('[plan]\nsplit = "column:fold"')
    assert "so no map" in done["calibrate"].told[0]
    assert [one.partition(":")[0] for one in done["replay"].told] == ["m, raw gate"]


def test_questions_in_several_splits_stop_a_replay_unless_that_is_asked_for(study, tmp_path):
    rows = [{**row, "question": "Which river?"} for row in ROWS]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(Leak):
        study()
    _, done, warned = study("[gates]\nallow_leak = true", fresh=["plan"])
    assert "more than one split" in warned[0]
    assert how(done)["replay"] == "done"


def test_the_reader_of_a_study_file_is_looked_for_where_the_command_line_looks(study):
    with pytest.raises(BadChoice, match="no way to look for functions of your own"):
        study('[plan]\nsimilarity = "mine:rank"')


def test_made_up_states_are_a_trace_table(study):
    design, _, _ = study()
    assert len(read_traces(design.traces_path(design.models[0]))) == len(ROWS)
