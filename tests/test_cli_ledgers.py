"""The ledger's commands, on real files: stats, verify, export, merge."""

import asyncio
import json
import os
import sqlite3

import pytest

from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.ledger import Ledger

ENDPOINT = "http://localhost/v1/chat/completions"


def fill(path, numbers, text="said"):
    async def run(ledger):
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.125}
        for n in numbers:
            raw = json.dumps({"choices": [], "usage": usage, "text": f"{text} {n}"})
            kind = "verdict" if n % 5 == 4 else "answer"
            await ledger.put(Request(ENDPOINT, {"model": "m", "n": n}, kind=kind), Reply(raw, 1.7e9 + n, 0.5))

    with Ledger.open(path) as ledger:
        asyncio.run(run(ledger))
    return path


@pytest.fixture(autouse=True)
def _a_ledger_here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "one.sqlite", range(10))


def test_stats_says_what_a_ledger_holds(gatewise):
    code, out, err = gatewise("ledger", "stats", "one.sqlite")
    assert (code, err) == (0, "")
    assert "10 calls" in out
    assert "from 2023-11-14T22:13:20Z to 2023-11-14T22:13:29Z" in out
    assert "verdict" in out
    _, out, _ = gatewise("ledger", "stats", "one.sqlite", "--json")
    found = json.loads(out)
    assert (found["schema"], found["calls"], found["notes"]) == ("gatewise.ledger-stats/1", 10, [])
    assert found["bytes"] == os.path.getsize("one.sqlite")
    answers, verdicts = found["groups"]
    assert (answers["kind"], answers["calls"], answers["cost_usd"], answers["input_tokens"]) == ("answer", 8, 1.0, 80)
    assert (verdicts["kind"], verdicts["calls"], verdicts["mean_latency_s"]) == ("verdict", 2, 0.5)


def test_stats_of_an_empty_ledger(gatewise, tmp_path):
    Ledger.open(tmp_path / "empty.sqlite").close()
    code, out, _ = gatewise("ledger", "stats", "empty.sqlite")
    assert code == 0
    assert "0 calls" in out


def damage(path, statement):
    other = sqlite3.connect(path)
    for (name,) in other.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        other.execute(f"DROP TRIGGER {name}")
    other.execute(statement)
    other.commit()
    other.close()


def test_verify_finds_a_whole_ledger_whole(gatewise):
    code, out, _ = gatewise("ledger", "verify", "one.sqlite")
    assert code == 0
    assert "10 calls, every key and digest as it was written" in out
    _, out, _ = gatewise("ledger", "verify", "one.sqlite", "--json")
    assert json.loads(out) == {
        "schema": "gatewise.ledger-verify/1", "ledger": "one.sqlite", "calls": 10, "flaws": [],
    }  # fmt: skip


def test_verify_names_every_row_that_was_changed_and_exits_with_1(gatewise):
    damage("one.sqlite", "UPDATE entries SET raw = x'00' WHERE id IN (3, 7)")
    code, out, err = gatewise("ledger", "verify", "one.sqlite")
    assert code == 1
    assert "row 3" in out
    assert "row 7" in out
    assert "--salvage" in err
    code, out, _ = gatewise("ledger", "verify", "one.sqlite", "--json")
    assert code == 1
    flaws = json.loads(out)["flaws"]
    assert [one["row"] for one in flaws if one["row"]] == [3, 7]
    assert {one["problem"] for one in flaws if one["row"]} == {"the reply is not what its digest was made of"}
    assert sum("trigger" in one["problem"] or "never" in one["problem"] for one in flaws) >= 2


def test_salvage_takes_what_is_sound_and_counts_the_rest(gatewise):
    damage("one.sqlite", "UPDATE entries SET raw = x'00' WHERE id IN (3, 7)")
    code, out, _ = gatewise("ledger", "merge", "new.sqlite", "one.sqlite", "--salvage", "--json")
    assert code == 0
    (merged,) = json.loads(out)["merged"]
    assert merged == {"path": "one.sqlite", "added": 8, "known": 0, "conflicts": 0, "lost": 2}
    assert gatewise("ledger", "verify", "new.sqlite")[0] == 0


def test_export_is_sorted_deterministic_and_merges_back(gatewise, tmp_path):
    code, out, err = gatewise("ledger", "export", "one.sqlite")
    assert (code, err) == (0, "")
    rows = list(map(json.loads, out.splitlines()))
    assert [one["key"] for one in rows] == sorted(one["key"] for one in rows)
    assert {tuple(one) for one in rows} == {
        ("key", "endpoint", "attempt", "kind", "body", "raw", "started", "latency")
    }  # fmt: skip
    fill(tmp_path / "other.sqlite", reversed(range(10)))
    assert gatewise("ledger", "export", "other.sqlite")[1] == out
    code, said, _ = gatewise("ledger", "export", "one.sqlite", "-o", "one.jsonl")
    assert code == 0
    assert "written  one.jsonl" in said
    assert (tmp_path / "one.jsonl").read_text() == out
    gatewise("ledger", "merge", "back.sqlite", "one.jsonl")
    assert gatewise("ledger", "export", "back.sqlite")[1] == out


def test_a_copy_to_ship_is_one_file_that_stands_anywhere(gatewise, tmp_path):
    code, out, _ = gatewise("ledger", "export", "one.sqlite", "-o", "ship.sqlite", "--json")
    assert code == 0
    assert json.loads(out) == {
        "schema": "gatewise.ledger-export/1", "ledger": "one.sqlite", "calls": 10, "output": "ship.sqlite",
    }  # fmt: skip
    fill(tmp_path / "other.sqlite", reversed(range(10)))
    gatewise("ledger", "export", "other.sqlite", "-o", "again.sqlite")
    assert (tmp_path / "ship.sqlite").read_bytes() == (tmp_path / "again.sqlite").read_bytes()
    assert gatewise("ledger", "export", "ship.sqlite")[1] == gatewise("ledger", "export", "one.sqlite")[1]
    assert gatewise("ledger", "verify", "ship.sqlite")[0] == 0
    assert not [name for name in os.listdir(tmp_path) if name.startswith(("ship.sqlite-", "."))]


def test_merging_adds_what_is_new_keeps_the_first_reply_and_can_be_repeated(gatewise, tmp_path):
    fill(tmp_path / "two.sqlite", range(5, 15), "said")
    fill(tmp_path / "three.sqlite", range(12, 20), "otherwise")
    code, out, _ = gatewise("ledger", "merge", "one.sqlite", "two.sqlite", "three.sqlite", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["calls"] == 20
    assert [(one["added"], one["known"], one["conflicts"]) for one in found["merged"]] == [(5, 5, 0), (5, 0, 3)]
    _, before, _ = gatewise("ledger", "export", "one.sqlite")
    code, out, _ = gatewise("ledger", "merge", "one.sqlite", "two.sqlite", "three.sqlite")
    assert "0 calls added" in out
    assert gatewise("ledger", "export", "one.sqlite")[1] == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stats", "none.sqlite"], "no such file"),
        (["verify", "."], "found a folder"),
        (["stats", "text"], "another kind"),
        (["export", "empty"], "an empty file"),
        (["export", "one.sqlite", "-o", "one.csv"], "end in .jsonl or .sqlite"),
        (["export", "one.sqlite", "-o", "one.sqlite"], "apart from what is read"),
        (["export", "one.sqlite", "-o", "no/folder.sqlite"], "expected a folder"),
        (["export", "one.sqlite", "--json"], "expected -o"),
        (["merge", "one.sqlite", "one.sqlite"], "apart from what is read"),
        (["merge", "one.sqlite", "none.sqlite"], "expected a file at none.sqlite"),
        (["merge", "one.sqlite", "text"], "line 1 of text"),
        (["merge", "text", "one.sqlite"], "another kind"),
        (["merge", "no/folder.sqlite", "one.sqlite"], "expected a folder"),
        (["merge", "one.sqlite", "newer.sqlite"], "found format 9"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(gatewise, tmp_path, arguments, said):
    (tmp_path / "text").write_text("this is no ledger, and it is long enough to be one. " * 20)
    (tmp_path / "empty").write_text("")
    fill(tmp_path / "newer.sqlite", [1])
    other = sqlite3.connect(tmp_path / "newer.sqlite")
    other.execute("PRAGMA user_version = 9")
    other.close()
    code, out, err = gatewise("ledger", *arguments)
    assert said in (out + err)
    assert code == 2
    assert gatewise("ledger", "verify", "one.sqlite")[0] == 0
