"""Commands over whole studies: run."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.terminal import JsonOption, cache_folder, key_from, own, print_json, progress, tell, warn

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY.TOML", help="The study file.", show_default=False)]


def run(
    study: StudyArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, and what it would ask and cost; change nothing.")
    ] = False,
    fresh: Annotated[
        list[str],
        typer.Option("--fresh", help="Do this step again though nothing has changed; may be repeated."),
    ] = [],  # noqa: B006 -- typer reads the default and never changes it
    as_json: JsonOption = False,
) -> None:
    """Run a study: plan, record, judge, calibrate, replay, report; what is unchanged is not done again."""
    from gatewise.studies import running
    from gatewise.studies.designs import read_study
    from gatewise.studies.steps import local_steps

    design = read_study(study)
    ended = []
    with progress() as advance:
        work = running.Work(
            design,
            cache=cache_folder(),
            dry_run=dry_run,
            own=own,
            key=key_from,
            progress=advance,
            warn=warn,
        )
        for done in running.run(work, local_steps(), fresh=fresh):
            ended.append(done)
            if not as_json:
                first, *more = done.told or ("",)
                tell(f"{done.step:10} {done.how:10} {first}".rstrip())
                for line in more:
                    tell(f"{'':21} {line}")
    if as_json:
        print_json(
            {
                "schema": "gatewise.run/1",
                "study": design.study.name,
                "out": str(design.out),
                "dry_run": dry_run,
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
    elif not dry_run:
        tell(f"\nin  {design.out}")
    if any(one.how == "stopped" for one in ended):
        raise typer.Exit(3)
