"""The bundled study, from questions to report: what gatewise does, in one command."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.studies import at_work, show
from gatewise.cli.terminal import JsonOption, cache_folder, tell

OutputOption = Annotated[Path, typer.Option("-o", "--output", help="The folder that the report goes into.")]


def demo(
    output: OutputOption = Path("report"),
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Ask the embedded model of this machine anew, in place of what was recorded: hours on two cores.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Replay the bundled study, from questions to report: 720 questions, four depths of evidence, a small model."""
    from gatewise import files
    from gatewise.studies.designs import read_study

    design = read_study(files.STUDY)
    folder = cache_folder() / ("demo-fresh" if fresh else "demo")
    ledger = None if fresh else files.LEDGER
    study = replace(design.study, out=folder, ledger=ledger)
    design = replace(design, study=study, report=replace(design.report, out=output.absolute()))
    if fresh:  # the same weights, as llama.cpp reads them
        models = [replace(one, transformer="", model="", local=one.name) for one in design.models]
        design = replace(design, models=tuple(models))
    if not as_json:
        tell("720 questions of our own → evidence plans → a small model's recorded states → judged → map → replay")
        tell("")
    with at_work(design, dry_run=False) as (work, live):
        show(work, live, (), (), max_cost=None, offline=not fresh, as_json=as_json)
