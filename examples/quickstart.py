"""From a trace table to a gate: fit a map, replay, compare, and read the frontier at a risk.

python examples/quickstart.py [TRACES]
"""

import sys

from gatewise import Threshold, calibrate, compare, equivalent_raw, frontier, measure, read, replay
from gatewise.files import read_traces, reconstruction


def main() -> None:
    """Print what the raw and the calibrated gate do on the same states."""
    traces = read_traces(sys.argv[1]) if len(sys.argv) > 1 else reconstruction("mistral-small-2603")
    score = calibrate(traces)
    test = traces.split("test")
    gate = Threshold(lo=0.3, hi=0.7)
    raw, calibrated = replay(test, gate), replay(test, gate, score=score)
    for name, episodes in (("raw", raw), ("calibrated", calibrated)):
        point = measure(episodes)
        print(
            f"{name:10}  OA {point.overall_accuracy:.3f}  coverage {point.coverage:.3f}  cost {point.mean_cost:.2f}"
        )
    print("right answers gained:", compare(raw, calibrated).correct)
    print("the raw gate that acts like the calibrated one:", equivalent_raw(score, gate.lo, gate.hi))
    for reading in read(frontier(test), "risk", 0.2):
        if reading:
            coverage = reading.point.coverage
            print(f"budget {reading.budget}: risk ≤ .2 at threshold {reading.threshold}, coverage {coverage:.3f}")


if __name__ == "__main__":
    main()
