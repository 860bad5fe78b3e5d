"""Kills: a study that is recorded by processes that end at random moments, and what the server saw of it.

The server runs in a process of its own, so that it has seen whatever was sent. Right after each kill the ledger is
read: what is in it has been paid for and kept, and must never be asked for again.
"""

import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pyarrow as pa
import pyarrow.parquet as pq

from gatewise.recordings.ledger import Ledger
from gatewise.studies import running
from gatewise.studies.designs import read_study
from gatewise.studies.recording import Limits, recording_steps
from gatewise.studies.steps import local_steps

os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
AT_ONCE = 8  # calls under way, of the model and of the judge
STUDY = f"""
[study]
name = "killed"
[[data]]
dataset = "worldfacts"
limit = LIMIT
[[models]]
name = "one"
url = "URL"
model = "m"
logprobs = true
p_true = true
concurrency = {AT_ONCE}
[judge]
kind = "model"
url = "URL"
model = "judge"
concurrency = {AT_ONCE}
"""


@contextmanager
def serving(latency):
    """Yield the address of a scripted server in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("scripted.py")), "--latency", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def seen_by(url):
    """Return how often the server saw each body, by its hash."""
    with build_opener(ProxyHandler({})).open(url.removesuffix("/v1") + "/seen") as reply:
        return Counter(json.load(reply))


_FORKS = multiprocessing.get_context("forkserver")  # what takes seconds to import is there when a run begins
_FORKS.set_forkserver_preload(["gatewise.studies.recording", "gatewise.recordings.chats", "pyarrow.parquet"])


def record(path):
    """Do the steps of a study that ask."""
    work = running.Work(read_study(path), cache=path.parent)
    steps = local_steps() | recording_steps(Limits())
    for done in running.run(work, steps, only=("plan", "record", "judge")):
        assert done.how in ("done", "unchanged"), done


def started(path):
    """Return a process that records a study."""
    process = _FORKS.Process(target=record, args=(path,))
    process.start()
    return process


def ended(process, patience=300):
    """Wait until a process has done what it was to do; say whether it has, or still runs."""
    process.join(patience)
    assert process.exitcode in (None, 0)
    return process.exitcode == 0


def written(folder, url, limit):
    """Return the file of a study that is to be recorded in a folder."""
    folder.mkdir(parents=True)
    path = folder / "study.toml"
    path.write_text(STUDY.replace("URL", url).replace("LIMIT", str(limit)))
    return path


def table_of(path):
    """Return the bytes of a study's trace table, without the column that a clock fills."""
    table = pq.read_table(path.parent / "killed" / "traces" / "one.parquet").drop_columns(["latency_s"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def kept_in(path):
    """Return the hashes of the bodies whose replies a study's ledger holds, and check that it is whole."""
    place = path.parent / "killed" / "ledger.sqlite"
    if not place.exists():
        return set()
    with Ledger.open(place) as ledger:
        return {hashlib.sha256(entry.body.encode()).hexdigest() for entry in ledger.entries()}


@dataclass
class Kills:
    """What kills did; the last four must stay 0."""

    kills: int = 0
    in_studies: list[int] = field(default_factory=list)  # how many each study took
    requests: int = 0  # that the server saw
    distinct: int = 0
    under_way: int = 0  # requests that kills caught before their reply was kept
    again: int = 0  # requests seen a second time
    paid_twice: int = 0  # requests seen again after their reply was in the ledger
    unexplained: int = 0  # requests seen again though no kill caught them
    too_many: int = 0  # kills that caught more requests than may be under way
    different: int = 0  # tables that are not that of the uninterrupted run


def killed(folder, url, limit, kills, random, *, longest=10):
    """Kill runs at random moments until there were so many kills, end each study, and return what became of it.

    A study is killed again and again until a run ends before its moment, or `longest` times.
    """
    found = Kills()
    whole = written(folder / "whole", url, limit)
    begun = time.monotonic()
    assert ended(started(whole))
    taken = time.monotonic() - begun
    expected = table_of(whole)
    while found.kills < kills:
        path = written(folder / f"study-{len(found.in_studies)}", url, limit)
        before, last, caught, kept = seen_by(url), Counter(), Counter(), {}
        deaths = 0
        while deaths < longest and found.kills + deaths < kills and death(path, random.uniform(0, taken)):
            deaths += 1
            seen, here = seen_by(url) - before, kept_in(path)
            now = Counter({one: count - last[one] for one, count in seen.items() if one not in here}) - Counter()
            caught += now
            found.too_many += now.total() > AT_ONCE
            for one in here:
                kept.setdefault(one, seen[one])
            last = seen
        assert ended(started(path))
        seen = seen_by(url) - before
        found.kills += deaths
        found.in_studies.append(deaths)
        found.requests += seen.total()
        found.distinct += len(seen)
        found.under_way += caught.total()
        found.again += seen.total() - len(seen)
        found.paid_twice += sum(seen[one] != count for one, count in kept.items())
        found.unexplained += sum(count > 1 + caught[one] for one, count in seen.items())
        found.different += table_of(path) != expected
    return found


def death(path, seconds):
    """Record a study and kill the process after so many seconds; say whether it was still running."""
    process = started(path)
    if ended(process, seconds):
        return False
    process.kill()
    process.join()
    time.sleep(0.1)  # whatever is on its way to the server arrives
    return True
