"""The study that ships: sound, whole, and the same to the byte when it is run."""

import hashlib
import json
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from gatewise import files
from gatewise.recordings.ledger import Ledger


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    before = hashlib.sha256(files.LEDGER.read_bytes()).hexdigest()
    command = [sys.executable, "-m", "gatewise", "demo", "-o", str(folder / "report"), "--json"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"GATEWISE_CACHE": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(files.LEDGER.read_bytes()).hexdigest() == before
    beside = {one.name for one in files.LEDGER.parent.iterdir() if one.name.startswith(files.LEDGER.name)}
    assert beside == {files.LEDGER.name}  # nothing is written beside it
    return folder, json.loads(done.stdout)


def test_the_bundled_ledger_is_sound_and_holds_every_call():
    with Ledger.open(files.LEDGER, readonly=True) as ledger:
        assert list(ledger.verify()) == []
        kinds = [entry.kind for entry in ledger.entries()]
    assert (kinds.count("answer"), kinds.count("p_true"), len(kinds)) == (2880, 2874, 5754)
    assert files.LEDGER.read_bytes()[18:20] == b"\x01\x01"  # outside write-ahead mode


def test_the_demo_asks_nobody_and_ends_in_a_report(ran):
    folder, told = ran
    assert [step["how"] for step in told["steps"]] == ["done"] * 6
    assert "0 calls made" in json.dumps(told)
    assert (folder / "report" / "index.html").stat().st_size > 100_000


def test_the_demo_writes_the_bundled_trace_table_byte_for_byte(ran):
    folder, _ = ran
    assert (folder / "cache" / "demo" / "traces" / "qwen-1.5b.parquet").read_bytes() == files.TRACES.read_bytes()


def test_the_demo_from_another_folder_writes_its_report_there_and_says_where(ran, tmp_path):
    folder, _ = ran
    for how in ("done", "unchanged"):
        done = subprocess.run(
            [sys.executable, "-m", "gatewise", "demo", "-o", "again"],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env=os.environ | {"GATEWISE_CACHE": str(folder / "cache")},
        )
        assert (tmp_path / "again" / "index.html").is_file()
        assert f"report     {how:10} open {tmp_path / 'again' / 'index.html'}" in done.stdout
        assert "record     unchanged" in done.stdout


def test_the_bundled_study_teaches():
    rows = pq.read_table(files.TRACES).to_pylist()
    assert len(rows) == 720 * 4
    right = [sum(bool(row["correct"]) for row in rows if row["depth"] == depth) / 720 for depth in range(4)]
    assert 0.2 <= right[0] <= 0.4
    assert right[3] >= 0.6
    assert right == sorted(right)
    assert [f"{one:.3f}" for one in right] == ["0.349", "0.433", "0.500", "0.824"]  # as docs/worldfacts.md says
    for signal in ("confidence", "token_probability", "p_true"):
        assert len({row[signal] for row in rows}) >= 10
    splits = {
        split: sum(row["split"] == split for row in rows) // 4 for split in ("calibration", "validation", "test")
    }
    assert splits == {"calibration": 360, "validation": 180, "test": 180}
    missing = [row["missing_reason"] for row in rows if row["missing_reason"]]
    assert sorted(missing) == ["unreadable: no object"] * 5 + ["unreadable: truncated"]


def test_asking_anew_names_the_weights_that_it_lacks(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "gatewise", "demo", "--fresh", "-o", str(tmp_path / "report")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"GATEWISE_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 2
    assert "gatewise fetch model qwen-1.5b" in done.stderr or "Install gatewise[local]" in done.stderr
