"""Commands that write for readers: report."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.replays import (
    BudgetOption,
    ByOption,
    CostOption,
    DatasetOption,
    GateLoOption,
    HiOption,
    LeakOption,
    MapsOption,
    ModelsOption,
    PolicyOption,
    SignalOption,
    SplitOption,
    TracesArgument,
    policy_named,
    read_chosen,
)
from gatewise.cli.terminal import JsonOption, print_json, print_tables, progress, warn


def report(
    traces: TracesArgument,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder to write into; made if it is not there.")
    ] = Path("report"),
    map_path: MapsOption = [],  # noqa: B006 -- typer reads the default and never changes it
    lo: GateLoOption = None,
    hi: HiOption = 0.7,
    budget: BudgetOption = 3,
    policy: PolicyOption = [],  # noqa: B006
    by: ByOption = "",
    model: ModelsOption = [],  # noqa: B006
    dataset: DatasetOption = [],  # noqa: B006
    split: SplitOption = "test",
    signal: SignalOption = "confidence",
    cost: CostOption = "cost",
    allow_leak: LeakOption = False,
    plans: Annotated[
        list[Path],
        typer.Option(
            "--plans",
            help="Add the evidence of these plans to the page; may be repeated.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    no_figures: Annotated[
        bool, typer.Option("--no-figures", help="Leave the figures out; then matplotlib is not needed.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write tables, figures, numbers and a page to look at, for every model, into one folder."""
    from itertools import chain

    from gatewise.files import read_map, read_plans
    from gatewise.replays.policies import Threshold
    from gatewise.reports.snippets import Origin
    from gatewise.studies.choosing import part_of
    from gatewise.studies.reporting import (
        Choices,
        find_all,
        main_of,
        page_of,
        require_drawing,
        subjects,
        write_report,
    )

    if not no_figures:
        require_drawing()
    choices = Choices(
        gate=Threshold(lo=min(0.3, hi) if lo is None else lo, hi=hi),
        budget=budget,
        split=split,
        by=by or None,
        policies={name: policy_named(name) for name in policy},
        allow_leak=allow_leak,
    )
    with progress() as advance:
        chosen = read_chosen(traces, signal, cost, advance).choose(model, dataset)
        part_of(chosen, split)
        maps = [read_map(path) for path in map_path]
        with redirect_stdout(sys.stderr):  # whatever a policy prints is no result
            found, warnings = find_all(subjects(chosen, maps), choices, progress=advance)
        origin = Origin(
            [str(path) for path in traces],
            datasets=dataset,
            split=split,
            signal=signal,
            cost=cost,
            maps={
                one.model: str(path)
                for one in found
                for given, path in zip(maps, map_path, strict=True)
                if one.summary.map is given
            },
            allow_leak=allow_leak,
        )
        evidence = chain.from_iterable(read_plans(path)[1] for path in plans)
        page, lacking = page_of(chosen, found, choices, origin=origin, plans=evidence)
        warnings += [lacking] if lacking else []
        warn(warnings)
        numbers = write_report(
            output,
            found,
            choices=choices,
            warnings=[*chosen.warnings, *warnings],
            figures=not no_figures,
            page=page,
            inputs=[*traces, *map_path, *plans],
            progress=advance,
        )
    if as_json:
        print_json(numbers)
        return
    print_tables([main_of(found)])
    first = output / ("index.html" if page else "README.md")
    print(f"\nwritten  {len(numbers['files'])} files into {output}; open {first}")
