"""Commands over judges: agree."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.terminal import JsonOption, print_json, print_tables, progress, warn


def agree(
    first: Annotated[
        Path, typer.Argument(help="The trace table with the first judge's verdicts.", show_default=False)
    ],
    second: Annotated[Path, typer.Argument(help="The same states, judged by the second.", show_default=False)],
    by: Annotated[
        str, typer.Option("--by", help="Break it down by this column, or by depth.", show_default=False)
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Say how far two judges agree on the same recorded answers: counts, share, Cohen's kappa."""
    from gatewise.files import read_traces
    from gatewise.replays.agreements import agree as compared
    from gatewise.reports.results import agreement_tables

    with progress() as advance:
        tables = [read_traces(path, progress=advance) for path in (first, second)]
    found = compared(*tables, by=by or None)
    warn(found.warnings)
    if as_json:
        print_json(found.as_json())
        return
    print_tables(agreement_tables(found))
