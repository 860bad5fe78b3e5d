"""Traces: the (episodes × depths) block, and the meaning of "matched"."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from gatewise.errors import BadChoice, Unmatched, nearest
from gatewise.replays import rules
from gatewise.replays.arrays import UNKNOWN, Bools, Coded, Floats, Ints, Labels, Texts, objects


@dataclass(frozen=True, eq=False)
class Traces:
    """The recorded states of every question, as blocks of shape (n, depths).

    Traces stand in the order of (model, id), whatever the order of the rows they came from. Past a trace's
    end a block holds NaN, no verdict, no cost and nothing new.

    >>> t = Traces.from_columns(
    ...     {"trace_id": ["a", "a", "b"], "depth": [0, 1, 0], "confidence": [0.4, 0.9, None],
    ...      "correct": [False, True, None]})
    >>> t.lengths.tolist(), t.confidence.tolist(), t.correct.tolist()
    ([2, 1], [[0.4, 0.9], [nan, nan]], [[0, 1], [-1, -1]])
    """

    ids: Texts
    models: Texts
    datasets: Texts
    splits: Texts
    plans: Texts
    questions: Texts
    lengths: Ints
    signals: Mapping[str, Floats]  # "confidence" and every other signal, NaN where unreadable
    signal: str  # the one that gates look at
    correct: Labels
    new: Bools  # whether the evidence of a state is new; False where it copies the state before
    cost: Floats  # price of reaching a depth from the one before
    table: Mapping[str, rules.Column]  # every column as recorded, in the order of (trace, depth)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for block in (*vars(self).values(), *self.signals.values()):
            if isinstance(block, np.ndarray):
                block.setflags(write=False)  # whoever is shown a block cannot change the record

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def depths(self) -> int:
        """How many depths the longest trace has."""
        return int(self.correct.shape[1])

    @property
    def confidence(self) -> Floats:
        """The signal that gates look at."""
        return self.signals[self.signal]

    @property
    def present(self) -> Bools:
        """Where a trace has a state."""
        return np.arange(self.depths) < self.lengths[:, None]

    @property
    def copied(self) -> Bools:
        """Where a state copies the one before, because its slice of evidence was empty."""
        return self.present & ~self.new

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, Any],
        *,
        signal: str = "confidence",
        cost: str = "cost",
        sources: Sequence[tuple[str, int]] = (),
    ) -> Self:
        """Build traces from columns of equal length, one row a state, or raise everything that is wrong.

        `signal` names the column that gates look at, `cost` the one that prices retrievals. `sources` lists
        (file, rows) so that an error can say where a row stands.
        """
        table = {name: rules.as_column(values) for name, values in columns.items()}
        rules.require(table, *rules.REQUIRED)
        size = len(table["trace_id"])
        if not size or any(len(column) != size for column in table.values()):
            sizes = ", ".join(f"{len(column):,}" for column in table.values())
            raise BadChoice(
                f"expected columns of one length with at least one row, found {sizes} rows. Give one row a state."
            )
        table = {
            name: column
            for name, column in table.items()
            if name in rules.REQUIRED or not rules.is_null(column).all()
        }
        rules.require(table, signal, remedy=rules.NO_SIGNAL)
        if cost != "cost":
            rules.require(table, cost, remedy=rules.NO_PRICE)
        found = rules.Violations(sources)
        described = {
            name: rules.texts(name, table[name], found) if name in table else _nothing(size)
            for name in ("trace_id", *rules.DESCRIPTIONS)
        }
        ids, models = described["trace_id"], described["model"]
        blank = np.array([not text.strip() for text in ids.values], np.bool_)
        nameless = np.append(blank, True)[ids.codes]
        unnamed = nameless & ((ids.codes >= 0) | rules.is_null(table["trace_id"]))  # the others are no text: noted
        found.add(np.flatnonzero(unnamed), "trace_id", rules.cell(ids), "expected an id", "Name every trace.")
        depth, has_depth = rules.whole_numbers("depth", table["depth"], found, "Number depths 0, 1, 2, ….")
        lacks_depth = np.flatnonzero(rules.is_null(table["depth"]))
        found.add(lacks_depth, "depth", lambda _: None, "expected a depth", "Number depths 0, 1, 2, ….")
        names = {name for name in (*rules.SIGNALS, signal) if name in table}
        signals = {name: rules.signal(name, table[name], found) for name in sorted(names)}
        verdicts = rules.labels(table["correct"], found)
        _check_splits(described["split"], found)
        prices = _prices(cost, table.get(cost), depth, found)
        fresh = np.ones(size, np.bool_)
        if "new_passages" in table:
            remedy = "Count the passages that a depth adds; leave the field empty where unknown."
            count, known = rules.whole_numbers("new_passages", table["new_passages"], found, remedy)
            fresh = ~(known & (count == 0) & (depth > 0))
        if nameless.any() or not has_depth.all():
            found.raise_if_any()  # without keys no trace can be put together
        order = rules.arrange(ids, models, depth, found)
        for name in ("dataset", "split", "plan", "question"):
            rules.constant(name, described[name], order, found)
        found.raise_if_any()

        shape = (len(order.starts), int(depth.max()) + 1)

        def block(values: Any, empty: Any) -> Any:
            filled = np.full(shape, empty, values.dtype, order="F")
            filled[order.trace, order.depth] = values[order.rows]
            return filled

        def first(name: str) -> Texts:
            return described[name][order.rows[order.starts]].texts()

        traces = cls(
            ids=first("trace_id"),
            models=first("model"),
            datasets=first("dataset"),
            splits=first("split") if "split" in table else objects(["test"] * shape[0]),
            plans=first("plan"),
            questions=first("question"),
            lengths=np.diff(np.append(order.starts, size)),
            signals={name: block(values, np.nan) for name, values in signals.items()},
            signal=signal,
            correct=block(verdicts, UNKNOWN),
            new=block(fresh, False),
            cost=block(prices, 0.0),
            table={name: column[order.rows] for name, column in table.items()},
        )
        return replace(traces, warnings=_unlike_copies(traces))

    def select(self, chosen: Bools) -> Self:
        """Return the chosen traces, no deeper than the longest of them."""
        lengths = self.lengths[chosen]
        depths = int(lengths.max()) if len(lengths) else 0
        rows = np.repeat(chosen, self.lengths)

        def cut(block: Any) -> Any:
            return np.asfortranarray(block[chosen, :depths])

        return replace(
            self,
            ids=self.ids[chosen],
            models=self.models[chosen],
            datasets=self.datasets[chosen],
            splits=self.splits[chosen],
            plans=self.plans[chosen],
            questions=self.questions[chosen],
            lengths=lengths,
            signals={name: cut(values) for name, values in self.signals.items()},
            correct=cut(self.correct),
            new=cut(self.new),
            cost=cut(self.cost),
            table={name: column[rows] for name, column in self.table.items()},
        )

    def unpriced(self) -> Self:
        """Return the traces as they are without a price: each retrieval costs 1."""
        return replace(self, cost=(self.present & (np.arange(self.depths) > 0)).astype(np.float64))

    def split(self, name: str) -> Self:
        """Return the traces of one split, which may be none."""
        return self.select(self.splits == name)

    def choose(self, models: Sequence[str] = (), datasets: Sequence[str] = ()) -> Self:
        """Return the traces of the named models and data sets; no name means all."""
        chosen = np.ones(len(self), np.bool_)
        for what, names, values in (("model", models, self.models), ("dataset", datasets, self.datasets)):
            known = named(values)
            for name in names:
                if name not in known:
                    raise BadChoice(
                        f"expected a {what} that occurs in the traces ({_listed(known)}), found {name!r}"
                        f"{nearest(name, known)}. Choose one with --{what}."
                    )
            if names:
                chosen &= np.array([value in names for value in values.tolist()], np.bool_)
        chosen_traces = self if chosen.all() else self.select(chosen)
        if not len(chosen_traces):
            raise BadChoice("expected traces of these models and data sets, found none that are both. Choose others.")
        return chosen_traces

    def require_one_model(self) -> str | None:
        """Return the name of the one model, None where it has none, and raise where there are several."""
        models = named(self.models)
        nameless = [] if models and None not in self.models else ["no model"]
        if len(models) + len(nameless) > 1:
            raise BadChoice(
                f"expected the traces of one model, found {len(models) + len(nameless)}: "
                f"{', '.join([_listed(models), *nameless])}. Choose one with --model"
                f"{', or name the model of every row' if nameless else ''}."
            )
        return models[0] if models else None

    def column(self, name: str) -> Texts:
        """Return one value a trace of a column that is constant within traces, None where null."""
        if name not in self.table:
            known = list(self.table)
            raise BadChoice(
                f"expected a column of the traces ({', '.join(map(ascii, known))}), found {name!r}"
                f"{nearest(name, known)}. Choose one with --by."
            )
        starts = np.cumsum(self.lengths) - self.lengths
        values = rules.categories(name, self.table[name])
        of_trace: Texts = values[starts]
        varies = np.flatnonzero(values != np.repeat(of_trace, self.lengths))
        if len(varies):
            trace = np.searchsorted(starts, varies[0], side="right") - 1
            raise BadChoice(
                f"expected a column that is constant within a trace, found that {name!r} changes within trace "
                f"{self.ids[trace]!r}. Subgroups are groups of questions: choose another column."
            )
        return of_trace

    def digest(self) -> str:
        """Return a digest of everything that a replay or a fit reads, whatever file it came from."""
        sha = hashlib.sha256()
        for texts in (self.ids, self.models, self.datasets, self.plans, self.questions):
            sha.update(json.dumps(texts.tolist()).encode())
        for array in (self.lengths, self.confidence + 0.0, self.correct, self.new, self.cost):
            sha.update(np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()


def require_matched(ours: Traces, theirs: Traces) -> None:
    """Raise unless both are the same states: ids, plans and labels, trace by trace."""
    if ours is theirs:
        return
    for what in ("ids", "models", "datasets", "plans", "lengths", "correct", "new", "cost"):
        mine, other = getattr(ours, what), getattr(theirs, what)
        if not np.array_equal(mine, other):
            raise Unmatched(
                f"expected two replays of the same states, found that their {what} differ "
                f"({len(ours):,} and {len(theirs):,} traces). Replay both policies over one trace set."
            )


def named(values: Texts) -> list[str]:
    """Return the distinct names of a column, sorted, nulls left out."""
    return sorted({value for value in values.tolist() if value is not None})


def _listed(names: Sequence[str]) -> str:
    more = f", … {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(ascii, names[:8])) + more or "none named"


def _nothing(size: int) -> Coded:
    return Coded(np.full(size, -1), objects([]))


def _check_splits(splits: Coded, found: rules.Violations) -> None:
    if not len(splits.values):
        return
    known = np.append([value in rules.SPLITS for value in splits.values], False)
    found.add(
        np.flatnonzero(~known[splits.codes]),
        "split",
        rules.cell(splits),
        f"expected one of {', '.join(rules.SPLITS)}",
        "Name the split of every row, or drop the column: then every trace is test.",
    )


def _prices(name: str, column: rules.Column | None, depth: Ints, found: rules.Violations) -> Floats:
    if column is None:
        return (depth > 0).astype(np.float64)
    remedy = "Give the price of reaching this depth from the one before; choose another column with --cost."
    values, usable = rules.numbers(name, column, found, "a price from 0", remedy)
    with np.errstate(invalid="ignore"):
        negative = np.flatnonzero(usable & (values < 0))
    found.add(negative, name, rules.cell(column), "expected a price from 0, found a negative one", remedy)
    dear = np.flatnonzero(usable & (values > rules.DEAREST))
    problem = f"expected a price up to {rules.DEAREST:g}, found one whose sums no number could hold"
    found.add(dear, name, rules.cell(column), problem, "Give prices in a larger unit.")
    marginal = name == "cost"
    if marginal:
        paid = np.flatnonzero(usable & (values > 0) & (depth == 0))
        remedy_paid = "Depth 0 shows no evidence and costs nothing; use --cost for a price that depth 0 pays too."
        found.add(paid, name, rules.cell(column), "expected 0 or null at depth 0", remedy_paid)
    unknown = np.flatnonzero(rules.is_null(column) & ~(marginal & (depth == 0)))
    remedy_null = "Fill in every price, or drop the column: then each retrieval costs 1."
    found.add(unknown, name, lambda _: None, "expected a price, found none", remedy_null)
    return np.where(usable, values, 0.0) + 0.0


def _unlike_copies(traces: Traces) -> tuple[str, ...]:
    before = np.zeros_like(traces.copied)
    before[:, :-1] = traces.copied[:, 1:]
    here, there = traces.copied[traces.present], before[traces.present]  # flat, in the order of the table
    differs = np.zeros(int(here.sum()), np.bool_)
    for name in ("answer", "confidence", "correct"):
        column = traces.table.get(name)
        if column is None:
            continue
        values = column.codes if isinstance(column, Coded) else rules.plain(column)
        differs |= values[here] != values[there]
    count = int(differs.sum())
    if not count:
        return ()
    return (
        f"{count:,} of {len(differs):,} states marked as copies (new_passages 0) differ from the state before; "
        "they are kept as recorded and are no transitions.",
    )
