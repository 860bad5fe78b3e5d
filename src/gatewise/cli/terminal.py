"""What every command says and hears: words on the terminal, options that several commands share, progress."""

import importlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.errors import BadChoice, raised

if TYPE_CHECKING:
    from collections.abc import Callable

    from gatewise.reports.tables import Table

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def say(message: str) -> None:
    """Say something beside the results, on standard error."""
    print("\n".join(map(_obeyed_by_none, message.split("\n"))), file=sys.stderr)


def tell(line: str) -> None:
    """Print one line of results, folded to the width of the terminal where there is one."""
    if sys.stdout.isatty():
        from gatewise.reports.tables import folded

        print("\n".join(folded(_obeyed_by_none(line), shutil.get_terminal_size().columns)))
    else:
        print(_obeyed_by_none(line))


def _obeyed_by_none(line: str) -> str:
    if line.isprintable():
        return line
    from gatewise.reports.tables import printable

    return printable(line)


def warn(warnings: Iterable[str]) -> None:
    """Say what deserves a look."""
    for warning in warnings:
        say(f"warning: {warning}")


def print_json(value: dict[str, Any]) -> None:
    """Print one strict JSON object."""
    print(json.dumps(value, allow_nan=False))


def print_lines(lines: Iterable[bytes]) -> None:
    """Print lines of bytes as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.writelines(lines)
    sys.stdout.buffer.flush()


def cache_folder() -> Path:
    """Return where fetched files are kept: GATEWISE_CACHE, or gatewise in the user's cache folder."""
    named = os.environ.get("GATEWISE_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(home) / "gatewise"


def key_from(variable: str) -> str:
    """Return the key that an environment variable holds, empty where there is none."""
    return os.environ.get(variable, "")


def print_tables(tables: "Iterable[Table]") -> None:
    """Print tables, aligned, a blank line before each.

    On a terminal they keep to its width and the best values carry a star, in bold unless NO_COLOR is set or the
    terminal is a dumb one. Where the output goes to a file or a program, every row is one line without marks.
    """
    from gatewise.reports.tables import text

    watched = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if watched else None
    bold = watched and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    for table in tables:
        print(f"\n{text(table, width=width, stars=watched, bold=bold)}")


@contextmanager
def progress(unit: str = "") -> "Iterator[Callable[[str, int, int | None], None]]":
    """Show a bar with rate and estimate once the work has taken two seconds, where somebody is watching."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    class Rate(ProgressColumn):
        def render(self, task: Task) -> str:
            return f"{task.speed:,.{0 if task.speed >= 100 else 1}f}/s" if task.speed else ""

    amounts: tuple[ProgressColumn, ...] = (MofNCompleteColumn(), Rate())
    if unit == "bytes":
        amounts = (DownloadColumn(), TransferSpeedColumn())
    ends = (TimeElapsedColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=10), *amounts, *ends)
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("starting", total=None)
    timer = threading.Timer(2.0, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)
    finally:
        timer.cancel()
        bar.stop()


def own(name: str, what: str, shape: str) -> Any:
    """Return what the user wrote and calls by module:name; modules are looked for in the working folder first."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        with redirect_stdout(sys.stderr):  # whatever it prints is no result
            found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        raise BadChoice(
            f"expected a {what} at {name!r}, found {raised(error)}. Check the module and the name."
        ) from error
    finally:
        sys.path.pop(0)
    if not callable(found) or isinstance(found, type):
        raise BadChoice(
            f"expected a callable {shape} at {name!r}, found {type(found).__name__}. Name a function, or an "
            "instance of a class that can be called."
        )
    return found
