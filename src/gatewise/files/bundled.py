"""What ships: published numbers, reconstructions, questions of our own, and a recorded study of them."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

from gatewise.files.traces import read_traces
from gatewise.replays.traces import Traces

DATA = Path(str(resources.files("gatewise") / "data"))
QUESTIONS = DATA / "worldfacts.jsonl"
STUDY = DATA / "worldfacts.toml"
LEDGER = DATA / "worldfacts.sqlite"  # packed, and never written to: it is opened as what cannot change
TRACES = DATA / "worldfacts.parquet"


def published() -> dict[str, Any]:
    """Return every published number of the paper."""
    numbers: dict[str, Any] = json.loads((DATA / "published.json").read_text("utf-8"))
    return numbers


def reconstruction(model: str) -> Traces:
    """Return the bundled trace set that reproduces the published numbers of a model: synthetic, not model output."""
    return read_traces(DATA / "reconstructions" / f"{model}.parquet")
