"""agreement: two judges' verdicts on the same answers → where they agree, and by how much more than by chance."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.errors import BadChoice, Unmatched, nearest, shown
from gatewise.replays.arrays import UNKNOWN, Coded, Ints, Labels, Texts, objects, ratio
from gatewise.replays.rules import plain
from gatewise.replays.traces import Traces


@dataclass(frozen=True)
class Agreement:
    """The counts of two judges' verdicts on the same answers; ratios are of answers with both verdicts.

    >>> one = Agreement(both_right=20, first_right=5, second_right=10, both_wrong=15)
    >>> one.observed, one.kappa
    (0.7, 0.4)
    """

    both_right: int = 0
    first_right: int = 0  # the first says right, the second wrong
    second_right: int = 0
    both_wrong: int = 0
    without_first: int = 0  # the first has no verdict, the second has
    without_second: int = 0
    without_both: int = 0

    @property
    def n(self) -> int:
        """Answers on which both have a verdict."""
        return self.both_right + self.first_right + self.second_right + self.both_wrong

    @property
    def observed(self) -> float | None:
        """The share of answers on which both say the same."""
        return ratio(self.both_right + self.both_wrong, self.n)

    @property
    def expected(self) -> float | None:
        """The share on which they would by chance, each saying right as often as it does."""
        return ratio(self._chance, self.n**2)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, one division of whole numbers; None where chance alone leaves nothing to disagree on."""
        return ratio(self.n * (self.both_right + self.both_wrong) - self._chance, self.n**2 - self._chance)

    @property
    def first(self) -> float | None:
        """The share that the first calls right."""
        return ratio(self.both_right + self.first_right, self.n)

    @property
    def second(self) -> float | None:
        """The share that the second calls right."""
        return ratio(self.both_right + self.second_right, self.n)

    @property
    def _chance(self) -> int:
        ours, theirs = self.both_right + self.first_right, self.both_right + self.second_right
        return ours * theirs + (self.n - ours) * (self.n - theirs)

    def as_json(self) -> dict[str, Any]:
        """Return counts and ratios as plain values."""
        ratios = ("observed", "expected", "kappa", "first", "second")
        return {"n": self.n, **vars(self), **{name: getattr(self, name) for name in ratios}}


def agreement(pairs: Iterable[tuple[bool | None, bool | None]]) -> Agreement:
    """Return the agreement of pairs of verdicts, None where there is none.

    >>> one = agreement([(True, True), (True, False), (None, True)])
    >>> one.both_right, one.first_right, one.without_first
    (1, 1, 1)
    """
    rows = [[UNKNOWN if one is None else int(one) for one in pair] for pair in pairs]
    verdicts = np.array(rows, np.int8).reshape(len(rows), 2)
    return _counted(verdicts[:, 0], verdicts[:, 1])


def _counted(first: Labels, second: Labels) -> Agreement:
    return _grouped(first, second, np.zeros(len(first), np.int64), 1)[0]


def _grouped(first: Labels, second: Labels, groups: Ints, size: int) -> list[Agreement]:
    """Return the agreement within each of some groups, numbered from 0."""
    cells = (first.astype(np.int64) + 1) * 3 + second + 1
    counts = np.bincount(groups * 9 + cells, minlength=9 * size).reshape(size, 9)
    return [
        Agreement(
            both_right=row[8],
            first_right=row[7],
            second_right=row[5],
            both_wrong=row[4],
            without_first=row[1] + row[2],
            without_second=row[3] + row[6],
            without_both=row[0],
        )
        for row in counts.tolist()
    ]


@dataclass(frozen=True)
class Agreements:
    """The agreement of two judges over all states, and by each value of a column."""

    pooled: Agreement
    by: tuple[str, Mapping[str | int | float | None, Agreement]] | None = None
    judges: tuple[str, str] = ("first", "second")
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the agreements as plain values."""
        return {
            "schema": "gatewise.agree/1",
            "judges": list(self.judges),
            **self.pooled.as_json(),
            "by": self.by
            and {
                "column": self.by[0],
                "groups": [{"value": value, **one.as_json()} for value, one in self.by[1].items()],
            },
            "warnings": list(self.warnings),
        }


def agree(ours: Traces, theirs: Traces, *, by: str | None = None) -> Agreements:
    """Return how far the verdicts of two trace tables agree, or raise `Unmatched` unless they judge the same answers.

    States are matched by model, trace and depth; a copied state counts as the state that it is. `by` names a column
    that is constant within traces, or `depth`.
    """
    _require_same_answers(ours, theirs)
    here = ours.present
    first, second = ours.correct[here], theirs.correct[here]
    groups = None
    if by is not None:
        values = _values(ours, by)[here].tolist()
        kinds = sorted(set(values), key=lambda value: (value is None, isinstance(value, str), value))
        place = {value: code for code, value in enumerate(kinds)}
        codes = np.array([place[value] for value in values], np.int64)
        groups = (by, dict(zip(kinds, _grouped(first, second, codes, len(kinds)), strict=True)))
    warnings = []
    if "answer" not in ours.table:
        warnings.append("the tables have no answers: nothing says that both judged the same ones.")
    names = (_judge(ours), _judge(theirs))
    if names[0] and names[0] == names[1]:
        warnings.append(f"both tables name the judge {shown(names[0])}: an agreement of a judge with itself.")
    return Agreements(_counted(first, second), groups, (names[0] or "first", names[1] or "second"), tuple(warnings))


def _values(traces: Traces, by: str) -> Texts:
    """Return the value of a column for every state, as a block."""
    if by == "depth":
        rows = np.broadcast_to(np.arange(traces.depths), traces.present.shape)
        return objects(rows.ravel().tolist()).reshape(traces.present.shape)
    names = [*traces.table, "depth"]
    if by not in names:
        raise BadChoice(
            f"expected a column of the traces ({', '.join(map(ascii, names))}), found {by!r}{nearest(by, names)}. "
            "Choose one with --by."
        )
    values: Texts = np.repeat(traces.column(by)[:, None], traces.depths, axis=1)
    return values


def _judge(traces: Traces) -> str | None:
    """Return the one judge that a table names, None where it names none or several."""
    column = traces.table.get("judge")
    names = set(column.values[column.codes[column.codes >= 0]].tolist()) if isinstance(column, Coded) else set()
    return str(names.pop()) if len(names) == 1 else None


def _require_same_answers(ours: Traces, theirs: Traces) -> None:
    """Raise unless both tables hold the same states, with the same answers to the same questions."""
    if len(ours) != len(theirs) or not all(
        np.array_equal(getattr(ours, what), getattr(theirs, what)) for what in ("ids", "models", "lengths")
    ):
        lone = _keys(ours) ^ _keys(theirs)
        where = f" {shown(min(lone, key=str))} stands in one of them alone." if lone else ""
        raise Unmatched(
            f"expected verdicts on the same states, found {len(_keys(ours)):,} and {len(_keys(theirs)):,} states, "
            f"{len(lone):,} of them in one table alone.{where} Judge the same recording twice."
        )
    for name in ("question", "plan", "answer"):
        mine, other = _texts(ours, name), _texts(theirs, name)
        differ = np.flatnonzero(mine != other)
        if len(differ):
            traces, depths = np.nonzero(ours.present)
            trace, depth = traces[differ[0]], depths[differ[0]]
            raise Unmatched(
                f"expected verdicts on the same {name}s, found that {len(differ):,} of {len(mine):,} differ, first "
                f"at trace {shown(ours.ids[trace])}, depth {depth}: {shown(mine[differ[0]])} and "
                f"{shown(other[differ[0]])}. Judge the same recording twice."
            )


def _texts(traces: Traces, name: str) -> Texts:
    column = traces.table.get(name)
    if column is None:
        return objects([None] * int(traces.lengths.sum()))
    return column.texts() if isinstance(column, Coded) else objects(plain(column).tolist())


def _keys(traces: Traces) -> set[tuple[str | None, str, int]]:
    states = zip(traces.models.tolist(), traces.ids.tolist(), traces.lengths.tolist(), strict=True)
    return {(model, name, depth) for model, name, length in states for depth in range(length)}
