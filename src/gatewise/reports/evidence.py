"""Evidence for reading: what plans add up to as a table, and one question's slices as text."""

import textwrap
from collections.abc import Mapping
from typing import Any

from gatewise.reports.tables import Cell, Column, Table, printable
from gatewise.types import Plan

WIDTH = 100


def plans_table(splits: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return what plans add up to: a column a split, and one for all together."""
    depths = max((len(one["empty_slices"]) for one in splits.values()), default=0)
    names = ["questions", "passages", "supports", *(f"empty slices at depth {depth + 1}" for depth in range(depths))]
    names += [f"adaptive proxy at depth {depth}" for depth in (1, 2, 3)] + ["planned retrievals"]
    counts: list[list[int]] = []
    for one in splits.values():
        empty = [*one["empty_slices"], *[0] * (depths - len(one["empty_slices"]))]
        proxy = one["proxy_depths"].values()
        counts.append([one["questions"], one["passages"], one["supports"], *empty, *proxy, one["planned_retrievals"]])
    headings = list(splits)
    if len(counts) > 1:
        headings.append("all")
        counts.append([sum(column) for column in zip(*counts, strict=True)])
    rows: list[tuple[Cell, ...]] = [
        (name, *(f"{value:,}" for value in row)) for name, row in zip(names, zip(*counts, strict=True), strict=True)
    ]
    rows.append(("… a question", *(f"{one[-1] / one[0]:.6f}" for one in counts)))
    return Table("Plans", (Column(""), *(Column(heading, "number") for heading in headings)), tuple(rows))


def plan_text(plan: Plan) -> str:
    """Return one question's plan for reading: what each depth reveals, supports marked with a star."""
    question = plan.question
    lines = [
        f"{printable(question.text)}",
        f"  answer   {printable(' | '.join(question.references))}",
        f"  id       {printable(question.id)}  ({printable(question.dataset)}, {printable(question.split)})",
        f"  digest   {plan.digest}",
        "",
        "depth 0: no evidence",
    ]
    for depth in range(1, plan.depths):
        revealed = plan.reveals(depth)
        lines += ["", f"depth {depth}: {len(revealed)} more passages" if revealed else f"depth {depth}: nothing new"]
        for place in revealed:
            passage = question.passages[place]
            mark = "*" if passage.supporting else " "
            lines.append(f"  {mark} [{place}] {printable(passage.title)}")
            lines += textwrap.wrap(printable(passage.text), WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    left_out = len(question.passages) - len(plan.visible(plan.depths - 1))
    if left_out:
        lines += ["", f"never shown: {left_out} passages"]
    return "\n".join(lines)
