"""The commands over whole studies as a user meets them."""

import sys

import pytest

from gatewise.cli import main

STUDY = '[study]\nname = "s"\n[[data]]\ndataset = "worldfacts"\nlimit = 3\n[[models]]\nname = "m"\nlocal = "x"\n'


@pytest.fixture
def gatewise(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATEWISE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "study.toml").write_text(STUDY)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gatewise", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


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
