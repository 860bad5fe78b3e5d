"""The page: traces → one self-contained HTML file to look at, move gates over and send on.

Python computes, the page looks up: it holds every operating point of the exact frontier, and of every state the rank
of its score, so that where an episode stops is read off by comparing ranks. Nothing is loaded from anywhere, and
every text of a model or data set stands in the file as data, never as markup.
"""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from gatewise.replays.calibrators import Score
from gatewise.replays.lookups import Grouping, Lookup, Subset, lookup, texts_of
from gatewise.replays.metrics import Point
from gatewise.replays.policies import Threshold
from gatewise.replays.summaries import BUDGET, GATE
from gatewise.replays.traces import Traces
from gatewise.reports.packing import Pack
from gatewise.reports.passages import Evidence, packed_evidence
from gatewise.reports.snippets import Origin, among, by_option, command, program
from gatewise.reports.tables import NAMES
from gatewise.types import Plan

SCHEMA = "gatewise.page/1"
CAP = 32_000_000  # characters of packed evidence that a page may hold
SCRIPTS = (
    "packs",
    "lookups",
    "views",
    "numbers",
    "curves",
    "rows",
    "table",
    "question",
    "painting",
    "actions",
    "page",
)
POLICY = "default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'"


def page_text(
    traces: Traces,
    *,
    maps: Mapping[str | None, Score] | None = None,
    title: str = "What the gate does",
    gate: Threshold = GATE,
    budget: int = BUDGET,
    origin: Origin | None = None,
    plans: Iterable[Plan] = (),
    cap: int = CAP,
) -> str:
    """Return the page of these traces as one HTML text, to be written as UTF-8.

    `traces` are those to show (of one split, say, but of any number of models); `maps` holds the map of each
    model's calibrated gate; the sliders stand at `gate` and `budget` at first. `plans` adds the evidence of every
    depth, up to `cap` characters once packed.
    """
    books = [lookup(part, calibrated=(maps or {}).get(model)) for model, part in by_model(traces)]
    evidence = packed_evidence(traces, plans)
    kept = evidence if evidence.size <= cap else Evidence()
    note = ""
    if kept is not evidence:
        note = (
            f"The evidence takes {evidence.size / 1e6:,.1f} MB, more than the {cap / 1e6:,.1f} MB that a page holds: "
            "gatewise explore with --plans shows it."
        )
    start = {"lo": gate.lo, "hi": gate.hi, "budget": budget}
    data = packed_page(books, title=title, origin=origin or Origin(), evidence=kept, note=note, start=start)
    return assembled(data, kept, title)


def served_text(books: Sequence[Lookup], *, title: str, origin: Origin) -> str:
    """Return the page without rows and evidence, which it then asks its own server for."""
    data = packed_page(books, title=title, origin=origin, evidence=Evidence(), served=True)
    return assembled(data, Evidence(), title, connects=True)


def by_model(traces: Traces) -> list[tuple[str | None, Traces]]:
    """Return the traces of each model, in the order of names; None, those without one, comes last."""
    models = sorted({*traces.models.tolist()}, key=lambda model: (model is None, model or ""))
    if len(models) == 1:
        return [(models[0], traces)]
    return [(model, traces.select(traces.models == model)) for model in models]


def packed_page(
    books: Sequence[Lookup],
    *,
    title: str,
    origin: Origin,
    evidence: Evidence,
    note: str = "",
    start: Mapping[str, float] | None = None,
    served: bool = False,
) -> str:
    """Return all that a page looks up as one string; rows stay out where a server gives them."""
    pack = Pack()
    header = {
        "schema": SCHEMA,
        "title": title,
        "note": note,
        "start": start or {},
        "served": served,
        "evidence": bool(evidence.places),
        "names": NAMES,
        "split": origin.split,
        "sets": [_set(pack, book, origin, evidence, len(books) > 1, served) for book in books],
    }
    return pack.packed(header)


def _set(pack: Pack, book: Lookup, origin: Origin, evidence: Evidence, several: bool, served: bool) -> dict[str, Any]:
    traces = book.traces
    return {
        "model": book.model,
        "n": len(traces),
        "depths": traces.depths,
        "signal": traces.signal,
        "confidences": pack.array(book.confidences, "f8"),
        "scores": {
            name: {"thresholds": pack.array(one.thresholds, "f8"), "ranks": pack.ranks(one.ranks)}
            for name, one in book.scores.items()
        },
        "everything": _subset(pack, book, book.everything),
        "groupings": [_grouping(pack, book, one, served) for one in book.groupings],
        "rows": None if served else _rows(pack, book, evidence),
        "command": command(origin, book.model, several=several),
        "program": program(origin, book.model, several=several),
    }


def _grouping(pack: Pack, book: Lookup, grouping: Grouping, served: bool) -> dict[str, Any]:
    return {
        "column": grouping.column,
        "values": [None if value is None else str(value) for value in grouping.values],
        "places": None if served else pack.ranks(grouping.places),
        "subsets": [_subset(pack, book, subset) for subset in grouping.subsets],
        "by": by_option(grouping.column),
        "among": [among(grouping.column, value) for value in grouping.values],
    }


def _subset(pack: Pack, book: Lookup, subset: Subset) -> dict[str, Any]:
    surfaces = {
        name: {
            "places": pack.ranks(book.scores[name].thresholds.searchsorted(one.thresholds)),
            "committed": pack.counts(one.committed),
            "correct": pack.counts(one.correct),
            "unlabelled": pack.counts(one.unlabelled),
            "cost": pack.counts(one.cost),
        }
        for name, one in subset.surfaces.items()
    }
    return {
        "n": subset.n,
        "surfaces": surfaces,
        "baselines": {k: p and _counts(p) for k, p in subset.baselines.items()},
    }


def _counts(point: Point) -> dict[str, Any]:
    return {name: getattr(point, name) for name in ("n", "committed", "correct", "unlabelled", "cost")}


def _rows(pack: Pack, book: Lookup, evidence: Evidence) -> dict[str, Any]:
    traces = book.traces
    keys = zip(traces.datasets.tolist(), traces.ids.tolist(), traces.plans.tolist(), strict=True)
    return {
        "lengths": pack.ranks(traces.lengths),
        "codes": pack.ranks(book.codes),
        "correct": pack.array(traces.correct, "i1"),
        "copied": pack.array(traces.copied, "u1"),
        "ids": pack.texts(traces.ids.tolist()),
        "datasets": pack.texts(traces.datasets.tolist()),
        "questions": pack.texts(traces.questions.tolist()),
        "answers": pack.texts(texts_of(traces, "answer").tolist()),
        "evidence": pack.whole([evidence.places.get(key, -1) + 1 for key in keys]) if evidence.places else None,
    }


def assembled(data: str, evidence: Evidence, title: str, *, connects: bool = False) -> str:
    """Return the HTML text around packed data, with a content policy that lets nothing else run or load."""
    style = _static("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(_static(f"{name}.js") for name in SCRIPTS) + "})();\n"
    policy = POLICY.format(script=_source(script), style=_source(style))
    filled = {
        "policy": html.escape(policy + ("; connect-src 'self'" if connects else "")),
        "title": html.escape(title).encode("ascii", "xmlcharrefreplace").decode(),
        "style": style,
        "script": script,
        "data": _inert(data),
        "evidence": _inert(list(evidence.chunks)),
    }
    pieces = _static("index.html").split("%%")  # text, name, text, name, …, text
    return "".join(filled[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def _static(name: str) -> str:
    return (resources.files("gatewise.reports") / "static" / name).read_text("utf-8")


def _source(text: str) -> str:
    """Return the hash by which a content policy knows an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _inert(value: Any) -> str:
    """Return JSON that can stand in a script element: nothing in it ends the element or opens a comment."""
    return json.dumps(value).replace("<", "\\u003c")
