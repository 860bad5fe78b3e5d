"""The commands over whole studies as a user meets them."""

import json

import pytest

STUDY = '[study]\nname = "s"\n[[data]]\ndataset = "worldfacts"\nlimit = 3\n[[models]]\nname = "m"\nlocal = "x"\n'


@pytest.fixture
def gatewise(capfd, command_line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATEWISE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "study.toml").write_text(STUDY)
    return command_line(capfd.readouterr)


def test_a_study_file_that_breaks_its_rules_is_one_message(gatewise, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY + "[plan]\nslises = 3\n")
    code, out, err = gatewise("run", "study.toml")
    assert (code, out) == (2, "")
    assert "line 10, [plan] slises: no such key (did you mean slices?)" in err
    code, _, err = gatewise("run", "none.toml")
    assert (code, "expected a study file at none.toml" in err) == (2, True)
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe")
    code, _, err = gatewise("run", "study.toml")
    assert (code, "expected UTF-8 text" in err) == (2, True)


def test_a_step_that_is_none_is_refused(gatewise):
    code, _, err = gatewise("run", "study.toml", "--fresh", "plans")
    assert (code, "did you mean plan?" in err) == (2, True)


def test_a_dry_run_says_what_would_run_and_changes_nothing(gatewise, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY.replace('local = "x"', 'url = "http://127.0.0.1:9/v1"\nmodel = "x"'))
    code, out, _ = gatewise("run", "study.toml", "--dry-run", "--json")
    found = json.loads(out)
    assert (code, found["schema"], found["study"], found["dry_run"]) == (0, "gatewise.run/1", "s", True)
    assert [one["step"] for one in found["steps"]] == ["plan", "record", "judge", "calibrate", "replay", "report"]
    assert {one["how"] for one in found["steps"]} <= {"would run", "absent"}
    assert not (tmp_path / "s").exists()
    code, out, _ = gatewise("run", "study.toml", "--dry-run")
    assert (code, out.splitlines()[0]) == (0, "plan       would run")
