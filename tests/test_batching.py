"""A study through batch files: the same table as one that was recorded, whatever order and state results come in."""

import json
import random
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from gatewise.errors import BadChoice
from gatewise.recordings.endpoints import Form
from gatewise.recordings.ledger import Ledger
from gatewise.studies import batching, running
from gatewise.studies.batching import read_batches, write_batches
from gatewise.studies.designs import read_study
from gatewise.studies.steps import local_steps
from scripted import Scripted, said

STUDY = """
[study]
name = "{name}"
[[data]]
dataset = "worldfacts"
limit = 3
[[data]]
dataset = "own"
file = "own.jsonl"
[[models]]
name = "one"
url = "{url}"
model = "m-1"
logprobs = true
p_true = true
[[models]]
name = "two.2"
url = "{url}"
model = "m-2"
[judge]
kind = "model"
url = "{url}"
model = "judge"
"""


def gatewise(*arguments):
    command = [sys.executable, "-m", "gatewise", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def told(*arguments):
    done = gatewise(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def study(tmp_path):
    question = {
        "id": "o1",
        "question": "Who?",
        "answers": ["Ann"],
        "split": "test",
        "passages": [
            {"title": "A", "text": "a \ud800", "supporting": True},
            {"title": "B", "text": "b", "supporting": False},
        ],
    }
    (tmp_path / "own.jsonl").write_text(json.dumps(question) + "\n")

    def write(name, url, text=STUDY):
        path = tmp_path / f"{name}.toml"
        path.write_text(text.format(name=name, url=url))
        return path

    return write


def engine(path, say=said):
    """Play a batch engine: return the results of a batch file, in no order."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    lines = []
    for row in rows:
        assert (row["method"], row["url"]) == ("POST", "/v1/chat/completions")
        response = {"status_code": 200, "request_id": "r", "body": say(row["body"])}
        lines.append(json.dumps({"id": "b", "custom_id": row["custom_id"], "response": response, "error": None}))
    random.Random(0).shuffle(lines)
    return lines


def table(tmp_path, name, model):
    rows = pq.read_table(tmp_path / name / "traces" / f"{model}.parquet").to_pylist()
    return [{key: value for key, value in row.items() if key != "latency_s"} for row in rows]


def through_batches(path, say=said):
    """Write, run and read rounds until nothing is missing; return how many requests each round had."""
    rounds = []
    while files := told("batch", "write", path)["files"]:
        rounds.append([(one["model"], one["kinds"]) for one in files])
        results = []
        for number, one in enumerate(files):
            results.append(path.with_name(f"results-{number}.jsonl"))
            results[-1].write_text("\n".join(engine(path.parent / one["path"], say)) + "\n")
        read = told("batch", "read", path, *results)
        assert read["added"] == sum(one["requests"] for one in files)
        assert (read["foreign"], read["repeated"], read["failures"]) == (0, 0, {})
        assert len(rounds) < 6
    return rounds


def test_a_study_through_batches_has_the_table_of_one_that_was_recorded(tmp_path, study):
    with Scripted() as server:
        assert gatewise("run", study("direct", server.url)).returncode == 0
        total = server.total
        path = study("batched", server.url)
        rounds = through_batches(path)
        assert gatewise("run", path, "--offline").returncode == 0
        assert server.total == total
        for model in ("one", "two.2"):
            rows = table(tmp_path, "batched", model)
            assert len(rows) == 36 + 4
            assert rows == table(tmp_path, "direct", model)
            assert {row["missing_reason"] for row in rows} <= {None}
        with (
            Ledger.open(tmp_path / "direct" / "ledger.sqlite", readonly=True) as direct,
            Ledger.open(tmp_path / "batched" / "ledger.sqlite", readonly=True) as batched,
        ):
            assert [one.key for one in direct.entries(by_key=True)] == [
                one.key for one in batched.entries(by_key=True)
            ]
            assert direct.notes() == batched.notes()
        assert [[model for model, _ in one] for one in rounds] == [["m-1", "m-2"], ["m-1", "judge"]]
        assert gatewise("run", path).returncode == 0  # and asks nobody
        assert server.total == total


NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def work(tmp_path, study):
    made = running.Work(read_study(study("one", NOWHERE)), cache=tmp_path)
    list(running.run(made, local_steps(), only=("plan",)))
    return made


def results_of(sheets, tmp_path, say=said):
    path = tmp_path / "results.jsonl"
    path.write_text("".join(line + "\n" for sheet in sheets for line in engine(sheet.path, say)))
    return path


def test_the_same_state_gives_the_same_files_and_no_request_stands_twice(work, tmp_path):
    first = write_batches(work, tmp_path / "a")
    second = write_batches(work, tmp_path / "b")
    assert [one.path.name for one in first] == ["answers-one.jsonl", "answers-two.2.jsonl"]
    assert [one.path.read_bytes() for one in first] == [one.path.read_bytes() for one in second]
    keys = [json.loads(line)["custom_id"] for one in first for line in one.path.read_text().splitlines()]
    assert len(set(keys)) == len(keys) == sum(sum(one.requests.values()) for one in first)
    assert [one.size for one in first] == [one.path.stat().st_size for one in first]
    assert [one.requests for one in write_batches(work, tmp_path / "a", "one")] == [first[0].requests]
    assert (tmp_path / "a" / "answers-two.2.jsonl").exists()  # that of another model stays


def test_a_file_ends_where_a_service_takes_no_more_and_an_earlier_round_is_cleared_away(work, tmp_path, monkeypatch):
    monkeypatch.setattr(batching, "MOST_LINES", 15)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "answers-mine.jsonl").write_text("not ours")
    sheets = write_batches(work, tmp_path / "a", "one")
    assert [one.path.name for one in sheets] == ["answers-one.jsonl", "answers-one~2.jsonl", "answers-one~3.jsonl"]
    assert [len(one.path.read_text().splitlines()) for one in sheets] == [15, 15, 9]
    read_batches(work, [results_of(sheets, tmp_path)])
    later = write_batches(work, tmp_path / "a", "one")
    names = sorted(one.name for one in (tmp_path / "a").iterdir())
    assert names == sorted(["answers-mine.jsonl", *(one.path.name for one in later)])


def test_a_broken_round_leaves_the_files_of_the_last_one(work, tmp_path, monkeypatch):
    before = [(one.path, one.path.read_bytes()) for one in write_batches(work, tmp_path / "a")]

    def fails(request):
        raise KeyboardInterrupt

    monkeypatch.setattr(batching, "batch_line", fails)
    with pytest.raises(KeyboardInterrupt):
        write_batches(work, tmp_path / "a")
    assert [(path, path.read_bytes()) for path, _ in before] == before
    assert len(list((tmp_path / "a").iterdir())) == len(before)


def test_an_unreadable_reply_is_written_again_as_the_next_attempt_until_there_are_none(work, tmp_path):
    def unreadable(body):
        reply = said(body)
        reply["choices"][0]["message"]["content"] = "well"
        return reply

    rounds = []
    while sheets := write_batches(work, tmp_path / "a", "one"):
        rounds.append(sum(sum(one.requests.values()) for one in sheets))
        read_batches(work, [results_of(sheets, tmp_path, unreadable)])
    assert rounds == [39, 39, 39]  # `attempts` is 3
    assert read_batches(work, []).models["one"].missing == {"unreadable: no object": 40}


def test_what_failed_stays_missing_and_the_rest_is_counted(work, tmp_path):
    sheets = write_batches(work, tmp_path / "a", "one")
    lines = [json.loads(line) for line in engine(sheets[0].path)]
    lines[0] |= {"response": None, "error": {"code": "batch_expired", "message": "too late"}}
    lines[1]["response"] = {"status_code": 429, "body": {"error": {"message": "slow down"}}}
    foreign = [lines[2] | {"custom_id": "f" * 64}, lines[2] | {"custom_id": "mine"}]
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in [*lines, lines[2], *foreign]) + '{"custom_id": "cut')
    intake = read_batches(work, [path]).intake
    assert (intake.lines, intake.added, intake.known) == (43, 37, 0)
    assert (intake.repeated, intake.foreign) == (1, 2)
    assert intake.failures == {"timeout": 1, "rate": 1, "garbage": 1}
    again = read_batches(work, [path]).intake
    assert (again.added, again.known, again.repeated, again.foreign) == (0, 37, 1, 2)
    (missing,) = [one for one in write_batches(work, tmp_path / "a", "one") if one.model == "m-1"]
    assert missing.requests["answer"] == 2


def test_a_form_that_every_reply_refuses_gives_way_to_a_simpler_one(work, tmp_path):
    sheets = write_batches(work, tmp_path / "a", "two.2")
    rows = [json.loads(line) for line in sheets[0].path.read_text().splitlines()]
    body = {"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model."}}
    refused = {"status_code": 400, "body": body}
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps({"custom_id": one["custom_id"], "response": refused}) + "\n" for one in rows))
    found = read_batches(work, [path])
    assert found.intake.failures == {"refused": 39}
    assert found.notes == ("m-2 refused how it was asked; the next batch asks in a simpler form",)
    sheets = write_batches(work, tmp_path / "a", "two.2")
    assert "max_completion_tokens" in json.loads(sheets[0].path.read_text().splitlines()[0])["body"]
    read_batches(work, [results_of(sheets, tmp_path)])
    with Ledger.open(work.design.ledger, readonly=True) as ledger:
        noted = {model: form for (_, model), form in ledger.notes().items()}
    assert noted == {"m-2": Form(limit="max_completion_tokens").as_json()}


def test_a_model_in_this_process_is_left_to_record(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(
        '[study]\nname = "s"\n[[data]]\ndataset = "worldfacts"\nlimit = 1\n'
        '[[models]]\nname = "q"\nlocal = "qwen-1.5b"\n[judge]\nkind = "exact"\n'
    )
    work = running.Work(read_study(path), cache=tmp_path)
    with pytest.raises(BadChoice, match="gatewise record"):
        write_batches(work, tmp_path)
    with pytest.raises(BadChoice, match="expected a model among q, found 'p'"):
        write_batches(work, tmp_path, "p")


def test_the_commands_say_what_was_written_and_what_became_of_it(tmp_path, study):
    path = study("told", NOWHERE)
    wrote = gatewise("batch", "write", path, "--model", "one")
    assert wrote.returncode == 0, wrote.stderr
    files, _, then = wrote.stdout.splitlines()
    assert files.startswith("39 requests to m-1 (39 of kind answer), ")
    assert files.endswith("answers-one.jsonl")
    assert then == "Run them, then: gatewise batch read STUDY.TOML RESULTS…"
    results = tmp_path / "results.jsonl"
    lines = engine(tmp_path / "told" / "batch" / "answers-one.jsonl")
    results.write_text("\n".join([*lines[1:], '{"custom_id": "x", "error": "the engine died \\u001b[2J"}']))
    read = gatewise("batch", "read", path, results)
    assert read.returncode == 0, read.stderr
    assert read.stdout.splitlines()[:2] == [
        "38 replies of 39 lines added, 0 in the ledger before",
        "1 failed: server (the engine died \\x1b[2J)",
    ]
    assert "Write what is still missing" in read.stdout
    gone = gatewise("batch", "read", path, tmp_path / "none.jsonl")
    assert (gone.returncode, "No such file" in gone.stderr) == (2, True)


def test_answers_that_no_model_judges_are_all_that_a_batch_must_bring(tmp_path, study):
    head = STUDY.partition("[judge]")[0].partition("[[models]]")[0]
    model = '[[models]]\nname = "one"\nurl = "{url}"\nmodel = "m-1"\n'
    path = study("short", NOWHERE, head + model + '[judge]\nkind = "exact"\n')
    assert gatewise("batch", "write", path).returncode == 0
    results = tmp_path / "results.jsonl"
    results.write_text("\n".join(engine(tmp_path / "short" / "batch" / "answers-one.jsonl")))
    read = gatewise("batch", "read", path, results)
    assert read.stdout.splitlines()[-1].startswith("No call is missing: gatewise run STUDY.TOML asks nobody"), read
    again = gatewise("batch", "write", path)
    assert again.stdout.startswith("No call is missing"), again
