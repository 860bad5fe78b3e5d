"""Slow, obvious implementations of the method, row by row in plain Python: what the fast paths must equal.

Nothing here imports gatewise. A trace is a list of states by depth; a state is a dict with `confidence` and
`correct` (None where missing), `cost` (price of reaching it) and `new` (whether its evidence is new).
"""

import itertools
import math
import re
from fractions import Fraction


def isotonic(records):
    """Knots of the isotonic map of (confidence, correct) records: exact pools, by repeated merging."""
    counts = {}
    for v, y in records:
        if v is not None and y is not None:
            right, n = counts.get(v, (0, 0))
            counts[v] = (right + bool(y), n + 1)
    if not counts:
        return None
    blocks = [([v], right, n) for v, (right, n) in sorted(counts.items())]
    while True:
        for i in range(len(blocks) - 1):
            (a, ra, na), (b, rb, nb) = blocks[i], blocks[i + 1]
            if Fraction(ra, na) >= Fraction(rb, nb):
                blocks[i : i + 2] = [(a + b, ra + rb, na + nb)]
                break
        else:
            return [(v, right / n) for vs, right, n in blocks for v in vs]


def phi(knots, v):
    """The isotonic map at v: linear between knots, flat outside, exact at knots; None for None."""
    if v is None:
        return None
    if v <= knots[0][0]:
        return knots[0][1]
    for (x0, y0), (x1, y1) in itertools.pairwise(knots):
        if v == x1:
            return y1
        if x0 < v < x1:
            return min((y1 - y0) / (x1 - x0) * (v - x0) + y0, y1)
    return knots[-1][1]


def gate(trace, lo, hi, budget, score=lambda v, t: v):
    """(action, depth) of the threshold gate on one trace."""
    for t, state in enumerate(trace):
        s = score(state["confidence"], t)
        if s is not None and s >= hi:
            return "commit", t
        if t < budget and t + 1 < len(trace):
            continue
        if s is not None and s <= lo:
            return "abstain", t
        return "escalate", t
    raise AssertionError("a trace has a state")


def fixed(trace, depth):
    return "commit", min(depth, len(trace) - 1)


MARKERS = ["same", "both", "whose", "which", "who was", "before", "after"]


def proxy(question):
    n = len(re.findall(r"[A-Za-z0-9]+", question))
    m = sum(1 for marker in MARKERS if marker in question.lower())
    if n >= 18 or m >= 2:
        return 3
    if n >= 9 or m == 1:
        return 2
    return 1


def div(a, b):
    return a / b if b else None


def point(traces, walks):
    """P of the contract, from the traces and (action, depth) of each."""
    committed = [(tr, t) for tr, (a, t) in zip(traces, walks, strict=True) if a == "commit"]
    labels = [tr[t]["correct"] for tr, t in committed]
    correct = sum(y is True for y in labels)
    unlabelled = sum(y is None for y in labels)
    cost = math.fsum(state["cost"] for tr, (_, t) in zip(traces, walks, strict=True) for state in tr[: t + 1])
    n = len(traces)
    actions = [a for a, _ in walks]
    return {
        "n": n,
        "committed": len(committed),
        "correct": correct,
        "unlabelled": unlabelled,
        "cost": cost,
        "overall_accuracy": div(correct, n - unlabelled),
        "committed_accuracy": div(correct, len(committed) - unlabelled),
        "coverage": div(len(committed), n),
        "mean_cost": div(cost, n),
        "actions": {name: actions.count(name) for name in ("commit", "abstain", "escalate")},
        "bounds": {
            "overall_accuracy": [div(correct, n), div(correct + unlabelled, n)],
            "committed_accuracy": [div(correct, len(committed)), div(correct + unlabelled, len(committed))],
        },
    }


def ece(records):
    """Σ n_b/N |mean score − accuracy| over bins min(int(10 s), 9)."""
    records = [(s, y) for s, y in records if s is not None and y is not None]
    if not records:
        return None
    total = Fraction(0)
    for b in range(10):
        inside = [(s, y) for s, y in records if min(int(10 * s), 9) == b]
        total += abs(sum((Fraction(s) for s, _ in inside), Fraction(0)) - sum(y for _, y in inside))
    return float(total / len(records))


def brier(records):
    records = [(s, y) for s, y in records if s is not None and y is not None]
    return div(math.fsum((s - y) ** 2 for s, y in records), len(records))


def auroc(records):
    right = [s for s, y in records if s is not None and y is True]
    wrong = [s for s, y in records if s is not None and y is False]
    wins = sum((a > b) + Fraction(a == b, 2) for a in right for b in wrong)
    return float(wins / (len(right) * len(wrong))) if right and wrong else None


def aurc(records):
    """Mean over all orders within ties of the mean selective risk of the best k."""
    records = [(s, y) for s, y in records if s is not None and y is not None]
    if not records:
        return None
    groups = [list(group) for _, group in itertools.groupby(sorted(records, reverse=True), key=lambda r: r[0])]
    total, orders = Fraction(0), 0
    for arrangement in itertools.product(*(itertools.permutations(group) for group in groups)):
        flat = [y for group in arrangement for _, y in group]
        wrong = 0
        for k, y in enumerate(flat, 1):
            wrong += not y
            total += Fraction(wrong, k)
        orders += 1
    return float(total / orders / len(records))


def transitions(traces):
    pairs = [
        (a["correct"], b["correct"])
        for tr in traces
        for a, b in itertools.pairwise(tr)
        if b["new"] and a["correct"] is not None and b["correct"] is not None
    ]
    return {
        "n": len(pairs),
        "helpful": sum(not a and b for a, b in pairs),
        "harmful": sum(a and not b for a, b in pairs),
    }


TAUS = (0.20, 0.33, 0.50, 0.67, 0.70, 0.80, 0.90, 0.95)


def summary(traces, questions, datasets, knots, lo, hi, budget):
    """The contract's numbers, except maps and equivalents, for traces with questions and data set names."""
    scores = {"raw": lambda v, t: v}
    if knots:
        scores["calibrated"] = lambda v, t: phi(knots, v)
    deepest = max(len(tr) for tr in traces) - 1

    def gated(part, name, lo, hi, budget):
        if name not in scores:
            return None
        return point(part, [gate(tr, lo, hi, budget, scores[name]) for tr in part])

    def systems(chosen):
        part = [traces[i] for i in chosen]
        found = {"parametric": point(part, [fixed(tr, 0) for tr in part])}
        for k in (1, 2, 3):
            found[f"rag@{k}"] = point(part, [fixed(tr, k) for tr in part])
        if all(questions[i] and questions[i].strip() for i in chosen):
            found["adaptive"] = point(part, [fixed(traces[i], proxy(questions[i])) for i in chosen])
        for name in ("raw", "calibrated"):
            found[name] = gated(part, name, lo, hi, budget)
        return found

    def by_depth(metric):
        found = {}
        for name in ("raw", "calibrated"):
            if name not in scores:
                found[name] = None
                continue
            found[name] = [
                metric([(scores[name](tr[d]["confidence"], d), tr[d]["correct"]) for tr in traces if len(tr) > d])
                for d in range(deepest + 1)
            ]
        return found

    everyone = range(len(traces))
    d = min(3, deepest)
    top = [tr[d] for tr in traces if len(tr) > d and tr[d]["confidence"] is not None and tr[d]["confidence"] >= 0.9]
    judged = [s for s in top if s["correct"] is not None]
    return {
        "systems": {
            "pooled": systems(everyone),
            **{
                name: systems([i for i in everyone if datasets[i] == name])
                for name in sorted({x for x in datasets if x is not None})
            },
        },
        "thresholds": {
            name: [{"tau": tau, **gated(traces, name, min(0.3, tau), tau, 3)} for tau in TAUS]
            if name in scores
            else None
            for name in ("raw", "calibrated")
        },
        "budgets": {
            name: [{"budget": b, **gated(traces, name, 0.3, 0.7, b)} for b in range(deepest + 1)]
            if name in scores
            else None
            for name in ("raw", "calibrated")
        },
        "calibration_error": by_depth(ece),
        "brier": by_depth(brier),
        "auroc": by_depth(auroc),
        "transitions": transitions(traces),
        "top_bin": {
            "depth": d,
            "n": len(top),
            "raw": div(math.fsum(s["confidence"] for s in top), len(top)),
            "accuracy": div(sum(s["correct"] for s in judged), len(judged)),
            "calibrated": div(math.fsum(phi(knots, s["confidence"]) for s in top), len(top)) if knots else None,
        },
    }


def close(found, expected, path=""):
    """Counts and ratios of counts equal to the last bit; means of scores to 1e-12."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert key in found, f"{path}.{key}"
            close(found[key], value, f"{path}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for place, (a, b) in enumerate(zip(found, expected, strict=True)):
            close(a, b, f"{path}[{place}]")
    elif isinstance(expected, float) and not any(k in path for k in ("systems", "thresholds", "budgets")):
        assert found == expected or abs(found - expected) <= 1e-12, path
    else:
        assert found == expected, path


# Questions and plans: a passage is a dict with `title`, `text` and `supporting`.


def tokens_of(text):
    """Lower-cased runs of a-z and 0-9, character by character."""
    found, run = [], ""
    for character in text.lower() + " ":
        if character in "abcdefghijklmnopqrstuvwxyz0123456789":
            run += character
        elif run:
            found.append(run)
            run = ""
    return found


def lexical_of(question, passage):
    """Share of the question's distinct tokens that occur in title, one space, text."""
    asked = set(tokens_of(question))
    told = tokens_of(passage["title"] + " " + passage["text"])
    return sum(token in told for token in asked) / len(asked) if asked else 0.0


def cosine_of(one, two):
    """Cosine of two vectors, 0 where one has no length."""
    length = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in two))
    return sum(x * y for x, y in zip(one, two, strict=True)) / length if length else 0.0


def minmax_of(column):
    """A column stretched to [0, 1], all 0 where it is constant."""
    low, high = min(column), max(column)
    return [(value - low) / (high - low) if high > low else 0.0 for value in column]


def ranked_of(columns, places):
    """Places by the mean of their columns' min–max over those places, highest first, ties in the order given."""
    places = list(places)
    if not places:
        return []
    r = dict.fromkeys(places, 0.0)
    for column in columns:
        for place, value in zip(places, minmax_of([column[place] for place in places]), strict=True):
            r[place] += value / len(columns)
    ordered = []
    for place in places:  # insertion: behind all that are as high or higher
        at = sum(r[other] >= r[place] for other in ordered)
        ordered.insert(at, place)
    return ordered


def paper_slices(passages, columns, slices=3, kept=None):
    """The paper's plan: g0 d0 g1 d1 …, passage i into slice 1 + (i mod slices)."""
    supports = [place for place, passage in enumerate(passages) if passage["supporting"]]
    others = [place for place, passage in enumerate(passages) if not passage["supporting"]]
    distractors = ranked_of(columns, others)
    if kept is not None:
        distractors = distractors[:kept]
    shown = []
    while supports or distractors:
        if supports:
            shown.append(supports.pop(0))
        if distractors:
            shown.append(distractors.pop(0))
    found = [[] for _ in range(slices)]
    for i, place in enumerate(shown):
        found[i % slices].append(place)
    return found


def proxy_depth_of(question):
    """How deep the adaptive proxy goes."""
    tokens = re.findall("[A-Za-z0-9]+", question)
    markers = 0
    for marker in ("same", "both", "whose", "which", "who was", "before", "after"):
        markers += marker in question.lower()
    if len(tokens) >= 18 or markers >= 2:
        return 3
    if len(tokens) >= 9 or markers == 1:
        return 2
    return 1
