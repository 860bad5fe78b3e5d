"""Commands over gates that go to work: gate."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.replays import (
    BudgetOption,
    CostOption,
    DatasetOption,
    GateLoOption,
    HiOption,
    LeakOption,
    ModelOption,
    SplitOption,
    read_chosen,
)
from gatewise.cli.terminal import JsonOption, print_json, print_tables, tell, warn


def gate(
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the gate.", show_default=False)],
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="[TRACES...]",
            help="Trace tables to say what the gate would have done on; it is the same gate without.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 -- typer reads the default and never changes it
    lo: GateLoOption = None,
    hi: HiOption = 0.7,
    budget: BudgetOption = 3,
    map_path: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="The map that the gate looks through; default: none, it looks at the signal itself.",
            show_default=False,
        ),
    ] = None,
    signal: Annotated[
        str,
        typer.Option(
            "--signal",
            help="What the gate looks at; default: what the map was fitted on, else confidence.",
            show_default=False,
        ),
    ] = "",
    model: ModelOption = "",
    dataset: DatasetOption = [],  # noqa: B006
    split: SplitOption = "test",
    cost: CostOption = "cost",
    allow_leak: LeakOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a gate for an agent to run, and say what it would have done on recorded states."""
    from gatewise.files import read_map, write_gate
    from gatewise.files.disk import require_apart
    from gatewise.gate import Gate
    from gatewise.replays.calibrators import doubts, equivalent_raw, require_no_leak, require_same_signal
    from gatewise.replays.loop import replay
    from gatewise.replays.metrics import measure
    from gatewise.replays.policies import Threshold
    from gatewise.reports.results import gate_table
    from gatewise.studies.choosing import part_of

    require_apart(output, [*traces, *([map_path] if map_path else [])])
    fitted = read_map(map_path) if map_path else None
    on = fitted.fitted_on if fitted else None
    policy = Threshold(lo=min(0.3, hi) if lo is None else lo, hi=hi)
    made = Gate(policy, fitted, budget=budget, signal=signal or (on.signal if on else "confidence"))
    point, warnings = None, list[str]()
    if traces:
        chosen = read_chosen(traces, made.signal, cost).choose([model] if model else [], dataset)
        one_model = chosen.require_one_model()
        part = part_of(chosen, split)
        if fitted:
            (require_same_signal if allow_leak else require_no_leak)(fitted, part)
        point = measure(replay(part, policy, score=fitted, budget=budget))
        new = list(doubts(fitted, one_model))
        if part.depths <= budget:
            new.append(
                f"the gate may retrieve {budget} times, these traces {part.depths - 1} times at most: what it does "
                "beyond is not seen here."
            )
        warn(new)
        warnings = [*chosen.warnings, *new]
    write_gate(made, output)
    cuts = equivalent_raw(fitted, policy.lo, policy.hi) if fitted else None
    if as_json:
        kept = made.as_json()
        if kept["map"] and kept["map"]["fitted_on"]:
            kept["map"]["fitted_on"] = {
                name: value for name, value in kept["map"]["fitted_on"].items() if name not in ("traces", "questions")
            }
        print_json(
            {
                "schema": "gatewise.gate-written/1",
                "output": str(output),
                "gate": kept,
                "equivalent_raw": cuts and dict(zip(("lo", "hi"), cuts, strict=True)),
                "point": point and point.as_json(),
                "warnings": warnings,
            }
        )
        return
    through = f", through a map of {on.n:,} records of split {on.split}" if on else ", through a map" * bool(fitted)
    tell(f"gate lo {policy.lo:g}, hi {policy.hi:g}, budget {budget} on {made.signal}{through}")
    if point:
        print_tables([gate_table(point, split)])
    print(f"\nwritten  {output}")
