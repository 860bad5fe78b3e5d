"""What a recording does when much goes wrong: limits, two models and data sets, judges that fail, full disks."""

import json
import os
import signal
import subprocess
import sys
import time
from traceback import walk_tb

import pyarrow.parquet as pq
import pytest

import disks
from gatewise.cli.terminal import key_from, own
from gatewise.errors import BadChoice, BrokenFile, Unavailable
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.transformer import name_of
from gatewise.studies import running
from gatewise.studies.designs import read_study
from gatewise.studies.recording import Limits, recording_steps, rejudge
from gatewise.studies.steps import local_steps
from scripted import Scripted, said, seed_of

ONE = """
[study]
name = "s"
[[data]]
dataset = "worldfacts"
limit = 2
[[models]]
name = "one"
url = "{url}"
model = "m-1"
prices = {{input = 1.0, output = 2.0}}
"""
TWO = """
[[models]]
name = "two"
url = "{url}"
model = "m-2"
prices = {{input = 1.0, output = 2.0}}
"""
JUDGE = """
[judge]
kind = "model"
url = "{url}"
model = "judge"
prices = {{input = 1.0, output = 2.0}}
"""
EXACT = '\n[judge]\nkind = "exact"\n'


@pytest.fixture
def run(tmp_path):
    """Return what does the asking steps of a study, and returns how each ended."""

    def go(server, text=ONE + EXACT, only=("plan", "record", "judge"), **limits):
        path = tmp_path / "study.toml"
        path.write_text(text.format(url=server.url))
        work = running.Work(read_study(path), cache=tmp_path, own=own, key=key_from)
        steps = local_steps() | recording_steps(Limits(**limits))
        return {done.step: done for done in running.run(work, steps, only=only)}

    return go


def rows(tmp_path, model="one"):
    return pq.read_table(tmp_path / "s" / "traces" / f"{model}.parquet").to_pylist()


def kept(tmp_path):
    with Ledger.open(tmp_path / "s" / "ledger.sqlite", readonly=True) as ledger:
        assert list(ledger.verify()) == []
        return [json.loads(entry.body)["model"] for entry in ledger.entries()]


def spent(tmp_path):
    with Ledger.open(tmp_path / "s" / "ledger.sqlite", readonly=True) as ledger:
        return sum(json.loads(entry.raw)["usage"]["cost"] for entry in ledger.entries())


def test_a_run_that_asks_nobody_is_no_run_that_asked(run, tmp_path):
    with Scripted() as server:
        assert run(server, offline=True)["judge"].how == "done"
        assert {row["missing_reason"] for row in rows(tmp_path)} == {"not asked"}
        assert server.total == 0
        assert run(server)["record"].how == "done"
        assert {row["missing_reason"] for row in rows(tmp_path)} == {None}
        assert run(server)["record"].how == "unchanged"
        assert (server.total, server.twice) == (24, 0)


def test_one_limit_holds_for_all_models_and_the_judge_and_for_what_was_spent_before(run, tmp_path):
    with Scripted() as server:
        run(server, ONE + TWO + JUDGE)
        whole, asked = spent(tmp_path), server.total
        (tmp_path / "s" / "ledger.sqlite").unlink()
        (tmp_path / "s" / "state.json").unlink()
        run(server, ONE.replace('"one"', '"two"').replace("m-1", "m-2") + EXACT)  # the second model's answers are had
        before = spent(tmp_path)
        limit = before + 0.25 * (whole - before)
        ended = run(server, ONE + TWO + JUDGE, max_cost=limit)
        assert ended["record"].how == "stopped"
        assert before < spent(tmp_path) <= limit
        limit = 0.999 * whole
        ended = run(server, ONE + TWO + JUDGE, max_cost=limit)
        assert (ended["record"].how, ended["judge"].how) == ("done", "stopped")
        assert spent(tmp_path) <= limit
        server.answered.clear()
        assert run(server, ONE + TWO + JUDGE, max_cost=10 * whole)["judge"].how == "done"
        assert (spent(tmp_path), server.twice) == (pytest.approx(whole), 0)
        assert len(kept(tmp_path)) == asked


def test_a_verdict_that_two_models_share_is_counted_once(run, tmp_path):
    def say(body):
        reply = said(body)
        if body["model"] != "judge":
            reply["choices"][0]["message"]["content"] = '{"answer": "the same", "confidence": 50}'
        return reply

    with Scripted(say) as server:
        run(server, ONE + TWO + JUDGE)
        assert kept(tmp_path).count("judge") == 6
        (tmp_path / "s" / "state.json").unlink()
        told = run(server, ONE + TWO + JUDGE, max_cost=1.0)["judge"].told[-1]
        assert told == f"0 calls made, {48 + 6} found in the ledger; {spent(tmp_path):.4f} $ so far"


def test_an_id_in_two_data_sets_is_refused_before_anything_is_asked(run, tmp_path):
    row = {"id": "q", "question": "?", "answers": ["a"], "split": "test"}
    row["passages"] = [{"title": "A", "text": "a", "supporting": True}]
    (tmp_path / "own.jsonl").write_text(json.dumps(row) + "\n")
    data = '[[data]]\ndataset = "{}"\nfile = "own.jsonl"\n'
    text = ONE.replace('[[data]]\ndataset = "worldfacts"\nlimit = 2\n', data.format("a") + data.format("b"))
    with Scripted() as server:
        with pytest.raises(BrokenFile, match="found 'q' in two data sets"):
            run(server, text + EXACT)
        assert server.total == 0


def test_two_data_sets_and_two_models_make_two_tables(run, tmp_path):
    row = {"id": "q", "question": "?", "answers": ["a"], "split": "test"}
    row["passages"] = [{"title": "A", "text": "a", "supporting": True}]
    (tmp_path / "own.jsonl").write_text(json.dumps(row) + "\n")
    more = '[[data]]\ndataset = "own"\nfile = "own.jsonl"\n'
    with Scripted() as server:
        run(server, ONE.replace("[[models]]", more + "[[models]]") + TWO + JUDGE)
        assert server.twice == 0
    for model in ("one", "two"):
        found = rows(tmp_path, model)
        assert len(found) == 28
        assert {row["dataset"] for row in found} == {"worldfacts", "own"}
        assert {row["model"] for row in found} == {model}
        assert all(row["correct"] is not None for row in found)


def test_a_judge_of_ones_own_judges_through_the_ledger_and_one_that_fails_costs_no_answer(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_judges_a.py").write_text(
        "import asyncio\n"
        "def broken(question, answer):\n    raise ValueError('no idea')\n"
        "async def long(question, answer):\n    await asyncio.sleep(0)\n    return len(answer) > 11\n"
    )
    judge = '\n[judge]\nkind = "own"\nfunction = "my_judges_a:{}"\n'
    with Scripted() as server:
        with pytest.raises(BadChoice, match=r"ValueError: 'no idea'\. Mend the judge"):
            run(server, ONE + judge.replace("{}", "broken"))
        assert server.total == 24
        run(server, ONE + judge.replace("{}", "long"))
        assert server.total == 24
    assert all(row["correct"] == (len(row["answer"]) > 11) for row in rows(tmp_path))
    assert {row["judge"] for row in rows(tmp_path)} == {"my_judges_a:long"}


def test_a_judge_that_is_refused_costs_no_answer_and_is_asked_again(run, tmp_path):
    shut = [True]
    with Scripted(script=lambda body, time: 401 if shut[0] and body["model"] == "judge" else None) as server:
        with pytest.raises(Unavailable, match="found: HTTP 401"):
            run(server, ONE + JUDGE)
        assert kept(tmp_path) == ["m-1"] * 24
        shut[0] = False
        assert run(server, ONE + JUDGE)["record"].how == "unchanged"
        assert server.twice == 0
    assert all(row["correct"] is not None for row in rows(tmp_path))


def test_a_judge_that_will_not_serve_some_verdicts_leaves_them_null_with_the_reason(run, tmp_path):
    def script(body, time):
        return (400, '{"error": {"message": "flagged"}}') if body["model"] == "judge" and "1" in str(body) else None

    with Scripted(script=script) as server:
        run(server, ONE + JUDGE)
    reasons = {row["missing_reason"] for row in rows(tmp_path)}
    assert "verdict: refused" in reasons
    assert all(row["answer"] for row in rows(tmp_path))


def test_what_was_asked_for_in_vain_says_why_in_the_table_and_is_asked_for_again(run, tmp_path):
    faulty = [True]

    def script(body, time):
        number = seed_of(body) % 3
        if not faulty[0] or server.total == 1 or number == 0:
            return None
        return (400, '{"error": {"message": "flagged"}}') if number == 1 else (413, "too much")

    with Scripted(script=script) as server:
        told = run(server, ONE + JUDGE)
        assert "refused" in told["record"].told[0]
        found = rows(tmp_path)
        reasons = {row["missing_reason"] for row in found}
        assert reasons <= {None, "refused", "verdict: refused"}
        assert {"refused", "verdict: refused"} <= reasons
        assert all((row["answer"] is None) == (row["missing_reason"] == "refused") for row in found)
        asked = server.total
        assert asked == 24 + sum(row["answer"] is not None for row in found)  # and no verdict a second time
        faulty[0] = False
        run(server, ONE + JUDGE)
        assert {row["missing_reason"] for row in rows(tmp_path)} == {None}
        assert server.twice == 0


def test_questions_that_fail_at_every_run_keep_no_table_from_being_written(run, tmp_path):
    def script(body, time):
        return 503 if server.total > 1 and seed_of(body) % 4 == 0 else None

    text = ONE.replace("prices", "overall = 0.3\nprices") + EXACT
    with Scripted(script=script) as server:
        for _ in range(2):
            ended = run(server, text)
            assert ended["judge"].how == "done"
            found = [row["missing_reason"] for row in rows(tmp_path)]
            assert set(found) == {None, "server"}
            assert found.count("server") >= 3
        assert server.twice == 0


def test_a_signal_that_an_endpoint_does_not_offer_says_so(run, tmp_path):
    text = ONE.replace("prices", "p_true = true\nprices") + EXACT
    refusal = (400, '{"error": {"message": "logprobs are not supported", "param": "logprobs"}}')
    with Scripted(script=lambda body, time: refusal if "logprobs" in body else None) as server:
        run(server, text.replace("p_true", "logprobs = true\np_true"))
        assert {row["missing_reason"] for row in rows(tmp_path)} == {"p_true: no log-probabilities"}
        assert run(server, text.replace("p_true", "logprobs = true\np_true"))["record"].how == "unchanged"


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [(None, "no log-probabilities"), ([{"token": "?", "logprob": -1.0}], "other tokens than the answer's")],
)
def test_a_token_probability_that_was_asked_for_in_vain_says_so(run, tmp_path, tokens, reason):
    def say(body):
        reply = said(body)
        reply["choices"][0]["logprobs"] = {"content": tokens}
        return reply

    with Scripted(say) as server:
        text = ONE.replace("prices", "logprobs = true\nprices")
        run(server, text + EXACT)
        assert {row["missing_reason"] for row in rows(tmp_path)} == {f"token_probability: {reason}"}
        assert all(row["correct"] is not None for row in rows(tmp_path))
        assert run(server, text + EXACT)["judge"].how == "unchanged"
        run(server, ONE + EXACT, only=("plan", "record", "judge"))
        assert {row["missing_reason"] for row in rows(tmp_path)} == {None}


def test_no_room_is_told_before_anything_is_asked(run, tmp_path):
    with disks.small_disk(tmp_path / "s", "20m"), Scripted() as server:
        with pytest.raises(BrokenFile, match="MiB of room"):
            run(server)
        assert server.total == 0


def test_a_disk_that_fills_up_ends_the_asking(run, tmp_path, monkeypatch):
    monkeypatch.setattr(Ledger, "require_room", lambda self: None)
    text = ONE.replace("limit = 2", "limit = 60").replace("[[models]]", "[[models]]\nconcurrency = 4") + EXACT
    with disks.small_disk(tmp_path / "s", "1500k"), Scripted() as server:
        with pytest.raises(BrokenFile, match=r"ledger\.sqlite, found (no room left|that the disk refuses)"):
            run(server, text)
        assert 0 < server.total < 700
        assert len(kept(tmp_path)) >= server.total - 8  # what was under way
        assert server.twice == 0


def test_a_second_interrupt_ends_at_once_and_what_was_stored_is_whole(tmp_path):
    environment = os.environ | {"NO_PROXY": "127.0.0.1"}
    with Scripted(latency=6) as server:
        path = tmp_path / "study.toml"
        path.write_text((ONE + EXACT).format(url=server.url))
        command = [sys.executable, "-m", "gatewise", "record", str(path)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        end = time.monotonic() + 60
        while not server.total and time.monotonic() < end:
            time.sleep(0.01)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None  # it waits for what is under way
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
        assert time.monotonic() - begun < 5
        assert "Traceback" not in error
        assert "Run the same command again" in error
        assert process.returncode == 130
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    ("more", "status"), [("requests_per_minute = 2", None), ("", 503)], ids=["for its turn", "for another try"]
)
def test_an_interrupt_waits_for_no_call_that_is_not_on_its_way(tmp_path, more, status):
    environment = os.environ | {"NO_PROXY": "127.0.0.1"}

    def script(body, time):
        return status if server.total > 1 else None  # the first has its answer

    with Scripted(script=script) as server:
        path = tmp_path / "study.toml"
        path.write_text((ONE.replace("prices", f"{more}\nprices") + EXACT).format(url=server.url))
        command = [sys.executable, "-m", "gatewise", "record", str(path)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        end = time.monotonic() + 60
        while server.total < (1 if more else 9) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.3)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert time.monotonic() - begun < 5
        assert process.returncode == 3
        assert "stopped: interrupted. Run the same command again" in out
    assert kept(tmp_path) == ["m-1"]


def test_a_dry_run_tells_what_judging_would_ask(run, tmp_path):
    with Scripted() as server:
        told = run(server, ONE + JUDGE, only=("plan", "record"))
        path = tmp_path / "study.toml"
        work = running.Work(read_study(path), cache=tmp_path, dry_run=True)
        steps = local_steps() | recording_steps(Limits())
        (told,) = (done.told for done in running.run(work, steps, only=("judge",)))
        assert told[0].startswith("one: 0 verdicts in the ledger; at most 24 calls to make, about ")
        assert told[0].endswith(" $")
        run(server, ONE + JUDGE)
        (tmp_path / "s" / "state.json").unlink()
        told = [done.told for done in running.run(work, steps)][2]
        assert told[0].startswith("one: 24 verdicts in the ledger; at most 0 calls to make, about 0 tokens")
        assert server.total == 48


def test_a_dry_run_knows_what_the_ledger_has_of_plans_that_no_words_rank(run, tmp_path):
    text = ONE + EXACT + '[plan]\nsimilarity = "dense"\nembedder = "{url}"\nembedding_model = "e"\n'
    with Scripted() as server:
        run(server, text, only=("plan", "record"))
        work = running.Work(read_study(tmp_path / "study.toml"), cache=tmp_path, dry_run=True)
        steps = local_steps() | recording_steps(Limits())
        (done,) = running.run(work, steps, fresh=("record",), only=("record",))
        assert done.told[0].startswith("one: 24 states, 0 of them copies, 24 in the ledger; 0 calls to make")


def test_a_dry_run_counts_what_is_missing_of_what_was_begun(run, tmp_path):
    text = ONE.replace("prices", "logprobs = true\nprices") + EXACT

    def say(body):
        reply = said(body)
        if server.total == 1:
            reply["choices"][0]["message"]["content"] = "I would rather not."
        return reply

    def told(path):
        work = running.Work(read_study(path), cache=tmp_path, dry_run=True)
        return next(iter(running.run(work, local_steps() | recording_steps(Limits()), only=("record",)))).told[0]

    with Scripted(say) as server:
        run(server, text.replace("prices", "attempts = 1\nprices"), only=("plan", "record"))
        path = tmp_path / "study.toml"
        path.write_text(text.format(url=server.url))
        assert told(path).startswith("one: 24 states, 0 of them copies, 23 in the ledger; 1 calls to make, about ")
        run(server, text, only=("plan", "record"))
        path.write_text(text.replace("prices", "p_true = true\nprices").format(url=server.url))
        assert "24 in the ledger; 0 calls to make and up to 24 for P(True), about " in told(path)
        ended = run(server, text.replace("prices", "p_true = true\nprices"), only=("plan", "record"))
        assert ended["record"].told[1].startswith("24 calls made, 25 found")


def test_a_dry_run_of_another_judge_writes_nothing(run, tmp_path):
    with Scripted() as server:
        run(server)
        path = tmp_path / "study.toml"
        work = running.Work(read_study(path), cache=tmp_path, own=own, dry_run=True)
        ((table, told),) = rejudge(work, Limits(), "f1@0.5", tmp_path / "again.parquet")
        assert told == "one: 24 states, 24 answered, would be judged by f1@0.5; no model is asked"
        assert not table.exists()
        assert server.total == 24


def test_no_frame_of_an_error_holds_a_key(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", "sk-canary-of-a-key")
    text = ONE.replace("prices", 'key_env = "CANARY_KEY"\nprices') + EXACT
    text += '[plan]\nsimilarity = "dense"\nembedder = "{url}"\nembedding_model = "e"\nkey_env = "CANARY_KEY"\n'
    for shut in ("m-1", "e"):
        with (
            Scripted(script=lambda body, time, shut=shut: 401 if body["model"] == shut else None) as server,
            pytest.raises(Unavailable) as caught,
        ):
            run(server, text)
        frames = [frame for frame, _ in walk_tb(caught.tb) if frame.f_code.co_filename != __file__]
        assert len(frames) > 4
        for frame in frames:
            held = repr(frame.f_locals)
            assert "sk-canary" not in held, frame


def test_a_hugging_face_model_records_and_judges_a_study(run, tmp_path):
    pytest.importorskip("torch", reason="needs the extra gatewise[transformers]")
    from test_transformer import build

    build(tmp_path / "tiny", positions=4096)
    text = ONE.replace('url = "{url}"\nmodel = "m-1"\n', 'transformer = "tiny"\nmax_tokens = 4\nbatch = 4\n')
    with Scripted() as server:
        ended = run(server, text + '[judge]\nkind = "model"\ntransformer = "tiny"\nmax_tokens = 4\n')
        assert ended["judge"].how == "done"
        assert ended["record"].told[-1].startswith("72 calls made")  # three attempts at an answer that none can read
        again = run(server, text + '[judge]\nkind = "exact"\n')
        assert again["record"].how == "unchanged"
    assert {row["missing_reason"].split(":")[0] for row in rows(tmp_path)} == {"unreadable"}
    assert {row["served_model"] for row in rows(tmp_path)} == {name_of(tmp_path / "tiny")}
