"""Exploring: traces and maps → what a page looks up, model by model, and the functions that answer it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gatewise.replays.calibrators import Map, doubts, require_no_leak, require_same_signal
from gatewise.replays.lookups import Lookup, lookup
from gatewise.replays.summaries import Progress
from gatewise.replays.traces import Traces
from gatewise.reports.page import by_model, served_text
from gatewise.reports.passages import packed_evidence
from gatewise.reports.shelves import Shelf, shelf_answers
from gatewise.reports.snippets import Origin
from gatewise.studies.choosing import map_for, map_of_model, part_of
from gatewise.types import Plan


def look_up(
    traces: Traces,
    *,
    split: str = "test",
    maps: Sequence[Map] = (),
    allow_leak: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> tuple[list[Lookup], list[str]]:
    """Return the lookup of every model's traces of a split, and what deserves a look."""
    part_of(traces, split)
    models = by_model(traces)
    books, warnings = [], []
    for done, (model, whole) in enumerate(models):
        progress("working out operating points", done, len(models))
        part = whole.split(split)
        about = f"{model}: " if len(models) > 1 else ""
        if not len(part):
            warnings.append(f"{about}no traces of split {split}: it is left out.")
            continue
        score, lacking = map_for(whole, map_of_model(maps, model, several=len(models) > 1))
        if score:
            (require_same_signal if allow_leak else require_no_leak)(score, part)
        warnings += [f"{about}{text}" for text in ([lacking] if lacking else doubts(score, model))]
        books.append(lookup(part, calibrated=score))
    return books, warnings


def page_answers(
    books: Sequence[Lookup], *, title: str, origin: Origin, plans: Iterable[Plan] = ()
) -> tuple[str, Mapping[str, Any]]:
    """Return the page that asks for its rows, and the functions that answer it by path."""
    kept = list(plans)
    shelves = [Shelf(book, packed_evidence(book.traces, kept)) for book in books]
    answers = shelf_answers(shelves)
    answers["/rows"]({})  # what everybody asks first is worked out before anybody asks
    return served_text(books, title=title, origin=origin), answers
