"""Memory and time of a recording as its states grow: planned, asked of a model that answers at once, judged.

python benchmarks/memory.py [STATES …]          (each in a process of its own; default 10,000 and 100,000)
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

DEPTHS = 4
STUDY = """
[study]
name = "grown"
[[data]]
dataset = "made"
file = "made.jsonl"
[plan]
split = "random"
[[models]]
name = "one"
url = "http://127.0.0.1:9/v1"
model = "m"
concurrency = 256
prices = {input = 1.0, output = 2.0}
[judge]
kind = "exact"
"""
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": '{"answer": "a", "confidence": 70}'},
        }
    ],
    "usage": {"prompt_tokens": 400, "completion_tokens": 12, "total_tokens": 412},
}


def questions(path: Path, count: int) -> None:
    """Write questions with passages of a hundred words."""
    with path.open("w") as out:
        for number in range(count):
            passages = [
                {"title": f"T{number} {place}", "text": f"word {place} of {number} " * 25, "supporting": place < 2}
                for place in range(5)
            ]
            row = {"id": f"q{number}", "question": f"What is {number}?", "answers": ["a"], "passages": passages}
            out.write(json.dumps(row) + "\n")


def one(states: int) -> None:
    """Record so many states, and print what they took as one line of JSON."""
    from gatewise.recordings.calls import Reply, Request
    from gatewise.studies import recording, running
    from gatewise.studies.designs import read_study
    from gatewise.studies.steps import local_steps

    raw = json.dumps(REPLY)

    @asynccontextmanager
    async def opened(asked: Any, work: Any) -> AsyncIterator[tuple[str, Any, int]]:
        async def ask(request: Request) -> Reply:
            return Reply(raw, 1.7e9, 0.01)

        yield recording.settings_of(asked, work.design).address, ask, asked.concurrency

    recording.opened = opened
    figures: dict[str, Any] = {"states": states}
    with tempfile.TemporaryDirectory() as folder:
        questions(Path(folder) / "made.jsonl", states // DEPTHS)
        path = Path(folder) / "study.toml"
        path.write_text(STUDY)
        work = running.Work(read_study(path), cache=Path(folder))
        steps = local_steps() | recording.recording_steps(recording.Limits())
        for step in ("plan", "record", "judge"):
            begun, used = time.perf_counter(), time.process_time()
            list(running.run(work, steps, only=(step,)))
            figures[step] = {
                "seconds": time.perf_counter() - begun,
                "cpu": time.process_time() - used,
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            }
        figures["ledger"] = work.design.ledger.stat().st_size >> 20
    print(json.dumps(figures))


def main() -> None:
    """Print time and peak memory for each number of states."""
    sizes = [int(size) for size in sys.argv[1:]] or [10_000, 100_000]
    for states in sizes:
        command = [sys.executable, __file__, "--one", str(states)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        figures = json.loads(done.stdout)
        for step in ("plan", "record", "judge"):
            took = figures[step]
            each = 1e6 * took["cpu"] / states
            print(f"  {states:>9,} states  {step:7} {took['seconds']:8.1f} s  {each:7.0f} µs CPU a state  "
                  f"peak {took['peak']:,} MiB")  # fmt: skip
        print(f"  {states:>9,} states  ledger {figures['ledger']:,} MiB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(int(sys.argv[2]))
    else:
        main()
