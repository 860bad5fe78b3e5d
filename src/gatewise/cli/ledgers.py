"""Commands over a ledger: what it holds, whether it is whole, out of it and into it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.terminal import JsonOption, print_json, print_lines, print_tables, progress, say, tell
from gatewise.errors import BadChoice

if TYPE_CHECKING:
    from gatewise.recordings.entries import Tally
    from gatewise.recordings.ledger import Ledger, Merged

LedgerArgument = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger's file.", show_default=False)]

MOST_SHOWN = 20  # flaws printed for reading; --json has all

ledger_app = typer.Typer(help="Look after a ledger of paid calls.", no_args_is_help=True)


@ledger_app.command("stats")
def stats(ledger: LedgerArgument, as_json: JsonOption = False) -> None:
    """Say what a ledger holds: calls, attempts, tokens and cost by endpoint, model and kind."""
    from gatewise.recordings.entries import utc
    from gatewise.recordings.ledger import Ledger

    with Ledger.open(ledger, readonly=True) as opened, progress() as advance:
        tally = opened.stats(lambda done, total: advance("counting", done, total))
        size, notes = opened.size(), opened.notes()
    groups = list(_groups(tally))
    calls = sum(one["calls"] for one in groups)
    first, last = (None if one is None else utc(one) for one in (tally.first, tally.last))
    if as_json:
        forms = [{"endpoint": one, "model": two, "form": form} for (one, two), form in notes.items()]
        found = {"ledger": str(ledger), "bytes": size, "calls": calls, "first": first, "last": last}
        print_json({"schema": "gatewise.ledger-stats/1", **found, "groups": groups, "notes": forms})
        return
    tell(f"{calls:,} calls, {size:,} bytes" + (f", from {first} to {last}" if first else "") + f"  {ledger}")
    _print_groups(groups)


def _groups(tally: "Tally") -> Any:
    for (endpoint, model, kind), one in sorted(tally.counts.items()):
        timed = one.calls - one.without_latency
        yield {
            "endpoint": endpoint,
            "model": model,
            "kind": kind,
            "calls": one.calls,
            "again": one.again,
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
            "without_usage": one.without_usage,
            "cost_usd": None if one.without_cost == one.calls else float(one.cost),
            "without_cost": one.without_cost,
            "mean_latency_s": float(one.latency / timed) if timed else None,
        }


def _print_groups(groups: list[dict[str, Any]]) -> None:
    from gatewise.reports.tables import Column, Table

    if not groups:
        return
    columns = (
        Column("endpoint"), Column("model"), Column("kind"), Column("calls", "count"), Column("again", "count"),
        Column("tokens in", "count"), Column("out", "count"), Column("USD", "plain", 4), Column("mean s", "plain", 2),
    )  # fmt: skip
    names = (
        "endpoint", "model", "kind", "calls", "again", "input_tokens", "output_tokens", "cost_usd", "mean_latency_s",
    )  # fmt: skip
    rows = tuple(tuple(one[name] for name in names) for one in groups)
    without, unpriced = (sum(one[name] for one in groups) for name in ("without_usage", "without_cost"))
    note = f"{without:,} replies name no tokens, {unpriced:,} no cost of their own."
    print_tables([Table("Calls", columns, rows, note)])


@ledger_app.command("verify")
def verify(ledger: LedgerArgument, as_json: JsonOption = False) -> None:
    """Check a ledger: the file, its triggers, and the key and digest of every call, made anew; flaws exit with 1."""
    from gatewise.recordings.ledger import Ledger

    with Ledger.open(ledger, readonly=True) as opened, progress() as advance:
        flaws = list(opened.verify(lambda done, total: advance("checking", done, total)))
        rows = opened.last()
    if as_json:
        listed = [{"row": one.row, "key": one.key or None, "problem": one.problem} for one in flaws]
        print_json({"schema": "gatewise.ledger-verify/1", "ledger": str(ledger), "calls": rows, "flaws": listed})
    elif not flaws:
        tell(f"{rows:,} calls, every key and digest as it was written  {ledger}")
    else:
        noun = "flaw" if len(flaws) == 1 else "flaws"
        tell(f"{rows:,} calls, {len(flaws):,} {noun}  {ledger}")
        for one in flaws[:MOST_SHOWN]:
            place = "file" if one.row is None else f"row {one.row} {one.key[:12]}".rstrip()
            tell(f"  {place}: {one.problem}")
        if len(flaws) > MOST_SHOWN:
            tell(f"  and {len(flaws) - MOST_SHOWN:,} more: --json lists all")
        say("Merge what is sound into a new ledger: gatewise ledger merge NEW OLD --salvage.")
    if flaws:
        raise typer.Exit(1)


@ledger_app.command("export")
def export(
    ledger: LedgerArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Write here: .jsonl, or .sqlite for a small copy to ship; default: lines on standard output.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write every call as a line of JSON, in the order of keys; the same calls give the same bytes."""
    from gatewise.files.disk import require_apart, write_pieces
    from gatewise.recordings.entries import export_lines
    from gatewise.recordings.ledger import Ledger

    if output is None and as_json:
        raise BadChoice("expected -o with --json, found none: the lines would stand among it. Name a file with -o.")
    if (
        output is not None
        and output.suffix not in (".jsonl", ".sqlite")
        and (output.is_file() or not output.exists())
    ):
        raise BadChoice(f"expected -o to end in .jsonl or .sqlite, found {output}. Choose another name.")
    with Ledger.open(ledger, readonly=True) as opened:
        if output is None:
            print_lines(export_lines(opened.entries(by_key=True)))
            return
        require_apart(output, [ledger])
        if output.suffix == ".sqlite":
            opened.copy_to(output)
        else:
            write_pieces(output, export_lines(opened.entries(by_key=True)))
        calls = len(opened)
    if as_json:
        found = {"ledger": str(ledger), "calls": calls, "output": str(output)}
        print_json({"schema": "gatewise.ledger-export/1", **found})
        return
    tell(f"{calls:,} calls")
    tell("")
    tell(f"written  {output}")


@ledger_app.command("merge")
def merge(
    ledger: LedgerArgument,
    others: Annotated[
        list[Path], typer.Argument(help="Ledgers, or what was exported from them as .jsonl.", show_default=False)
    ],
    salvage: Annotated[
        bool,
        typer.Option("--salvage", help="Of a damaged ledger, take every call that is sound, and count the rest."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Add the calls of other ledgers to one, made if it is not there; of two replies to one call the first stays."""
    from gatewise.files.disk import require_apart
    from gatewise.recordings.ledger import Ledger

    require_apart(ledger, others)
    done = []
    with Ledger.open(ledger) as opened:
        for path in others:
            merged, lost = _merge(opened, path, salvage)
            counts = {"added": merged.added, "known": merged.known, "conflicts": merged.conflicts, "lost": lost}
            done.append({"path": str(path), **counts})
            if not as_json:
                again = f", {lost:,} that are damaged left out" if lost else ""
                kept = f"{merged.conflicts:,} with another reply (the first one stays)"
                tell(f"{merged.added:,} calls added, {merged.known:,} known, {kept}{again}  {path}")
        calls = len(opened)
    if as_json:
        print_json({"schema": "gatewise.ledger-merge/1", "ledger": str(ledger), "calls": calls, "merged": done})
        return
    tell(f"{calls:,} calls  {ledger}")


def _merge(ledger: "Ledger", path: Path, salvage: bool) -> "tuple[Merged, int]":
    """Merge one file; also return how many calls could not be had from it."""
    from gatewise.files.disk import read_lines, starts_with
    from gatewise.recordings.entries import read_lines as entries_of
    from gatewise.recordings.ledger import Ledger

    if not starts_with(path, b"SQLite format 3\0"):
        return ledger.merge(entries_of(read_lines(path), str(path))), 0
    with Ledger.open(path, readonly=True) as other:
        if not salvage:
            return ledger.merge(other), 0
        merged = ledger.merge(other.sound())
        return merged, other.last() - merged.added - merged.known - merged.conflicts
