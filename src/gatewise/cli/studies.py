"""Commands over whole studies: run, and its steps that ask, record and judge."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.terminal import JsonOption, cache_folder, key_from, own, print_json, progress, tell, warn
from gatewise.errors import BadChoice

if TYPE_CHECKING:
    from gatewise.recordings.voices import Tally
    from gatewise.studies.designs import Design
    from gatewise.studies.recording import Live
    from gatewise.studies.running import Done, Work

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY.TOML", help="The study file.", show_default=False)]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would run, and what it would ask and cost; change nothing.")
]
MaxCostOption = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        min=0,
        metavar="USD",
        help="Make no call that could take the cost above this, what the ledger already holds included.",
        show_default=False,
    ),
]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Ask nobody: what the ledger has is all there is.")]


def run(
    study: StudyArgument,
    dry_run: DryRunOption = False,
    fresh: Annotated[
        list[str],
        typer.Option("--fresh", help="Do this step again though nothing has changed; may be repeated."),
    ] = [],  # noqa: B006 -- typer reads the default and never changes it
    max_cost: MaxCostOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a study: plan, record, judge, calibrate, replay, report; what is unchanged is not done again."""
    _run(study, (), fresh, dry_run=dry_run, max_cost=max_cost, offline=offline, as_json=as_json)


def record(
    study: StudyArgument,
    dry_run: DryRunOption = False,
    max_cost: MaxCostOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a study's plans and ask its models what is still missing; what was answered is never asked again."""
    _run(study, ("plan", "record"), (), dry_run=dry_run, max_cost=max_cost, offline=offline, as_json=as_json)


def judge(
    study: StudyArgument,
    by: Annotated[
        str,
        typer.Option(
            "--judge",
            help="Another judge than the study's: exact, f1@0.8 or module:name; with -o.",
            show_default=False,
        ),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Write that judge's trace table here, {model} the model's name.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRunOption = False,
    max_cost: MaxCostOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> None:
    """Judge the recorded answers and write the trace tables; no answer is asked for again."""
    if bool(by) != (output is not None):
        raise BadChoice("expected --judge and -o together, found one of them. Give both, or neither.")
    if output is None:
        _run(study, ("judge",), (), dry_run=dry_run, max_cost=max_cost, offline=offline, as_json=as_json)
        return
    from gatewise.studies.recording import Limits, rejudge

    with opened(study, dry_run=dry_run) as (work, live):
        told = rejudge(work, Limits(max_cost, offline, live), by, output)
    if as_json:
        files = [str(path) for path, _ in told]
        print_json({"schema": "gatewise.judge/1", "judge": by, "dry_run": dry_run, "files": files})
        return
    for path, line in told:
        tell(line)
        tell(f"{'would write' if dry_run else 'written'}  {path}")


@contextmanager
def opened(study: Path, *, dry_run: bool) -> "Iterator[tuple[Work, Live]]":
    """Yield the work on the study of a file, and what shows how asking goes."""
    from gatewise.studies.designs import read_study

    with at_work(read_study(study), dry_run=dry_run) as (work, live):
        yield work, live


@contextmanager
def at_work(design: "Design", *, dry_run: bool) -> "Iterator[tuple[Work, Live]]":
    """Yield the work on a design, and what shows how asking goes."""
    from gatewise.studies import running

    with progress() as advance:

        def live(what: str, tally: "Tally", done: int, total: int) -> None:
            cost = f"  {tally.cost:.4f} $" if tally.cost else ""
            failed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(tally.failures.items()))
            advance(f"{what}  {tally.asked:,} calls{cost}{f'  failed: {failed}' if failed else ''}", done, total)

        work = running.Work(
            design, cache=cache_folder(), dry_run=dry_run, own=own, key=key_from, progress=advance, warn=warn
        )
        yield work, live


def _run(
    study: Path,
    only: tuple[str, ...],
    fresh: Sequence[str],
    *,
    dry_run: bool,
    max_cost: float | None,
    offline: bool,
    as_json: bool,
) -> None:
    with opened(study, dry_run=dry_run) as (work, live):
        show(work, live, only, fresh, max_cost=max_cost, offline=offline, as_json=as_json)


def show(
    work: "Work",
    live: "Live",
    only: Sequence[str],
    fresh: Sequence[str],
    *,
    max_cost: float | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Run the steps of a study, and tell how each ended."""
    from gatewise.studies import running
    from gatewise.studies.closing import closing_steps
    from gatewise.studies.recording import Limits, recording_steps
    from gatewise.studies.steps import local_steps

    ended: list[Done] = []
    steps = local_steps() | recording_steps(Limits(max_cost, offline, live)) | closing_steps()
    for done in running.run(work, steps, fresh=fresh, only=only):
        ended.append(done)
        if not as_json:
            pages = [f"open {path}" for path in done.files if path.name == "index.html"]
            first, *more = done.told or pages or ("",)
            tell(f"{done.step:10} {done.how:10} {first}".rstrip())
            for line in more:
                tell(f"{'':21} {line}")
    if as_json:
        print_json(
            {
                "schema": "gatewise.run/1",
                "study": work.design.study.name,
                "out": str(work.design.out),
                "dry_run": work.dry_run,
                "steps": [
                    {
                        "step": one.step,
                        "how": one.how,
                        "told": list(one.told),
                        "files": [str(path) for path in one.files],
                    }
                    for one in ended
                ],
            }
        )
    elif not work.dry_run:
        tell("")
        tell(f"in  {work.design.out}")
    if any(one.how == "stopped" for one in ended):
        raise typer.Exit(3)
