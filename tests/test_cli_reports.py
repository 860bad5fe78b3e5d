"""`gatewise report`: one folder, written safely, whose forms agree."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from gatewise.files.bundled import DATA
from gatewise.studies import reporting
from test_cli_replays import GOOD, as_json, traces  # noqa: F401 -- a fixture

GPT = DATA / "reconstructions" / "gpt-oss-120b.parquet"


@pytest.fixture
def report(gatewise, tmp_path):
    def run(*arguments, folder=tmp_path / "report"):
        return gatewise("report", *arguments, "-o", folder), folder

    return run


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_a_report_holds_what_its_numbers_list_and_json_prints_those_numbers(report, monkeypatch):
    monkeypatch.setattr(reporting, "KINDS", ("png",))  # the other kinds take their time
    result, folder = report(GPT, "--json")
    printed = as_json(result)
    assert printed == json.loads((folder / "numbers.json").read_text())
    assert printed["files"] == sorted(contents(folder))
    assert {"README.md", "index.html", "figures/risk-coverage-column.png", "tables/main.tex"} <= set(printed["files"])
    assert printed["models"][0]["model"] == "gpt-oss-120b"
    listed = (folder / "README.md").read_text()
    for name in printed["files"]:
        if name.endswith((".md", ".png", ".html")) and "-column" not in name and name != "README.md":
            assert f"({name})" in listed


def test_numbers_agree_with_replay_and_with_the_csv_on_every_digit(report, gatewise):
    result, folder = report(GPT, "--no-figures", "--by", "dataset", "--json")
    printed = as_json(result)
    assert printed["models"][0]["summary"] == as_json(gatewise("replay", GPT, "--by", "dataset", "--json"))
    gatewise("frontier", GPT, "-o", folder / "alone.csv")
    alone = (folder / "alone.csv").read_text().splitlines()
    listed = (folder / "tables" / "frontier.csv").read_text().splitlines()
    assert listed == [f"model,{alone[0]}", *(f"gpt-oss-120b,{line}" for line in alone[1:])]
    for name, table in printed["tables"].items():
        rows = list(csv.reader((folder / "tables" / f"{name}.csv").read_text().splitlines()))
        assert rows[0] == table["columns"]
        for row, values in zip(rows[1:], table["rows"], strict=True):
            for field, value in zip(row, values, strict=True):
                if isinstance(value, int | float):
                    assert float(field) == value
                else:
                    assert field == (value or "")


def test_a_second_report_is_the_same_and_leaves_other_files_alone(report):
    (_, out, _), folder = report(GPT, "--no-figures")
    before = contents(folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "tables" / "other.csv").write_text("mine")
    report(GPT, "--no-figures")
    assert contents(folder) == {**before, "notes.txt": b"mine", "tables/other.csv": b"mine"}
    assert f"open {folder / 'index.html'}" in out


def test_several_models_stand_side_by_side_and_take_their_own_maps(report, gatewise, tmp_path):
    others = [DATA / "reconstructions" / f"{name}.parquet" for name in ("mistral-small-2603", "qwen3-235b-a22b-2507")]
    fitted = as_json(report(GPT, *others, "--no-figures", "--json")[0])
    assert [one["model"] for one in fitted["models"]] == sorted(one["model"] for one in fitted["models"])
    maps = []
    for path in (*others, GPT):
        maps += ["--map", tmp_path / f"{path.stem}.json"]
        gatewise("calibrate", path, "-o", maps[-1])
    given = as_json(report(GPT, *others, *maps, "--no-figures", "--json")[0])
    assert given["tables"] == fitted["tables"]
    (code, _, err), _ = report(GPT, *others, *maps[:2], "--no-figures")
    assert code == 2
    assert "Give one map for each model" in err


def test_the_gate_and_the_selection_are_those_asked_for(report):
    result, _ = report(GPT, "--no-figures", "--json", "--hi", "0.9", "--budget", "1", "--dataset", "musique")
    printed = as_json(result)
    assert printed["settings"] == {"lo": 0.3, "hi": 0.9, "budget": 1, "split": "test", "by": None}
    assert {row[1] for row in printed["tables"]["main"]["rows"]} == {"musique"}


def test_traces_without_calibration_model_or_data_set_are_reported(report, tmp_path):
    columns = {name: GOOD[name] for name in ("trace_id", "depth", "confidence", "correct")}
    path = tmp_path / "bare.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    (code, out, err), folder = report(path, "--no-figures")
    assert code == 0
    assert "only the raw score" in err
    assert not (folder / "tables" / "comparison.csv").exists()
    assert "–" in out


def test_a_folder_that_cannot_be_is_a_mistake(report, traces, tmp_path):  # noqa: F811
    (tmp_path / "file").write_text("")
    (code, _, err), _ = report(traces, "--no-figures", folder=tmp_path / "file")
    assert code == 2
    assert "expected to make the folder" in err
    for arguments in (["--by", "nothing"], ["--model", "nobody"], ["--split", "validation"], ["--lo", "0.8"]):
        (code, _, err), folder = report(traces, "--no-figures", *arguments, folder=tmp_path / "r")
        assert code == 2
        assert not folder.exists()


def test_plans_that_are_broken_leave_nothing_behind(report, traces, tmp_path):  # noqa: F811
    plans = tmp_path / "plans.jsonl"
    plans.write_text('{"schema": "gatewise.plans/1", "questions": 1}\n{"question_id": 3}\n')
    (code, _, err), folder = report(traces, "--no-figures", "--plans", plans)
    assert code == 2
    assert "plans.jsonl row 1" in err
    assert not folder.exists()


def test_an_input_is_never_written_over(report, tmp_path):
    folder = tmp_path / "r"
    (folder / "tables").mkdir(parents=True)
    source = folder / "tables" / "main.csv"
    source.write_text("trace_id,depth,confidence,correct\na,0,0.5,true\n")
    (code, _, err), _ = report(source, "--no-figures", folder=folder)
    assert code == 2
    assert "apart from what is read" in err
    assert source.read_text().startswith("trace_id")


def test_without_matplotlib_the_rest_is_written_and_the_remedy_is_named(tmp_path, traces):  # noqa: F811
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')")
    code = "import sys; sys.modules['matplotlib'] = None; from gatewise.cli import main; main()"

    def run(*arguments):
        command = [sys.executable, "-c", code, "report", traces, "-o", tmp_path / "r", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)

    done = run()
    assert (done.returncode, "gatewise[plots]" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    assert run("--no-figures").returncode == 0


def test_hostile_names_stay_text(report, tmp_path):
    size = len(GOOD["trace_id"])
    columns = {**GOOD, "model": ["=HYPERLINK('x')|<b>$\\x$\n\u202e"] * size, "dataset": ["../../up"] * size}
    path = tmp_path / "hostile.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    (code, out, _), folder = report(path, "--no-figures")
    assert code == 0
    assert "\u202e" not in out
    assert "'=HYPERLINK" in (folder / "tables" / "main.csv").read_text()
    assert all(
        Path(name).parts[0] in ("README.md", "index.html", "numbers.json", "tables", "figures")
        for name in contents(folder)
    )


def test_groups_that_are_numbers_are_told_apart_in_every_table(gatewise, tmp_path):
    lines = ["trace_id,depth,confidence,correct,size"]
    lines += [f"q{place},0,0.{place},{place % 2},{(0.21, 0.24)[place % 2]}" for place in range(9)]
    (tmp_path / "traces.csv").write_text("\n".join(lines))
    gatewise("report", tmp_path / "traces.csv", "-o", tmp_path / "report", "--by", "size", "--no-figures")
    for form in ("md", "tex", "csv"):
        said = (tmp_path / "report" / "tables" / f"by.{form}").read_text()
        assert "0.21" in said
        assert "0.24" in said
