"""The commands over questions as a user meets them; broken files are in test_datasets."""

import json
import os
import re
import subprocess
import sys

import pytest

ROWS = [
    {
        "id": f"q{n}",
        "question": f"Which river is number {n}?",
        "answers": [f"river {n}"],
        "passages": [
            {"title": "Hill", "text": "A hill."},
            {"title": f"River {n}", "text": f"It is number {n}.", "supporting": True},
            {"title": "Lake", "text": "Which lake is it?"},
        ],
    }
    for n in range(8)
]


@pytest.fixture
def gatewise(capfdbinary, command_line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATEWISE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return command_line(lambda: [stream.decode() for stream in capfdbinary.readouterr()])


def test_plans_go_to_standard_output_and_nothing_else_does(gatewise):
    code, out, err = gatewise("plan", "--dataset", "mine", "--file", "mine.jsonl")
    header, *lines = map(json.loads, out.splitlines())
    assert (code, err) == (0, "")
    assert header["schema"] == "gatewise.plans/1"
    assert len(lines) == header["questions"] == 8
    assert {"question_id", "dataset", "split", "question", "references", "passages", "slices", "digest"} <= set(
        lines[0]
    )
    assert lines[0]["slices"] == [[1], [2], [0]]
    assert [line["question_id"] for line in lines] == [row["id"] for row in ROWS]
    assert {line["dataset"] for line in lines} == {"mine"}


def test_plans_written_to_a_file_are_the_same_bytes_and_are_summed(gatewise, tmp_path):
    _, out, _ = gatewise("plan", "--dataset", "mine", "--file", "mine.jsonl")
    code, said, _ = gatewise("plan", "--dataset", "mine", "--file", "mine.jsonl", "-o", "plans.jsonl")
    assert code == 0
    assert (tmp_path / "plans.jsonl").read_text() == out
    assert "planned retrievals" in said
    _, summed, _ = gatewise("plan", "--dataset", "mine", "--file", "mine.jsonl", "--summary", "--json")
    found = json.loads(summed)
    assert found["schema"] == "gatewise.plan/1"
    assert found["output"] is None
    assert {name: one["questions"] for name, one in found["splits"].items()} == {
        "calibration": 4,
        "validation": 2,
        "test": 2,
    }


def test_plans_are_never_written_over_the_questions_that_they_are_made_of(gatewise, tmp_path):
    before = (tmp_path / "mine.jsonl").read_bytes()
    (tmp_path / "link.jsonl").symlink_to("mine.jsonl")
    for output in ("mine.jsonl", "link.jsonl"):
        code, out, err = gatewise("plan", "--dataset", "mine", "--file", "mine.jsonl", "-o", output)
        assert (code, out) == (2, "")
        assert "expected an output apart from what is read" in err
    assert (tmp_path / "mine.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "wrong",
    [
        ("plan", "--dataset", "mine"),
        *(
            ("plan", "--dataset", "mine", "--file", "mine.jsonl", *options)
            for options in (
                ("--order", "best"),
                ("--similarity", "luck"),
                ("--similarity", "dense", "--embedder", "luck"),
                ("--format", "luck"),
                ("--split", "luck"),
                ("--split", "column:luck"),
                ("--shares", "1", "1"),
                ("--skip", "luck"),
                ("--order", "random", "--distractors", "1"),
            )
        ),
        ("plan", "show", "luck"),
        ("fetch", "luck"),
        ("fetch", "model", "luck"),
    ],
    ids=" ".join,
)
def test_every_wrong_choice_says_what_was_expected_found_and_to_do(gatewise, wrong):
    gatewise("plan", "--dataset", "mine", "--file", "mine.jsonl", "-o", "plans.jsonl")
    code, out, err = gatewise(*wrong)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: expected .+, found .+\. [A-Z][^.]+.*\.\n", err)


OWN = """
from gatewise.errors import Unfit
from gatewise.types import Passage, Question

def closest(question, passages):
    print("noise")
    return [len(one.text) for one in passages]

def stumbles(question, passages):
    return [one.length for one in passages]

def short(question, passages):
    return [1.0]

def words(question, passages):
    return ["close"] * len(passages)

def leaves(row):
    raise SystemExit("so long")

def asks(row):
    print("noise")
    if row["id"] == "q3":
        raise KeyError("asks")
    return Question(row["id"], row["question"], ("a",), (Passage("t", "u", True),))

def nothing(row):
    return None

def numbers(row):
    return Question(row["id"], row["question"], ("a",), (Passage("t", 7, True),))

def dicts(row):
    return Question(row["id"], row["question"], ("a",), ({"text": "t"},))

def choosy(row):
    raise Unfit("malformed", "id", row["id"], "expected another", "Write another.")
"""


@pytest.fixture
def yours(tmp_path, monkeypatch):
    (tmp_path / "yours.py").write_text(OWN)
    yield
    monkeypatch.delitem(sys.modules, "yours", raising=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--similarity", "yours:stumbles"), r"scores of similarity yours:stumbles, found AttributeError: .*length.* "
         r"\(yours.py, line 10\). Mend it"),
        (("--similarity", "lexical+yours:short"), "expected 4 finite scores of similarity yours:short for a first "
         r"trial, found \[1.0\]"),
        (("--similarity", "yours:words"), "similarity yours:words for a first trial, found .'close'"),
        (("--format", "yours:nothing"), "expected a Question from the reader, .* found null. Mend the reader"),
        (("--format", "yours:numbers"), "expected a Question from the reader"),
        (("--format", "yours:dicts"), "expected a Question from the reader"),
        (("--format", "yours:leaves"), r"a question of reader yours:leaves, found SystemExit: so long \(yours"),
        (("--format", "yours:asks"), r"found KeyError: .*asks.* \(yours.py, line 24\)"),
        (("--format", "yours:choosy"), "row 1, column id, value 'q0': expected another"),
    ],
)  # fmt: skip
def test_what_goes_wrong_in_code_of_your_own_is_told_without_a_traceback(gatewise, yours, options, said):
    code, out, err = gatewise("plan", "--dataset", "own", "--file", "mine.jsonl", "--summary", *options)
    assert (code, out) == (2, "")
    assert re.search(said, err)


def test_what_code_of_your_own_prints_is_no_result(gatewise, yours):
    _, out, err = gatewise("plan", "--dataset", "own", "--file", "mine.jsonl", "--similarity", "yours:closest")
    assert len([json.loads(line) for line in out.splitlines()]) == 9
    assert "noise" in err


def test_question_texts_that_stand_in_two_splits_are_counted(gatewise, tmp_path):
    again = {**ROWS[0], "id": "again", "question": "WHICH river is number 0 ..."}
    (tmp_path / "twice.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*ROWS, again]))
    for name, expected in (("mine", 0), ("twice", 1)):
        _, out, err = gatewise("plan", "--dataset", name, "--file", f"{name}.jsonl", "--json")
        assert json.loads(out)["shared_texts"] == expected
        assert ("1 normalized question texts stand in more than one split" in err) == bool(expected)


def test_the_same_file_gives_the_same_bytes_in_another_process(gatewise, tmp_path):
    command = [sys.executable, "-m", "gatewise", "plan", "--dataset", "mine", "--file", "mine.jsonl", "--split"]
    outs = {
        subprocess.run(
            [*command, "random", "--order", "random", "--similarity", "lexical+bm25"],
            check=True,
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outs) == 1


def test_plan_show_prints_one_question_and_helps_with_its_id(gatewise):
    gatewise("plan", "--dataset", "mine", "--file", "mine.jsonl", "-o", "plans.jsonl")
    code, out, _ = gatewise("plan", "show", "q3")
    assert code == 0
    assert "* [1] River 3" in out
    _, out, _ = gatewise("plan", "show", "q3", "--plans", "plans.jsonl", "--json")
    assert json.loads(out)["slices"] == [[1], [2], [0]]
    code, _, err = gatewise("plan", "show", "q33")
    assert code == 2
    assert "did you mean q3" in err
    code, _, err = gatewise("plan", "show", "q3", "--plans", "mine.jsonl")
    assert code == 2
    assert "gatewise plan" in err


def test_the_bundled_questions_need_no_file(gatewise):
    code, out, _ = gatewise("plan", "--dataset", "worldfacts", "--summary", "--json")
    assert code == 0
    assert json.loads(out)["header"]["questions"] >= 600


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan"], "Usage"),
        (["plan", "--summary"], "expected --dataset"),
        (["plan", "--dataset", "mine"], "expected --file"),
        (["plan", "--dataset", "musiq"], "did you mean musique"),
        (["plan", "--dataset", "hotpotqa"], "gatewise fetch hotpotqa"),
        (["plan", "--dataset", "mine", "--file", "none.jsonl"], "no such file"),
        (["plan", "--dataset", "mine", "--file", "mine.jsonl", "--order", "papre"], "did you mean paper"),
        (["plan", "--dataset", "mine", "--file", "mine.jsonl", "--slices", "0"], "slices"),
        (["plan", "--dataset", "mine", "--file", "mine.jsonl", "--shares", "0.9", "0.2"], "add up to at most 1"),
        (["plan", "--dataset", "mine", "--file", "mine.jsonl", "--shares", "nan", "0.2"], "add up to at most 1"),
        (["plan", "--dataset", "mine", "--file", "mine.jsonl", "--skip", "no-anser"], "did you mean no-answer"),
        (["plan", "--dataset", "mine", "--file", "mine.jsonl", "--format", "nowhere:reader"], "nowhere"),
        (["plan", "--dataset", "mine", "--file", "mine.jsonl", "--similarity", "dense"], "fetch model minilm"),
        (["plan", "--dataset", "mine", "--file", "mine.jsonl", "-o", "no/such/folder.jsonl"], "expected to write"),
        (["plan", "show", "q1"], "plans.jsonl"),
        (["questions", "check", "none.jsonl"], "no such file"),
        (["questions", "check", "mine.jsonl", "--format", "hotpotqa"], "expected this field"),
        (["fetch", "hotpot"], "did you mean hotpotqa"),
        (["fetch", "hotpotqa", "twice"], "hotpotqa twice"),
        (["fetch", "model", "minilmm"], "did you mean minilm"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(gatewise, arguments, said):
    code, out, err = gatewise(*arguments)
    assert said in (out + err)
    assert code == 2


def test_a_dense_ranking_needs_an_endpoint_that_answers(gatewise, unused_tcp_port_of_nobody):
    address = f"http://127.0.0.1:{unused_tcp_port_of_nobody}/v1"
    code, _, err = gatewise(
        "plan", "--dataset", "mine", "--file", "mine.jsonl", "--similarity", "dense", "--embedder", address
    )
    assert code == 2
    assert "found after 5 tries" in err


@pytest.fixture
def unused_tcp_port_of_nobody(monkeypatch):
    import socket

    import gatewise.recordings.retries as retries

    monkeypatch.setattr(retries.random, "uniform", lambda low, high: 0.001)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        yield held.getsockname()[1]


def test_a_question_file_is_checked(gatewise):
    code, out, _ = gatewise("questions", "check", "mine.jsonl")
    assert code == 0
    assert "8 rows, 8 questions" in out
    _, out, _ = gatewise("questions", "check", "mine.jsonl", "--json")
    assert json.loads(out)["passages"] == {"fewest": 3, "most": 3, "total": 24}


def test_a_reader_and_a_similarity_of_yours_are_reached_by_name(gatewise, tmp_path):
    (tmp_path / "my_rows.py").write_text(
        "from gatewise.types import Passage, Question\n"
        "def read(row):\n"
        "    return Question(row['id'], row['question'], ('x',), (Passage('A', 'b', True), Passage('C', 'd')))\n"
        "def longest(question, passages):\n"
        "    return [len(one.text) for one in passages]\n"
    )
    code, out, _ = gatewise(
        "plan", "--dataset", "mine", "--file", "mine.jsonl", "--format", "my_rows:read",
        "--similarity", "my_rows:longest",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out.splitlines()[1])["slices"] == [[0], [1], []]
