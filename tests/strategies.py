"""Trace sets that Hypothesis makes: ragged, tied, on bin edges, with nulls and prices."""

import numpy as np
from hypothesis import strategies as st

from gatewise import Traces

EDGES = [0.0, 0.1, 0.2, 0.3, 0.30000000000000004, 0.33, 0.5, 0.6, 0.67, 0.7, 0.8, 0.9, 0.95, 1.0]
tied = st.sampled_from(EDGES)
grid = st.integers(0, 100).map(lambda k: k / 100)
continuous = st.floats(0, 1)
verdicts = st.sampled_from([True, False, True, False, None])
QUESTIONS = [
    "Who wrote Ulysses?",
    "In which year was the man born?",
    "Which of the two, both alive, is older?",
    "Name a thing that floats on cold sea water at night in winter.",
    "Who was it",
    "A-1 b2 c d e f g h",
    "one two three four five six seven eight nine ten eleven twelve 13 14 15 16 17 18",
]


@st.composite
def tables(draw, *, most=12, depths=4, splits=True, confidences=None, prices=True, nulls=True):
    """A list of traces: dicts with id, question, dataset, split and states."""
    numbers = confidences if confidences is not None else draw(st.sampled_from([tied, grid, continuous]))
    confidence = st.one_of(numbers, numbers, numbers, st.none()) if nulls else numbers
    price = st.one_of(st.just(1.0), st.floats(0, 1e6), st.sampled_from([0.1, 0.0003, 1e-12, 0.0]))
    priced = prices and draw(st.booleans())
    count = draw(st.integers(1, most))
    found = []
    for place in range(count):
        states = [
            {
                "confidence": draw(confidence),
                "correct": draw(verdicts if nulls else st.booleans()),
                "cost": 0.0 if depth == 0 else (draw(price) if priced else 1.0),
                "new": depth == 0 or draw(st.booleans()) or draw(st.booleans()),
            }
            for depth in range(draw(st.integers(1, depths)))
        ]
        found.append(
            {
                "id": f"t{place}",
                "question": f"{draw(st.sampled_from(QUESTIONS))}{place}",
                "dataset": draw(st.sampled_from(["alpha", "beta"])),
                "split": draw(st.sampled_from(["calibration", "validation", "test", "test"])) if splits else "test",
                "states": states,
            }
        )
    return found


def rows(table):
    """Rows of the trace table, one a state."""
    return [
        {
            "trace_id": trace["id"],
            "dataset": trace["dataset"],
            "split": trace["split"],
            "question": trace["question"],
            "depth": depth,
            "confidence": state["confidence"],
            "correct": state["correct"],
            "cost": state["cost"],
            "new_passages": int(state["new"]),
        }
        for trace in table
        for depth, state in enumerate(trace["states"])
    ]


def columns(table):
    """Columns of the trace table."""
    flat = rows(table)
    return {name: [row[name] for row in flat] for name in flat[0]}


def traces(table):
    """The table as gatewise holds it."""
    return Traces.from_columns(columns(table))


def states(table):
    """The table as the oracles take it, in the order of ids that Traces keeps."""
    ordered = sorted(table, key=lambda trace: trace["id"])
    return [trace["states"] for trace in ordered]


def shuffled(values, seed):
    """Columns with their rows in another order."""
    order = np.random.default_rng(seed).permutation(len(next(iter(values.values()))))
    return {name: [column[i] for i in order] for name, column in values.items()}


def coded(n, levels, seed=0, nulls=True):
    """Random blocks of level codes and labels, as the frontier's kernels take them."""
    rng = np.random.default_rng(seed)
    codes = np.asfortranarray(rng.integers(0 if nulls else 1, levels + 1, (n, 4)))
    labels = np.asfortranarray(rng.integers(-1 if nulls else 0, 2, (n, 4)).astype(np.int8))
    return codes.astype(np.min_scalar_type(levels)), labels
