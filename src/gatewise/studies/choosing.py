"""Choosing: which traces are replayed, and with which map, the same for every command."""

from collections.abc import Sequence

from gatewise.errors import BadChoice, nearest, shown
from gatewise.replays.calibrators import Map, calibrate, fittable
from gatewise.replays.traces import Traces, named


def part_of(traces: Traces, split: str) -> Traces:
    """Return the traces of a split, or raise where there are none."""
    part = traces.split(split)
    if not len(part):
        known = named(traces.splits)
        raise BadChoice(
            f"expected traces of split {split!r}, found only {', '.join(known)}{nearest(split, known)}. "
            "Choose one with --split."
        )
    return part


def map_for(traces: Traces, given: Map | None = None) -> tuple[Map | None, str]:
    """Return the map for one model's traces: the one given, else one fitted on their calibration split.

    Without either there is none, and the text says why.
    """
    if given:
        return given, ""
    part = traces.split("calibration")
    if fittable(part):
        return calibrate(traces), ""
    lacking = "no record with a confidence and a verdict at depth 0 in the" if len(part) else "no"
    return None, f"{lacking} calibration split and no --map: only the raw score is replayed."


def map_of_model(maps: Sequence[Map], model: str | None, *, several: bool) -> Map | None:
    """Return the one of several maps that was fitted on a model; a single map for a single model always fits.

    >>> map_of_model([], "a", several=True) is None
    True
    """
    if not maps or (len(maps) == 1 and not several):
        return maps[0] if maps else None
    fitting = [one for one in maps if one.fitted_on and (model in one.fitted_on.models or _nameless(one, model))]
    if len(fitting) == 1:
        return fitting[0]
    found = sorted({name for one in maps if one.fitted_on for name in one.fitted_on.models})
    raise BadChoice(
        f"expected one --map that was fitted on model {shown(model)}, found {len(fitting)} (the maps are of "
        f"{', '.join(map(ascii, found)) or 'no named model'}). Give one map for each model, or none to fit them here."
    )


def _nameless(one: Map, model: str | None) -> bool:
    return model is None and bool(one.fitted_on) and not (one.fitted_on and one.fitted_on.models)
