"""Maps ⇄ JSON, and frontiers → CSV: what a fit and a frontier leave behind."""

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatewise.errors import BadChoice, BrokenFile
from gatewise.files.disk import replace_file
from gatewise.files.traces import first_line
from gatewise.replays.calibrators import Isotonic, IsotonicByDepth
from gatewise.replays.frontier import Frontier

MAP_SCHEMA = "gatewise.map/1"


def write_map(fitted: Isotonic | IsotonicByDepth, path: str | os.PathLike[str]) -> None:
    """Write a map with its provenance as one line of JSON; reading it back and writing it gives the same bytes."""
    record = {"schema": MAP_SCHEMA, "kind": fitted.kind, **msgspec.to_builtins(fitted)}
    replace_file(Path(path), (json.dumps(record, allow_nan=False) + "\n").encode())


def read_map(path: str | os.PathLike[str]) -> Isotonic | IsotonicByDepth:
    """Return the map in a file that `write_map` wrote."""
    kinds: dict[str, type[Isotonic] | type[IsotonicByDepth]] = {one.kind: one for one in (Isotonic, IsotonicByDepth)}
    try:
        record = msgspec.json.decode(Path(path).read_bytes(), type=dict[str, Any])
        if record.pop("schema", None) != MAP_SCHEMA or str(kind := record.pop("kind", None)) not in kinds:
            raise BrokenFile(
                f"expected a map of schema {MAP_SCHEMA} and kind {' or '.join(kinds)} in {path}, found another "
                "file. Write one with gatewise calibrate."
            )
        return msgspec.convert(record, kinds[str(kind)])
    except BadChoice as mistake:  # what the knots themselves refuse
        raise BrokenFile(f"expected a map in {path}, found one that is broken: {mistake}") from None
    except OSError as error:
        raise BrokenFile(f"expected a map in {path}, found: {error.strerror}. Check the path.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokenFile(
            f"expected a map in {path}, found: {first_line(error)}. Write one with gatewise calibrate."
        ) from None


def write_csv(path: str | os.PathLike[str], header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table of values, None as an empty field, doubles by their shortest decimal."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    replace_file(Path(path), text.getvalue().encode())


FRONTIER_COLUMNS = (
    "score", "budget", "threshold", "committed", "correct", "unlabelled", "cost",
    "overall_accuracy", "committed_accuracy", "coverage", "mean_cost", "selective_risk",
)  # fmt: skip


def frontier_rows(name: str, surface: Frontier) -> Iterable[tuple[object, ...]]:
    """Yield one row a budget and threshold, as `FRONTIER_COLUMNS` names them."""
    for budget in range(surface.budgets):
        for place, threshold in enumerate(surface.thresholds.tolist()):
            point = surface.point(budget, place)
            yield (name, budget, threshold, *(getattr(point, column) for column in FRONTIER_COLUMNS[3:]))
