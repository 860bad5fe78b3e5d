"""argv ⇄ functions: the only room that prints.

What a command needs is imported when it runs, so that `--help` answers at once.
"""

import io
import os
import sys
from typing import Annotated

import typer

from gatewise.cli import (
    agreements,
    batches,
    demos,
    exploring,
    gates,
    ledgers,
    questions,
    replays,
    reports,
    serving,
    studies,
)
from gatewise.cli.terminal import say
from gatewise.errors import Mistake

HELP = "Matched trajectory replay: what would another threshold, score or rule have done, on the same states?"

INTERRUPTED = 130  # the exit code of whoever is stopped by Ctrl-C

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True, help=HELP)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Print the version, or leave the word to a command."""
    if version:
        from importlib.metadata import version as installed

        print(f"gatewise {installed('gatewise')}")
        raise typer.Exit


for command in (replays.check, replays.calibrate, replays.replay, replays.frontier, replays.paper):
    app.command()(command)
app.command()(gates.gate)
app.command()(reports.report)
app.command()(exploring.explore)
app.command()(demos.demo)
app.command()(questions.fetch)
for step in (studies.run, studies.record, studies.judge):
    app.command()(step)
app.command()(agreements.agree)
app.command()(serving.serve_local)
app.add_typer(questions.plan_app, name="plan")
app.add_typer(questions.questions_app, name="questions")
app.add_typer(batches.batch_app, name="batch")
app.add_typer(ledgers.ledger_app, name="ledger")


def main() -> None:
    """Run the command line; a mistake of the user's is one message and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what an encoding does not know is spelled out
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            print(end="", flush=True)
    except Mistake as mistake:
        say(f"error: {mistake}")
        sys.exit(2)
    except MemoryError:
        say("error: expected the traces to fit into memory, found that they do not. Choose fewer files.")
        sys.exit(2)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:  # typer has caught it, and says nothing
            say("stopped: nothing half-written was left behind. Run the same command again.")
        raise
    except KeyboardInterrupt:
        say("stopped: nothing half-written was left behind. Run the same command again.")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _let_go()  # the reader has left: nothing to say
        sys.exit(1)
    except OSError as error:
        _let_go()
        reason = error.strerror or str(error)
        say(f"error: expected to write the results, found: {reason}. Make room, or choose another place.")
        sys.exit(2)


def _let_go() -> None:
    """Send what was not printed nowhere, so that the interpreter does not try again on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
