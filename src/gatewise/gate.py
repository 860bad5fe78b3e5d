"""The same policy, alive: one confidence in, one Action out, as a replay would have decided.

Light enough for a service: numpy and the standard library. It asks, retrieves and stores nothing; whoever runs the
agent does. Reading a gate file is the one thing here that touches a disk, so that a service loads no more than this.
"""

import json
import math
import operator
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np

from gatewise.errors import BadChoice, BrokenFile, nearest, shown
from gatewise.replays.arrays import objects
from gatewise.replays.calibrators import Isotonic, IsotonicByDepth, Map, Provenance
from gatewise.replays.policies import Threshold, View
from gatewise.types import Action

GATE_SCHEMA = "gatewise.gate/1"
NOBODY = objects([None])  # the gate looks at no question


@dataclass(frozen=True)
class Gate:
    """A gate as an agent runs it: thresholds, the map that they look through, and a budget of retrievals.

    >>> gate = Gate(Threshold(lo=0.3, hi=0.7), budget=2)
    >>> gate(0.4, 0), gate(0.9, 1), gate(None, 2)
    (<Action.RETRIEVE: 1>, <Action.COMMIT: 0>, <Action.ESCALATE: 3>)
    """

    policy: Threshold = field(default_factory=Threshold)
    map: Map | None = None
    budget: int = field(default=3, kw_only=True)
    signal: str = field(default="confidence", kw_only=True)

    def __post_init__(self) -> None:
        kinds: tuple[tuple[object, tuple[type, ...]], ...] = (
            (self.policy, (Threshold,)),
            (self.map, (Isotonic, IsotonicByDepth, type(None))),
        )
        for part, fitting in kinds:
            if not isinstance(part, fitting):
                raise BadChoice(
                    f"expected a Threshold and a map that calibrate fitted, or None, found {type(part).__name__}. "
                    "Run another policy or score by calling it yourself, with a View of one episode."
                )
        for name, value in (("lo", self.policy.lo), ("hi", self.policy.hi)):
            if not 0 <= value <= 1:
                raise BadChoice(f"expected {name} in [0, 1], found {shown(value)}. Choose another.")
        if type(self.budget) is not int or self.budget < 0:
            raise BadChoice(f"expected a budget of 0 or more retrievals, found {shown(self.budget)}. Choose another.")
        if isinstance(self.map, IsotonicByDepth) and len(self.map.maps) <= self.budget:
            raise BadChoice(
                f"expected a map for each depth from 0 to {self.budget}, found one that was fitted on "
                f"{len(self.map.maps)} depths. Choose a smaller budget, or one map for all depths."
            )
        on = self.map.fitted_on if self.map else None
        if on and on.signal != self.signal:
            raise BadChoice(
                f"expected a gate on {on.signal!r}, the signal this map was fitted on, found {self.signal!r}. "
                "Name the map's signal, or fit a map on this one."
            )

    def __call__(self, confidence: float | None, depth: int, *, more: bool = True) -> Action:
        """Return what to do with an answer of this confidence, after `depth` retrievals.

        The confidence is a share in [0, 1], or None where none could be read: then the gate never commits. Say
        `more=False` where no evidence is left to retrieve: the gate then ends, whatever its budget.
        """
        value, place = _confidence(confidence), self._depth(depth)
        score = np.array([value]) if self.map is None else self.map(np.array([value]), place)
        scores = np.full((1, place + 1), np.nan)  # what it looked at before moves it no more
        scores[0, place] = score[0]
        view = View(
            depth=place,
            scores=scores,
            signals={},
            retrievals_left=np.array([self.budget - place if more else 0]),
            cost=np.zeros(1),
            question=NOBODY,
            dataset=NOBODY,
            model=NOBODY,
        )
        return Action(int(self.policy(view)[0]))

    def _depth(self, depth: int) -> int:
        try:
            place = -1 if isinstance(depth, bool) else operator.index(depth)
        except TypeError:
            place = -1
        if not 0 <= place <= self.budget:
            raise BadChoice(
                f"expected a depth from 0 to {self.budget}, as many retrievals as the budget allows, found "
                f"{shown(depth)}. Stop where the gate says so, or give it a larger budget."
            )
        return place

    def as_json(self) -> dict[str, Any]:
        """Return the gate as plain values, as its file holds them."""
        plain = None if self.map is None else {"kind": self.map.kind, **asdict(self.map)}
        return {
            "schema": GATE_SCHEMA,
            "lo": float(self.policy.lo),
            "hi": float(self.policy.hi),
            "budget": self.budget,
            "signal": self.signal,
            "map": plain,
        }

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Return the gate in a file that `gatewise gate` wrote."""
        try:
            record = json.loads(Path(path).read_bytes(), parse_constant=_no_constant)
            return cls(*_parts(record), budget=record["budget"], signal=record["signal"])
        except OSError as error:
            raise BrokenFile(f"expected a gate in {path}, found: {error.strerror}. Check the path.") from None
        except (BadChoice, ValueError, OverflowError, RecursionError) as error:
            said = str(error).partition("\n")[0]
            raise BrokenFile(
                f"expected a gate of schema {GATE_SCHEMA} in {path}, found one that is broken: {said} "
                "Write one with gatewise gate."
            ) from None


def _confidence(value: Any) -> float:
    """Return a confidence as a trace table holds it: a double, NaN for None, a float32 by its shortest decimal."""
    if value is None:
        return math.nan
    is_number = isinstance(value, (float, int, np.floating, np.integer)) and not isinstance(value, bool)
    if is_number and (value != value or 0 <= value <= 1):
        return float(str(value)) if isinstance(value, np.floating) else float(value)
    raise BadChoice(
        f"expected a confidence in [0, 1], or None where none could be read, found {shown(value)}. Divide "
        "percentages by 100."
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of strict JSON.")


def _parts(record: object) -> tuple[Threshold, Map | None]:
    """Return policy and map of what a file holds, or raise for what is no gate."""
    names = [one.name for one in fields(Gate)][2:]
    kept = _record(record, "a gate", ["schema", "lo", "hi", *names, "map"])
    if kept["schema"] != GATE_SCHEMA:
        raise BadChoice(f"expected schema {GATE_SCHEMA}, found {shown(kept['schema'])}.")
    if type(kept["budget"]) is not int or not isinstance(kept["signal"], str):
        raise BadChoice("expected a whole number as budget and a name as signal, found something else.")
    policy = Threshold(lo=_number(kept["lo"]), hi=_number(kept["hi"]))
    return policy, None if kept["map"] is None else _map(kept["map"])


def _map(record: object) -> Map:
    kind = record.get("kind") if isinstance(record, dict) else None
    if kind == IsotonicByDepth.kind:
        kept = _record(record, "a map", ["kind", "maps", "fitted_on"])
        if not isinstance(kept["maps"], list):
            raise BadChoice("expected a list of maps, found something else.")
        return IsotonicByDepth(tuple(map(_isotonic, kept["maps"])), _provenance(kept["fitted_on"]))
    if kind == Isotonic.kind:
        return _isotonic({name: value for name, value in _record(record, "a map").items() if name != "kind"})
    raise BadChoice(f"expected a map of kind {Isotonic.kind} or {IsotonicByDepth.kind}, found {shown(kind)}.")


def _isotonic(record: object) -> Isotonic:
    kept = _record(record, "a map", ["x", "y", "fitted_on"])
    if not isinstance(kept["x"], list) or not isinstance(kept["y"], list):
        raise BadChoice("expected knots as two lists of numbers, found something else.")
    return Isotonic(tuple(map(_number, kept["x"])), tuple(map(_number, kept["y"])), _provenance(kept["fitted_on"]))


def _provenance(record: object) -> Provenance | None:
    if record is None:
        return None
    kept = _record(record, "a provenance", [one.name for one in fields(Provenance)])
    for name, value in kept.items():
        many = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else ()
        wanted = {"n": int, "without_confidence": int, "without_verdict": int, "versions": dict}.get(
            name, list if name in ("models", "datasets", "traces", "questions") else str
        )
        if type(value) is not wanted or not all(isinstance(text, str) for text in many):
            raise BadChoice(f"expected a provenance whose {name} is as it was written, found {shown(value)}.")
    plain: dict[str, Any] = {name: tuple(value) if type(value) is list else value for name, value in kept.items()}
    return Provenance(**plain)


def _record(value: object, what: str, names: list[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadChoice(f"expected {what}, found {shown(value)}.")
    for name in names or ():
        if name not in value:
            raise BadChoice(f"expected {what} with {name}, found none.")
    for name in value:
        if names and name not in names:
            raise BadChoice(f"expected {what} of {', '.join(names)}, found {shown(name)}{nearest(name, names)}.")
    return value


def _number(value: object) -> float:
    if type(value) not in (int, float):
        raise BadChoice(f"expected a number, found {shown(value)}.")
    return float(value)  # type: ignore[arg-type]
