"""The command that serves the page on loopback: explore."""

import sys
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.replays import (
    CostOption,
    DatasetOption,
    LeakOption,
    MapsOption,
    ModelsOption,
    SignalOption,
    SplitOption,
    TracesArgument,
    read_chosen,
)
from gatewise.cli.terminal import progress, say, tell, warn


def explore(
    traces: TracesArgument,
    map_path: MapsOption = [],  # noqa: B006 -- typer reads the default and never changes it
    plans: Annotated[
        list[Path],
        typer.Option("--plans", help="Show the evidence of these plans; may be repeated.", show_default=False),
    ] = [],  # noqa: B006
    title: Annotated[str, typer.Option("--title", help="What the page is called.")] = "What the gate does",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    model: ModelsOption = [],  # noqa: B006
    dataset: DatasetOption = [],  # noqa: B006
    split: SplitOption = "test",
    signal: SignalOption = "confidence",
    cost: CostOption = "cost",
    allow_leak: LeakOption = False,
) -> None:
    """Serve the page of a trace set to this machine's browser, however large the set, until stopped."""
    from gatewise.files import read_map, read_plans
    from gatewise.reports.snippets import Origin
    from gatewise.servers.pages import Page, serve
    from gatewise.studies.exploring import look_up, page_answers

    with progress() as advance:
        chosen = read_chosen(traces, signal, cost, advance).choose(model, dataset)
        maps = [read_map(path) for path in map_path]
        books, warnings = look_up(chosen, split=split, maps=maps, allow_leak=allow_leak, progress=advance)
        origin = Origin(
            files=[str(path) for path in traces],
            datasets=dataset,
            split=split,
            signal=signal,
            cost=cost,
            maps={
                book.model: str(path)
                for book in books
                for one, path in zip(maps, map_path, strict=True)
                if book.maps.get("calibrated") is one
            },
            allow_leak=allow_leak,
        )
        text, answers = page_answers(
            books, title=title, origin=origin, plans=chain.from_iterable(read_plans(path)[1] for path in plans)
        )
    warn(warnings)
    page = Page(text)

    def ready(address: str) -> None:
        tell(address)
        sys.stdout.flush()
        say("serving on this machine alone; stop with Ctrl-C")

    try:
        serve({"/": lambda query: page, **answers}, port=port, ready=ready)
    except KeyboardInterrupt:
        say("stopped.")
