import json

from gatewise.studies.closing import closing_steps
from gatewise.studies.designs import read_design
from gatewise.studies.running import Outcome, Step, Work, run
from gatewise.studies.steps import local_steps
from test_steps import ROWS, TEXT, judged


def go(folder, more="", **options):
    (folder / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    design = read_design(TEXT + more, folder)
    steps = {
        **local_steps(),
        "record": Step(lambda work: "", lambda work: Outcome()),
        "judge": Step(lambda work: work.design.judge.name, judged),
        **closing_steps(),
    }
    warned = []
    work = Work(design, folder / "cache", warn=warned.extend)
    return design, {one.step: one for one in run(work, steps, **options)}, warned


def test_a_study_ends_in_its_report_which_is_written_once(tmp_path, monkeypatch):
    monkeypatch.setattr("gatewise.studies.closing._can_draw", lambda: False)
    design, done, _ = go(tmp_path)
    folder = design.report_folder
    numbers = json.loads((folder / "numbers.json").read_text())
    replayed = json.loads(design.replay_path(design.models[0]).read_text())
    assert numbers["models"][0]["summary"] == replayed
    assert done["report"].told == (
        f"open {folder / 'index.html'}",
        "without figures: install gatewise[plots] for them",
    )
    assert (folder / "index.html").is_file()
    assert {one.how for one in go(tmp_path)[1].values()} == {"unchanged"}
    _, done, _ = go(tmp_path, '[gates]\nhi = 0.9\n[report]\nplans = false\nout = "elsewhere"')
    assert done["report"].how == "done"
    assert json.loads((tmp_path / "elsewhere" / "numbers.json").read_text())["settings"]["hi"] == 0.9


def test_a_study_without_a_map_reports_the_raw_gate_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("gatewise.studies.closing._can_draw", lambda: False)
    design, _, _ = go(tmp_path, '[gates]\nmap = "none"')
    numbers = json.loads((design.report_folder / "numbers.json").read_text())
    assert numbers["models"][0]["summary"]["map"] is None
    assert "comparison" not in numbers["tables"]


def test_a_study_without_test_questions_has_no_report(tmp_path):
    more = 'splits = ["calibration"]\n'
    text = TEXT.replace('file = "mine.jsonl"\n', f'file = "mine.jsonl"\n{more}')
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    design = read_design(text, tmp_path)
    steps = {
        **local_steps(),
        "record": Step(lambda work: "", lambda work: Outcome()),
        "judge": Step(lambda work: work.design.judge.name, judged),
        **closing_steps(),
    }
    done = {one.step: one for one in run(Work(design, tmp_path / "cache"), steps)}
    assert done["report"].told == ("no traces of split test, so no report",)
    assert not design.report_folder.exists()
