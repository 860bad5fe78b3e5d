"""The order of steps, and which of them are done again; what the steps do is in test_steps."""

import json
from pathlib import Path

import pytest

from gatewise.errors import BadChoice, BrokenFile
from gatewise.studies.designs import read_design
from gatewise.studies.running import (
    AFTER,
    STEPS,
    Noted,
    Outcome,
    State,
    Step,
    Work,
    read_state,
    run,
    state_path,
    write_state,
)

TEXT = '[study]\nname = "s"\n[[data]]\ndataset = "worldfacts"\n[[models]]\nname = "m"\nlocal = "x"\n'


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


class Study:
    """A study whose steps write down that they ran; what each reads and writes can be changed."""

    def __init__(self, folder):
        self.design = read_design(TEXT, folder)
        self.reads = dict.fromkeys(STEPS, "")
        self.writes = dict.fromkeys(STEPS, "")
        self.ran = []
        self.complete = True

    def steps(self):
        def act(name):
            def inner(work):
                self.ran.append((name, work.dry_run, work.fresh))
                if work.dry_run:
                    return Outcome(told=(f"{name} would ask",))
                path = self.design.out / f"{name}.txt"
                path.write_text(self.writes[name])
                return Outcome((path,), (f"{name} told",), complete=self.complete)

            return inner

        return {name: Step(lambda work, one=name: self.reads[one], act(name)) for name in STEPS}

    def run(self, *, steps=None, dry_run=False, **options):
        self.ran = []
        work = Work(self.design, Path("/nowhere"), dry_run=dry_run)
        return {done.step: done.how for done in run(work, steps or self.steps(), **options)}


def test_steps_are_done_in_order_once(study):
    assert list(study.run().values()) == ["done"] * 6
    assert [name for name, _, _ in study.ran] == list(STEPS)
    assert list(study.run().values()) == ["unchanged"] * 6
    assert study.ran == []


def test_a_step_whose_part_of_the_design_changed_is_done_again_and_what_follows_from_it(study):
    study.run()
    study.reads["judge"] = "another judge"
    study.writes["judge"] = "other verdicts"
    found = study.run()
    assert found == {
        "plan": "unchanged", "record": "unchanged", "judge": "done", "calibrate": "done", "replay": "done",
        "report": "done",
    }  # fmt: skip


def test_a_step_that_wrote_the_same_bytes_makes_no_later_one_run(study):
    study.run()
    study.reads["record"] = "another limit"
    found = study.run()
    assert [name for name, how in found.items() if how == "done"] == ["record"]


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_text("changed by hand")])
def test_a_file_that_is_gone_or_changed_is_made_again(study, damage):
    study.run()
    damage(study.design.out / "record.txt")
    found = study.run()
    assert [name for name, how in found.items() if how == "done"] == ["record"]


def test_a_fresh_step_is_done_again_and_told_so(study):
    study.run()
    found = study.run(fresh=["record"])
    assert [name for name, how in found.items() if how == "done"] == ["record"]
    assert study.ran == [("record", False, True)]


def test_what_stopped_is_not_noted_and_nothing_runs_after_it(study):
    study.complete = False
    assert study.run() == {"plan": "stopped"}
    study.complete = True
    assert list(study.run().values()) == ["done"] * 6


@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenFile])
def test_a_step_that_fails_is_done_again_and_those_before_it_are_not(study, error):
    steps = study.steps()

    def fail(work):
        raise error("no")

    with pytest.raises(error):
        study.run(steps={**steps, "judge": Step(lambda work: "", fail)})
    found = study.run()
    assert [name for name, how in found.items() if how == "unchanged"] == ["plan", "record"]


def test_a_failure_forgets_that_the_step_was_ever_done(study):
    study.run()
    steps = study.steps()

    def fail(work):
        (study.design.out / "judge.txt").write_text("half")
        raise BrokenFile("no")

    study.reads["judge"] = "new"
    with pytest.raises(BrokenFile):
        study.run(steps={**steps, "judge": Step(lambda work: "new", fail)})
    study.reads["judge"] = ""
    assert study.run()["judge"] == "done"


def test_a_dry_run_changes_nothing_and_asks_the_asking_steps(study):
    found = study.run(dry_run=True)
    assert list(found.values()) == ["would run"] * 6
    assert study.ran == [("record", True, False), ("judge", True, False)]
    assert not study.design.out.exists()
    study.run()
    assert list(study.run(dry_run=True).values()) == ["unchanged"] * 6
    study.reads["record"] = "more"
    before = state_path(study.design).read_bytes()
    found = study.run(dry_run=True)
    assert [found[name] for name in STEPS] == ["unchanged", *["would run"] * 5]
    assert study.run(dry_run=True, fresh=["replay"])["replay"] == "would run"
    assert state_path(study.design).read_bytes() == before


def test_one_step_is_done_alone_once_those_before_it_are(study):
    with pytest.raises(BadChoice, match="expected step plan to be done before record"):
        study.run(only=["record"])
    study.run(only=["plan"])
    assert study.run(only=["record"]) == {"record": "done"}


def test_a_step_that_nobody_built_is_passed_over(study):
    steps = {name: step for name, step in study.steps().items() if name != "report"}
    assert study.run(steps=steps)["report"] == "absent"


@pytest.mark.parametrize("option", ["fresh", "only"])
def test_a_step_that_is_none_is_refused(study, option):
    with pytest.raises(BadChoice, match=r"did you mean replay\?"):
        study.run(**{option: ["repaly"]})


def test_the_folder_of_a_study_may_move(study, tmp_path):
    study.run()
    (tmp_path / "elsewhere").mkdir()
    study.design.out.rename(tmp_path / "elsewhere" / "s")
    study.design = read_design(TEXT, tmp_path / "elsewhere")
    assert list(study.run().values()) == ["unchanged"] * 6


def test_a_state_is_the_same_when_read_back(tmp_path):
    state = State({"plan": Noted("abc", {"plans/x.jsonl": "def"})})
    write_state(state, tmp_path / "state.json")
    assert read_state(tmp_path / "state.json") == state
    assert json.loads((tmp_path / "state.json").read_text())["schema"] == "gatewise.study/1"
    assert read_state(tmp_path / "none.json") == State()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"schema": "other"}', b'{"schema": "gatewise.study/1", "steps": 3}', b"\xff\xfe"],
)
def test_a_broken_state_is_refused_with_what_to_do(study, content):
    study.design.out.mkdir()
    state_path(study.design).write_bytes(content)
    with pytest.raises(BrokenFile, match="Remove it: every step then runs again"):
        study.run()


def test_every_step_follows_those_it_reads():
    assert set(AFTER) == set(STEPS)
    for name, earlier in AFTER.items():
        assert all(STEPS.index(one) < STEPS.index(name) for one in earlier)
