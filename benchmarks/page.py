"""How fast the page answers: a slider at 2,457 and 100,000 traces, and the first paint of a served million.

python benchmarks/page.py [TRACES]
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser import found
from gatewise import Traces, calibrate
from gatewise.files import reconstruction, write_traces
from gatewise.replays.arrays import Coded, objects
from gatewise.reports.page import page_text

MODEL = "gpt-oss-120b"
REPAINT = """async (steps) => {
  const slider = document.getElementById("hi"), taken = [];
  for (let step = 0; step < steps; step++) {
    await new Promise(requestAnimationFrame);
    const start = performance.now();
    slider.value = 0.3 + 0.6 * (step % 17) / 17;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise(requestAnimationFrame);
    taken.push(performance.now() - start);
  }
  const middle = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
  return [middle(taken), middle(gatewise.work().slice(-steps))];
}"""
PAINT = "performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint')?.startTime"


def made(n: int, seed: int = 0) -> Traces:
    """Return n traces of four depths with questions, answers, two data sets and a calibration split."""
    rng = np.random.default_rng(seed)
    ids = objects([f"q{place:07}" for place in range(n)])
    questions = objects([f"What follows number {place:07}, and who first said so?" for place in range(n)])
    trace = np.repeat(np.arange(n), 4)
    few = {"answer": ["yes", "no", "perhaps", "Berlin"], "dataset": ["one", "two"]}
    return Traces.from_columns(
        {
            "trace_id": Coded(trace, ids),
            "question": Coded(trace, questions),
            "depth": np.tile(np.arange(4), n),
            "confidence": rng.integers(0, 21, 4 * n) / 20,
            "correct": rng.random(4 * n) < 0.6,
            "answer": Coded(rng.integers(0, 4, 4 * n), objects(sorted(few["answer"]))),
            "dataset": Coded(np.repeat(rng.integers(0, 2, n), 4), objects(few["dataset"])),
            "split": Coded(np.repeat(np.arange(n) % 10 > 0, 4).astype(int), objects(["calibration", "test"])),
        }
    )


def main() -> None:
    """Print what a browser measures."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    folder = Path(tempfile.mkdtemp(prefix="gatewise-page-"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found(), args=["--no-sandbox"])
        for name, traces in (("2,457 traces", reconstruction(MODEL)), ("100,000 traces", made(100_000))):
            start = time.perf_counter()
            model = traces.models[0]
            text = page_text(traces.split("test"), maps={model: calibrate(traces)})
            took = time.perf_counter() - start
            path = folder / "page.html"
            path.write_text(text, "utf-8")
            tab = browser.new_page()
            tab.goto(path.as_uri())
            tab.wait_for_selector("#rows .id")
            frame, work = tab.evaluate(REPAINT, 60)
            paint = tab.evaluate(PAINT)
            print(f"  {name}: page of {len(text) / 1e6:.2f} MB made in {took:.2f} s; first paint {paint:.0f} ms;")
            print(f"    slider: work {work:.1f} ms, input to frame {frame:.1f} ms")
            tab.close()
        table = folder / "many.parquet"
        write_traces(made(n), table)
        start = time.perf_counter()
        command = [sys.executable, "-m", "gatewise", "explore", str(table)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            address = process.stdout.readline().strip()
            ready = time.perf_counter() - start
            tab = browser.new_page()
            start = time.perf_counter()
            tab.goto(address)
            tab.wait_for_selector("#numbers td")
            numbers = time.perf_counter() - start
            tab.wait_for_selector("#rows .id")
            rows = time.perf_counter() - start
            start = time.perf_counter()
            tab.fill("#find", f"number {n * 7 // 9 | 1:07}")  # odd, and so in the test split
            while tab.locator("#rows .id").count() != 1 and time.perf_counter() - start < 60:
                tab.wait_for_timeout(20)
            search = time.perf_counter() - start
            frame, work = tab.evaluate(REPAINT, 60)
            print(f"  {n:,} traces served: ready after {ready:.1f} s; first paint {tab.evaluate(PAINT):.0f} ms,")
            print(f"    numbers {1000 * numbers:.0f} ms, rows {1000 * rows:.0f} ms, a search {1000 * search:.0f} ms;")
            print(f"    slider: work {work:.1f} ms, input to frame {frame:.1f} ms")
            process.terminate()
        browser.close()


if __name__ == "__main__":
    main()
