"""Everything that gatewise refuses, and why, in one tree.

GatewiseError
└── Mistake               what the caller can put right; the command line prints it and exits with 2
    ├── BadChoice         an option, argument or name that cannot be what it is
    ├── BadPolicy         a policy answered something that is no action
    ├── BrokenFile        a file that is missing, cut short or not of its kind
    ├── BrokenTraces      a trace table that breaks its rules; carries the violations
    ├── Leak              a calibrator that has seen, or would see, what it is tested on
    └── Unmatched         two sets of episodes that did not walk the same states

Every message says what was expected, what was found and what to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class GatewiseError(Exception):
    """Anything raised on purpose."""


class Mistake(GatewiseError):
    """Something that the caller can put right."""


class BadChoice(Mistake):
    """An option, argument or name that cannot be what it is."""


class BadPolicy(Mistake):
    """A policy answered something that is no action."""


class BrokenFile(Mistake):
    """A file that is missing, cut short or not of its kind."""


class Leak(Mistake):
    """A calibrator that has seen, or would see, what it is tested on."""


class Unmatched(Mistake):
    """Two sets of episodes that did not walk the same states."""


@dataclass(frozen=True)
class Violation:
    """One rule of the trace table, broken in one place; rows count from 1, without a header line."""

    row: int
    column: str
    value: str
    problem: str
    remedy: str
    file: str = ""

    def __str__(self) -> str:
        """Place, value, expectation and remedy in one line."""
        place = f"{self.file} row {self.row}".strip()
        return f"{place}, column {self.column}, value {self.value}: {self.problem}. {self.remedy}"


class BrokenTraces(Mistake):
    """A trace table that breaks its rules: the first violations, and how many there are in all."""

    def __init__(self, violations: Sequence[Violation], total: int) -> None:
        self.violations = tuple(violations)
        self.total = total
        shown = f", the first {len(self.violations)} are" if total > len(self.violations) else ""
        noun = "place" if total == 1 else "places"
        head = f"the trace table breaks its rules in {total:,} {noun}{shown}:"
        super().__init__("\n  ".join([head, *map(str, self.violations)]))


def nearest(word: str, known: Sequence[str]) -> str:
    """Return ' (did you mean …?)' for the known word that resembles this one, or nothing."""
    import difflib

    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
