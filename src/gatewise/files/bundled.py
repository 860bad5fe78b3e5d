"""What ships with the package: published numbers, reconstructions, and questions of our own."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

from gatewise.files.traces import read_traces
from gatewise.replays.traces import Traces

DATA = Path(str(resources.files("gatewise") / "data"))
QUESTIONS = DATA / "worldfacts.jsonl"


def published() -> dict[str, Any]:
    """Return every published number of the paper."""
    numbers: dict[str, Any] = json.loads((DATA / "published.json").read_text("utf-8"))
    return numbers


def reconstruction(model: str) -> Traces:
    """Return the bundled trace set that reproduces the published numbers of a model: synthetic, not model output."""
    return read_traces(DATA / "reconstructions" / f"{model}.parquet")
