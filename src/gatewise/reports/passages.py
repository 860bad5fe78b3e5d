"""Passages: the evidence that each trace was shown, packed in chunks so that looking at one unpacks a few."""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gatewise.replays.traces import Traces
from gatewise.reports.packing import deflated
from gatewise.types import Plan

CHUNK = 64  # questions whose evidence is packed together
Key = tuple[str | None, str, str | None]  # data set, id and plan of a trace


@dataclass(frozen=True)
class Evidence:
    """Packed chunks of evidence by depth, the place of each trace's among them, and how long all are together."""

    chunks: tuple[str, ...] = ()
    places: Mapping[Key, int] = field(default_factory=dict)
    size: int = 0

    def of(self, key: Key) -> list[Any] | None:
        """Return what each depth revealed to the trace of this data set, id and plan, None where it is not known."""
        place = self.places.get(key)
        if place is None:
            return None
        chunk: list[list[Any]] = json.loads(zlib.decompress(base64.b64decode(self.chunks[place // CHUNK])))
        return chunk[place % CHUNK]


def packed_evidence(traces: Traces, plans: Iterable[Plan]) -> Evidence:
    """Return the evidence of the plans that these traces followed.

    A trace that names its plan takes that plan alone; one that names none takes the plan of its data set and id.
    """
    keys: list[Key] = list(zip(traces.datasets.tolist(), traces.ids.tolist(), traces.plans.tolist(), strict=True))
    digests = {digest for _, _, digest in keys if digest is not None}
    unplanned = {(dataset, id_) for dataset, id_, digest in keys if digest is None}
    chunks: list[str] = []
    open_chunk: list[Any] = []
    followed: dict[str | tuple[str | None, str], int] = {}
    for plan in plans:
        pairs: list[tuple[str | None, str]] = [(name, plan.question.id) for name in (plan.question.dataset, None)]
        wanted: list[str | tuple[str | None, str]] = [pair for pair in pairs if pair in unplanned]
        if plan.digest in digests:
            wanted.append(plan.digest)
        if not wanted:
            continue
        place = len(chunks) * CHUNK + len(open_chunk)
        followed.update((key, place) for key in wanted if key not in followed)
        open_chunk.append(evidence_json(plan))
        if len(open_chunk) == CHUNK:
            chunks.append(_chunk(open_chunk))
            open_chunk = []
    if open_chunk:
        chunks.append(_chunk(open_chunk))
    places = {}
    for dataset, id_, digest in keys:
        place_of = followed.get((dataset, id_) if digest is None else digest)
        if place_of is not None:
            places[dataset, id_, digest] = place_of
    return Evidence(tuple(chunks), places, sum(map(len, chunks)))


def evidence_json(plan: Plan) -> list[Any]:
    """Return what each depth of a plan reveals: title, text and whether the answer rests on it."""
    passages = plan.question.passages
    return [
        [[passages[at].title, passages[at].text, passages[at].supporting] for at in plan.reveals(depth)]
        for depth in range(plan.depths)
    ]


def _chunk(values: Sequence[Any]) -> str:
    return deflated(json.dumps(values).encode())
