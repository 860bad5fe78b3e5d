"""gatewise: matched trajectory replay.

Ask a model once at every depth of a fixed evidence plan, keep the states, then replay any number of gates over
the same states, so that every difference is due to the gate alone. The names here are the pure half: none of
them opens a file, a socket or a clock. `gatewise.files` reads and writes.

Names are loaded when they are first used, so that the command line can answer `--help` without numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gatewise.errors import (
        BadChoice,
        BadPolicy,
        BrokenFile,
        BrokenTraces,
        GatewiseError,
        Leak,
        Mistake,
        Unmatched,
    )
    from gatewise.gate import Gate
    from gatewise.replays.calibrators import (
        Isotonic,
        IsotonicByDepth,
        Raw,
        calibrate,
        equivalent_raw,
        fit_isotonic,
        require_no_leak,
    )
    from gatewise.replays.census import Census, census
    from gatewise.replays.comparisons import Comparison, compare
    from gatewise.replays.frontier import Frontier, Reading, frontier, read
    from gatewise.replays.loop import Episodes, replay
    from gatewise.replays.metrics import (
        Bin,
        Point,
        TopBin,
        Transitions,
        aurc,
        auroc,
        brier,
        ece,
        measure,
        reliability,
        top_bin,
        transitions,
    )
    from gatewise.replays.policies import Adaptive, FixedDepth, Threshold, View
    from gatewise.replays.summaries import Summary, summarize
    from gatewise.replays.traces import Traces
    from gatewise.types import Action

_HOMES = {
    "errors": "BadChoice BadPolicy BrokenFile BrokenTraces GatewiseError Leak Mistake Unmatched",
    "gate": "Gate",
    "replays.calibrators": "Isotonic IsotonicByDepth Raw calibrate equivalent_raw fit_isotonic require_no_leak",
    "replays.census": "Census census",
    "replays.comparisons": "Comparison compare",
    "replays.frontier": "Frontier Reading frontier read",
    "replays.loop": "Episodes replay",
    "replays.metrics": ("Bin Point TopBin Transitions aurc auroc brier ece measure reliability top_bin transitions"),
    "replays.policies": "Adaptive FixedDepth Threshold View",
    "replays.summaries": "Summary summarize",
    "replays.traces": "Traces",
    "types": "Action",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Action",
    "Adaptive",
    "BadChoice",
    "BadPolicy",
    "Bin",
    "BrokenFile",
    "BrokenTraces",
    "Census",
    "Comparison",
    "Episodes",
    "FixedDepth",
    "Frontier",
    "Gate",
    "GatewiseError",
    "Isotonic",
    "IsotonicByDepth",
    "Leak",
    "Mistake",
    "Point",
    "Raw",
    "Reading",
    "Summary",
    "Threshold",
    "TopBin",
    "Traces",
    "Transitions",
    "Unmatched",
    "View",
    "aurc",
    "auroc",
    "brier",
    "calibrate",
    "census",
    "compare",
    "ece",
    "equivalent_raw",
    "fit_isotonic",
    "frontier",
    "measure",
    "read",
    "reliability",
    "replay",
    "require_no_leak",
    "summarize",
    "top_bin",
    "transitions",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gatewise' has no attribute {name!r}")
    return getattr(import_module(f"gatewise.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
