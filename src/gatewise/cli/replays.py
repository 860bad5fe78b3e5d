"""Commands over recorded states: check, calibrate, replay, frontier, paper."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.terminal import JsonOption, own, print_json, print_tables, progress, tell, warn
from gatewise.errors import BadChoice, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gatewise.replays.calibrators import Isotonic, IsotonicByDepth
    from gatewise.replays.policies import Policy
    from gatewise.replays.traces import Traces

TracesArgument = Annotated[
    list[Path],
    typer.Argument(metavar="TRACES...", help="Trace tables: .parquet, .csv or .jsonl.", show_default=False),
]
ModelOption = Annotated[
    str,
    typer.Option("--model", help="The model to look at, where the traces hold several.", show_default=False),
]
ModelsOption = Annotated[
    list[str],
    typer.Option(
        "--model", help="Look at this model alone; may be repeated. Default: all of them.", show_default=False
    ),
]
DatasetOption = Annotated[
    list[str],
    typer.Option(
        "--dataset",
        help="Look at this data set alone, in fit and replay; may be repeated.",
        show_default=False,
    ),
]
SignalOption = Annotated[str, typer.Option("--signal", help="The column that gates look at.")]
CostOption = Annotated[str, typer.Option("--cost", help="The column that prices reaching a depth.")]
SplitOption = Annotated[str, typer.Option("--split", help="The split to replay.")]
MapOption = Annotated[
    Path | None,
    typer.Option(
        "--map",
        help="A map written by calibrate; default: fit one on the calibration split.",
        show_default=False,
    ),
]
MapsOption = Annotated[
    list[Path],
    typer.Option(
        "--map",
        help="A map written by calibrate, one for each model; default: fit them on the calibration split.",
        show_default=False,
    ),
]
LeakOption = Annotated[
    bool,
    typer.Option("--allow-leak", help="Replay traces that the map was fitted on; the numbers are too good."),
]
LoOption = Annotated[float, typer.Option("--lo", min=0, max=1, help="At the end, abstain at this score or below.")]

GateLoOption = Annotated[
    float | None,
    typer.Option(
        "--lo",
        min=0,
        max=1,
        help="At the end, abstain at this score or below; default: .3, or --hi where that is lower.",
        show_default=False,
    ),
]
HiOption = Annotated[float, typer.Option("--hi", min=0, max=1, help="Commit at this score or above.")]
BudgetOption = Annotated[int, typer.Option("--budget", min=0, help="The most retrievals of the gates.")]
PolicyOption = Annotated[
    list[str],
    typer.Option(
        "--policy",
        help="Replay this policy too: parametric, rag@K, adaptive, or your own as module:name; may be repeated.",
        show_default=False,
    ),
]
ByOption = Annotated[str, typer.Option("--by", help="Break everything down by this column.", show_default=False)]


def check(
    traces: TracesArgument,
    signal: SignalOption = "confidence",
    cost: CostOption = "cost",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Write the table in its canonical order to this file.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Validate a trace table and say what it holds."""
    from gatewise.files import write_traces
    from gatewise.files.disk import require_apart
    from gatewise.replays.census import census
    from gatewise.reports.results import census_tables

    require_apart(output, traces)
    found = read_chosen(traces, signal, cost)
    if output:
        write_traces(found, output)
    counts = census(found)
    if as_json:
        print_json(counts.as_json())
        return
    sizes = ((counts.traces, "trace"), (counts.states, "state"), (counts.questions, "trace"))
    told = ", ".join(f"{size:,} {what}{'' if size == 1 else 's'}" for size, what in sizes)
    print(f"{told} with a question")
    print_tables(census_tables(counts))
    print()
    tell(f"columns  {', '.join(map(ascii, counts.columns))}")
    print(f"digest   {counts.digest}")
    if output:
        print(f"written  {output}")


def calibrate(
    traces: TracesArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the map.", show_default=False)],
    split: Annotated[str, typer.Option("--split", help="The split to fit on; never test.")] = "calibration",
    by_depth: Annotated[bool, typer.Option("--by-depth", help="Fit one map for each depth.")] = False,
    model: ModelOption = "",
    dataset: DatasetOption = [],  # noqa: B006 -- typer reads the default and never changes it
    signal: SignalOption = "confidence",
    cost: CostOption = "cost",
    as_json: JsonOption = False,
) -> None:
    """Fit an isotonic map from confidence to the share of right answers, and keep it."""
    from gatewise import files
    from gatewise.files.disk import require_apart
    from gatewise.replays import calibrators
    from gatewise.replays.metrics import ece
    from gatewise.reports.tables import Column, Table

    require_apart(output, traces)
    chosen = read_chosen(traces, signal, cost).choose([model] if model else [], dataset)
    fitted = calibrators.calibrate(chosen, split=split, by_depth=by_depth)
    files.write_map(fitted, output)
    part = chosen.split(split)
    depths = range(part.depths if by_depth else 1)
    before = [ece(part.confidence[:, depth], part.correct[:, depth]) for depth in depths]
    after = [ece(fitted(part.confidence[:, depth], depth), part.correct[:, depth]) for depth in depths]
    if as_json:
        print_json(
            {
                "schema": "gatewise.calibrate/1",
                "output": str(output),
                "map": calibrators.as_json(fitted),
                "calibration_error": {"raw": before, "calibrated": after},
            }
        )
        return
    on = fitted.fitted_on
    if on:
        without = f"{on.without_confidence:,} without confidence and {on.without_verdict:,} without verdict left out"
        tell(f"fitted on {on.n:,} records of split {on.split} ({without}), signal {on.signal}")
    knots = fitted.maps if isinstance(fitted, calibrators.IsotonicByDepth) else (fitted,)
    columns = (Column("depth", "count"), Column("confidence", "exact"), Column("calibrated", "plain", 4))
    rows = tuple((depth, x, y) for depth, one in enumerate(knots) for x, y in zip(one.x, one.y, strict=True))
    print_tables([Table("Knots", columns, rows)])
    errors = (
        Column("depth", "count"),
        Column("ECE raw pp", "percent"),
        Column("ECE calibrated pp", "percent"),
    )
    fit_rows = tuple(zip(depths, before, after, strict=True))
    print_tables([Table("Calibration error on the fitted records", errors, fit_rows)])
    print(f"\nwritten  {output}")


def replay(
    traces: TracesArgument,
    map_path: MapOption = None,
    lo: GateLoOption = None,
    hi: HiOption = 0.7,
    budget: BudgetOption = 3,
    policy: PolicyOption = [],  # noqa: B006
    by: ByOption = "",
    model: ModelOption = "",
    dataset: DatasetOption = [],  # noqa: B006
    split: SplitOption = "test",
    signal: SignalOption = "confidence",
    cost: CostOption = "cost",
    allow_leak: LeakOption = False,
    as_json: JsonOption = False,
) -> None:
    """Replay the gate, the baselines and your policies over recorded states."""
    from gatewise.replays.policies import Threshold
    from gatewise.replays.summaries import summarize
    from gatewise.reports.results import summary_tables
    from gatewise.studies.choosing import part_of

    gate = Threshold(lo=min(0.3, hi) if lo is None else lo, hi=hi)
    policies = {name: policy_named(name) for name in policy}
    with progress() as advance:
        chosen = read_chosen(traces, signal, cost, advance).choose([model] if model else [], dataset)
        fitted = _map(chosen, map_path)
        with redirect_stdout(sys.stderr):  # whatever a policy prints is no result
            summary = summarize(
                part_of(chosen, split),
                calibrated=fitted,
                gate=gate,
                budget=budget,
                policies=policies,
                by=by or None,
                allow_leak=allow_leak,
                progress=advance,
            )
    warn(summary.warnings[len(chosen.warnings) :])
    if as_json:
        print_json(summary.as_json())
        return
    head = [f"split {split}", f"signal {signal}", f"gate lo {gate.lo:g}, hi {gate.hi:g}, budget {summary.budget}"]
    tell(", ".join([*([f"model {summary.model}"] if summary.model else []), *head]))
    tell(_about_map(fitted, summary.equivalent, gate.lo, gate.hi))
    print_tables(summary_tables(summary))


def frontier(
    traces: TracesArgument,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write every threshold and budget to this CSV file.", show_default=False),
    ] = None,
    at: Annotated[
        list[str],
        typer.Option(
            "--at",
            help="Read both scores at coverage=.8, risk=.1 or cost=1; may be repeated.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    map_path: MapOption = None,
    lo: LoOption = 0.3,
    model: ModelOption = "",
    dataset: DatasetOption = [],  # noqa: B006
    split: SplitOption = "test",
    signal: SignalOption = "confidence",
    cost: CostOption = "cost",
    allow_leak: LeakOption = False,
    as_json: JsonOption = False,
) -> None:
    """Give every distinct threshold at every budget, exactly, and read it at a target."""
    from gatewise import files
    from gatewise.files.disk import require_apart
    from gatewise.replays import frontier as exact
    from gatewise.replays.calibrators import Raw, doubts, require_no_leak, require_same_signal
    from gatewise.reports.results import frontier_table, readings_table
    from gatewise.studies.choosing import part_of

    require_apart(output, [*traces, *([map_path] if map_path else [])])
    targets = [_target(text, exact.TARGETS) for text in at]
    chosen = read_chosen(traces, signal, cost).choose([model] if model else [], dataset)
    one_model = chosen.require_one_model()
    fitted = _map(chosen, map_path)
    part = part_of(chosen, split)
    if fitted:
        (require_same_signal if allow_leak else require_no_leak)(fitted, part)
    warn(doubts(fitted, one_model))
    scores = {"raw": Raw(), **({"calibrated": fitted} if fitted else {})}
    surfaces = {name: exact.frontier(part, score=score, lo=lo) for name, score in scores.items()}
    if output:
        rows = (row for name, surface in surfaces.items() for row in files.frontier_rows(name, surface))
        files.write_csv(output, files.FRONTIER_COLUMNS, rows)
    readings = [
        (
            target,
            value,
            [
                (name, *pair)
                for name, found in surfaces.items()
                for pair in enumerate(exact.read(found, target, value))
            ],
        )
        for target, value in targets
    ]
    if as_json:
        print_json(
            {
                "schema": "gatewise.frontier/1",
                "scores": {
                    name: {
                        "n": surface.n,
                        "thresholds": surface.thresholds.tolist(),
                        "budgets": list(range(surface.budgets)),
                        "committed": surface.committed.tolist(),
                        "correct": surface.correct.tolist(),
                        "unlabelled": surface.unlabelled.tolist(),
                        "abstained": surface.abstained.tolist(),
                        "cost": surface.cost.tolist(),
                    }
                    for name, surface in surfaces.items()
                },
                "at": [
                    {
                        "target": target,
                        "value": value,
                        "score": name,
                        "budget": budget,
                        "threshold": reading and reading.threshold,
                        "point": reading and reading.point.as_json(),
                    }
                    for target, value, found in readings
                    for name, budget, reading in found
                ],
            }
        )
        return
    print_tables(frontier_table(name, surface) for name, surface in surfaces.items())
    print_tables(readings_table(f"At {target} = {value:g}", found) for target, value, found in readings)
    if output:
        print(f"\nwritten  {output}")


def paper(
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures",
            help="Draw the paper's figures into this folder too, with every published coordinate laid over them.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay the bundled reconstructions and lay every published number beside the replayed one."""
    from gatewise import files
    from gatewise.replays.calibrators import calibrate as fit
    from gatewise.replays.findings import find
    from gatewise.replays.summaries import summarize
    from gatewise.studies.paper import checks, coordinates
    from gatewise.studies.reporting import require_drawing, write_figures

    if figures:
        require_drawing()
    numbers, findings, drawn = files.published(), [], []
    summaries = {}
    with progress() as advance:
        for model in numbers["table"]:
            traces = files.reconstruction(model)
            test, calibrated = traces.split("test"), fit(traces)
            if figures:
                calibration = traces.split("calibration")
                findings.append(find(test, calibrated=calibrated, calibration=calibration, progress=advance))
                summaries[model] = findings[-1].summary
            else:
                summaries[model] = summarize(test, calibrated=calibrated, progress=advance)
        if figures:
            drawn = write_figures(figures, findings, overlays=coordinates(numbers), progress=advance)
    found = list(checks(numbers, summaries))
    wrong = sum(not one.ok for one in found)
    source = "reconstructions: synthetic traces made to agree with the published numbers, not model output"
    if as_json:
        rows = [{**vars(one), "ok": one.ok} for one in found]
        more = {"figures": [str(path) for path in drawn]} if figures else {}
        print_json({"schema": "gatewise.paper/1", "source": source, "mismatches": wrong, "numbers": rows, **more})
    else:
        print(source)
        width = max(len(one.what) for one in found)
        model = ""
        for one in found:
            if one.model != model:
                model = one.model
                print(f"\n{model} (reconstruction)\n  {'':{width}}  {'published':>10}  {'replayed':>12}")
            replayed = "–" if one.replayed is None else f"{one.replayed:.{one.decimals and one.decimals + 2}f}"
            verdict = "OK" if one.ok else "DIFFERS"
            print(f"  {one.what:{width}}  {one.published:>10.{one.decimals}f}  {replayed:>12}  {verdict}")
        print(f"\n{len(found) - wrong} of {len(found)} published numbers replayed from the reconstructions")
        if drawn:
            print(f"written  {len(drawn)} files into {drawn[0].parent}")
    if wrong:
        raise typer.Exit(1)


def read_chosen(
    paths: list[Path],
    signal: str,
    cost: str = "cost",
    advance: "Callable[[str, int, int], None]" = lambda what, done, total: None,
) -> "Traces":
    """Read traces, and say what deserves a look."""
    from gatewise.files import read_traces

    found = read_traces(*paths, signal=signal, cost=cost, progress=advance)
    warn(found.warnings)
    return found


def _map(traces: "Traces", path: Path | None) -> "Isotonic | IsotonicByDepth | None":
    from gatewise.files import read_map
    from gatewise.studies.choosing import map_for

    fitted, lacking = map_for(traces, read_map(path) if path else None)
    warn([lacking] if lacking else [])
    return fitted


def _about_map(
    fitted: "Isotonic | IsotonicByDepth | None",
    cuts: tuple[float | None, float | None] | None,
    lo: float,
    hi: float,
) -> str:
    if fitted is None:
        return "no map: there is neither a calibration split to fit on nor --map"
    on = fitted.fitted_on
    origin = f"{fitted.kind} map fitted on {on.n:,} records of split {on.split}" if on else f"{fitted.kind} map"
    if cuts is None:
        return f"{origin}; no raw gate acts alike, because the map depends on depth"
    low, high = cuts
    abstains = "never abstains" if low is None else f"lo {low!r}"
    commits = "never commits" if high is None else f"hi {high!r}"
    return f"{origin}; calibrated gate lo {lo:g}, hi {hi:g} acts as the raw gate {abstains}, {commits}"


def _target(text: str, known: tuple[str, ...]) -> tuple[str, float]:
    name, equals, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if name not in known or not equals or not 0 <= value < float("inf") or (name != "cost" and value > 1):
        raise BadChoice(
            f"expected --at coverage=.8, risk=.1 or cost=1, found {text!r}{nearest(name, known)}. Name "
            "a target and a number; coverage and risk lie in [0, 1]."
        )
    return name, value


def policy_named(name: str) -> "Policy":
    """Return a built-in policy by its name, or the user's by module:name."""
    from gatewise.replays.policies import BASELINES, FixedDepth

    if name in BASELINES:
        return BASELINES[name]
    if name.startswith("rag@") and name[4:].isdecimal():
        return FixedDepth(int(name[4:]))
    if ":" not in name:
        raise BadChoice(
            f"expected a policy named {', '.join(BASELINES)}, rag@K or module:name, found {name!r}"
            f"{nearest(name, list(BASELINES))}. Choose one with --policy."
        )
    policy: Policy = own(name, "policy", "View -> actions")
    return policy
