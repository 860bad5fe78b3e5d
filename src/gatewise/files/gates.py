"""Gates → JSON: what an agent that runs one reads."""

import json
import os
from pathlib import Path

from gatewise.files.disk import replace_file
from gatewise.gate import Gate


def write_gate(gate: Gate, path: str | os.PathLike[str]) -> None:
    """Write a gate with its map as one line of JSON; reading it back and writing it gives the same bytes."""
    replace_file(Path(path), (json.dumps(gate.as_json(), allow_nan=False) + "\n").encode())
