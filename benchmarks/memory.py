"""Memory and time of a recording as its states grow: planned, asked of a model that answers at once, judged.

python benchmarks/memory.py [STATES …]          (each in a process of its own; default 10,000 and 100,000)
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

DEPTHS = 4
STEPS = ("plan", "record", "judge")
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
CONTENT = '{"answer": "a", "confidence": 70}'
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": CONTENT}}],
    "usage": {"prompt_tokens": 400, "completion_tokens": 12, "total_tokens": 412},
}
RAW = json.dumps(REPLY)


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


def record(work: Any, states: int) -> dict[str, Any]:
    """Record so many states by calls that are answered at once, and return what each step took."""
    from gatewise.recordings.calls import Reply, Request
    from gatewise.studies import recording, running
    from gatewise.studies.steps import local_steps

    @asynccontextmanager
    async def opened(asked: Any, work: Any) -> AsyncIterator[tuple[str, Any, int]]:
        async def ask(request: Request) -> Reply:
            return Reply(RAW, 1.7e9, 0.01)

        yield recording.settings_of(asked, work.design).address, ask, asked.concurrency

    recording.opened = opened
    steps = local_steps() | recording.recording_steps(recording.Limits())
    return {step: taken(lambda step=step: list(running.run(work, steps, only=(step,)))) for step in STEPS}


def batch(work: Any, states: int) -> dict[str, Any]:
    """Record so many states by a batch file and its results, and return what writing and reading took."""
    from gatewise.studies import batching, running
    from gatewise.studies.steps import local_steps

    list(running.run(work, local_steps(), only=("plan",)))
    results = work.design.folder / "results.jsonl"
    sheets: list[Any] = []
    figures = {"write": taken(lambda: sheets.extend(batching.write_batches(work, work.design.out / "batch")))}
    with results.open("w") as out:
        for sheet in sheets:
            with sheet.path.open() as lines:
                for line in lines:
                    key = line[13:79]  # {"custom_id":"…"
                    out.write(f'{{"custom_id":{key},"response":{{"status_code":200,"body":{RAW}}},"error":null}}\n')
    return figures | {"read": taken(lambda: batching.read_batches(work, [results]))}


def taken(act: Callable[[], object]) -> dict[str, float]:
    """Return the seconds that something took, of them on the CPU, and the largest memory so far in MiB."""
    begun, used = time.perf_counter(), time.process_time()
    act()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - used, "peak": peak}


def one(how: Callable[[Any, int], dict[str, Any]], states: int) -> None:
    """Record so many states in this process, and print what it took as one line of JSON."""
    from gatewise.studies import running
    from gatewise.studies.designs import read_study

    with tempfile.TemporaryDirectory() as folder:
        questions(Path(folder) / "made.jsonl", states // DEPTHS)
        path = Path(folder) / "study.toml"
        path.write_text(STUDY)
        work = running.Work(read_study(path), cache=Path(folder))
        print(json.dumps(how(work, states) | {"ledger": work.design.ledger.stat().st_size >> 20}))


def main() -> None:
    """Print time and peak memory for each number of states, by calls and by batches."""
    sizes = [int(size) for size in sys.argv[1:]] or [10_000, 100_000]
    for states in sizes:
        for how in ("record", "batch"):
            command = [sys.executable, __file__, f"--{how}", str(states)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            figures = json.loads(done.stdout)
            ledger = figures.pop("ledger")
            for step, took in figures.items():
                each = 1e6 * took["cpu"] / states
                time_ = f"{took['seconds']:8.1f} s  {each:5.0f} µs CPU a state"
                print(f"  {states:>9,} states  {step:7} {time_}  peak {took['peak']:,} MiB")
            print(f"  {states:>9,} states  ledger {ledger:,} MiB", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] in (["--record"], ["--batch"]):
        one(record if sys.argv[1] == "--record" else batch, int(sys.argv[2]))
    else:
        main()
