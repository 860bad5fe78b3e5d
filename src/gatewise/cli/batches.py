"""Commands over batch files: what a study still has to ask, out to a distributed engine; and its results in."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.studies import StudyArgument, opened
from gatewise.cli.terminal import JsonOption, print_json, say, tell

if TYPE_CHECKING:
    from gatewise.studies.batching import Intakes
    from gatewise.studies.running import Work

batch_app = typer.Typer(help="Run a study's calls as batch files on another engine.", no_args_is_help=True)


@batch_app.command("write")
def write(
    study: StudyArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Write the files into this folder; default: batch in the study's folder.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="Ask this model of the study alone; default: all.", show_default=False)
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Write every call that is still missing as a line of a batch file, a file a model and one of verdicts."""
    from gatewise.studies.batching import write_batches

    with _planned(study) as work:
        folder = output or work.design.out / "batch"
        sheets = write_batches(work, folder, model)
    if as_json:
        files = [
            {
                "path": str(one.path),
                "model": one.model,
                "endpoint": one.endpoint,
                "requests": sum(one.requests.values()),
                "kinds": one.requests,
                "bytes": one.size,
            }
            for one in sheets
        ]
        found = {"study": work.design.study.name, "ledger": str(work.design.ledger), "folder": str(folder)}
        print_json({"schema": "gatewise.batch-write/1", **found, "files": files})
        return
    for one in sheets:
        kinds = ", ".join(f"{count:,} of kind {kind}" for kind, count in one.requests.items())
        tell(f"{sum(one.requests.values()):,} requests to {one.model} ({kinds}), {one.size:,} bytes  {one.path}")
    if sheets:
        tell("")
        tell("Run them, then: gatewise batch read STUDY.TOML RESULTS…")
    else:
        tell("No call is missing: gatewise run STUDY.TOML asks nobody and goes on")


@batch_app.command("read")
def read(
    study: StudyArgument,
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS…", help="Files of results, in any order.", show_default=False)
    ],
    as_json: JsonOption = False,
) -> None:
    """Put the replies of a batch into the study's ledger; what failed or is not there stays missing."""
    from gatewise.studies.batching import read_batches

    with _planned(study) as work:
        found = read_batches(work, results)
    if as_json:
        print_json({"schema": "gatewise.batch-read/1", "study": work.design.study.name, **_as_json(found)})
        return
    _tell_intakes(found)


@contextmanager
def _planned(study: Path) -> "Iterator[Work]":
    """Yield the work on a study whose plans are made."""
    from gatewise.studies import running
    from gatewise.studies.steps import local_steps

    with opened(study, dry_run=False) as (work, _):
        for _ in running.run(work, local_steps(), only=("plan",)):
            pass
        yield work


def _as_json(found: "Intakes") -> dict[str, object]:
    intake = found.intake
    return {
        "lines": intake.lines,
        "added": intake.added,
        "known": intake.known,
        "repeated": intake.repeated,
        "foreign": intake.foreign,
        "failures": dict(sorted(intake.failures.items())),
        "models": [
            {
                "model": name,
                "states": count.states,
                "answered": count.answered,
                "judged": count.judged,
                "missing": dict(sorted(count.missing.items())),
            }
            for name, count in found.models.items()
        ],
        "notes": list(found.notes),
    }


def _tell_intakes(found: "Intakes") -> None:
    intake = found.intake
    parts = [f"{intake.added:,} replies of {intake.lines:,} lines added, {intake.known:,} in the ledger before"]
    parts += [f"{intake.repeated:,} repeated"] if intake.repeated else []
    parts += [f"{intake.foreign:,} foreign to this study"] if intake.foreign else []
    tell(", ".join(parts))
    for kind, count in sorted(intake.failures.items()):
        said = intake.said.get(kind, "")
        tell(f"{count:,} failed: {kind}" + (f" ({said})" if said else ""))
    for name, one in found.models.items():
        missing = "".join(f", {count:,} {reason}" for reason, count in sorted(one.missing.items()))
        tell(f"{name}: {one.states:,} states, {one.answered:,} answered, {one.judged:,} judged{missing}")
    for note in found.notes:
        say(note)
    tell("")
    if all(one.asked for one in found.models.values()):
        tell("No call is missing: gatewise run STUDY.TOML asks nobody and goes on")
    else:
        tell("Write what is still missing: gatewise batch write STUDY.TOML")
