"""Everything that gatewise refuses, and why, in one tree.

GatewiseError
├── Unfit                 a row that is no question, by the rule it breaks; refused with its like, or skipped
└── Mistake               what the caller can put right; the command line prints it and exits with 2
    ├── BadChoice         an option, argument or name that cannot be what it is
    ├── BadPolicy         a policy answered something that is no action
    ├── BrokenFile        a file that is missing, cut short or not of its kind
    ├── BrokenRows        rows that break the rules of their table; carries the violations
    │   ├── BrokenTraces      … of the trace table
    │   └── BrokenQuestions   … of a file of questions, or of plans
    ├── Leak              a calibrator that has seen, or would see, what it is tested on
    ├── Unavailable       something remote that could not be had
    │   └── Refused           … because the endpoint will not serve this request as it stands
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


class Unavailable(Mistake):
    """Something remote that could not be had.

    `kind` names why in one word, for counting; `final` says that no other call to the same place can do better.
    """

    def __init__(self, message: str, kind: str = "network", *, final: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.final = final


class Refused(Unavailable):
    """A request that an endpoint understood and will not serve as it stands; `said` are its own words."""

    def __init__(self, message: str, status: int, said: str) -> None:
        super().__init__(message, "refused")
        self.status = status
        self.said = said


class Unmatched(Mistake):
    """Two sets of episodes that did not walk the same states."""


class Unfit(GatewiseError):
    """A row that is no question: the rule that it breaks, where, and what to do."""

    def __init__(self, kind: str, column: str, value: object, problem: str, remedy: str) -> None:
        super().__init__(f"column {column}, value {shown(value)}: {problem}. {remedy}")
        self.kind = kind
        self.column = column
        self.value = value
        self.problem = problem
        self.remedy = remedy


@dataclass(frozen=True)
class Violation:
    """One rule of a table, broken in one place; rows count from 1, without a header line."""

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


SHOWN = 10  # violations listed together


class BrokenRows(Mistake):
    """Rows that break the rules of their table: the first violations, and how many there are in all."""

    table = "table"

    def __init__(self, violations: Sequence[Violation], total: int) -> None:
        self.violations = tuple(violations)
        self.total = total
        shown = f", the first {len(self.violations)} are" if total > len(self.violations) else ""
        noun = "place" if total == 1 else "places"
        head = f"the {self.table} breaks its rules in {total:,} {noun}{shown}:"
        super().__init__("\n  ".join([head, *map(str, self.violations)]))


class BrokenTraces(BrokenRows):
    """A trace table that breaks its rules."""

    table = "trace table"


class BrokenQuestions(BrokenRows):
    """A file of questions or of plans that breaks its rules."""

    table = "question file"


def shown(value: object) -> str:
    """Return a value as an error shows it: one line, short, nothing that a terminal would obey.

    >>> shown("85%"), shown(None), shown(1.5)
    ("'85%'", 'null', '1.5')
    """
    if value is None:
        return "null"
    try:
        text = ascii(value)
    except RecursionError:
        text = "(nested too deeply to show)"
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(word: str, known: Sequence[str]) -> str:
    """Return ' (did you mean …?)' for the known word that resembles this one, or nothing."""
    import difflib

    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def raised(error: BaseException) -> str:
    """Return what code of the user's own raised, and where, in one line."""
    import os
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    said = ascii(str(error).partition("\n")[0])[1:-1][:200]
    return f"{type(error).__name__}: {said} ({os.path.basename(last.filename)}, line {last.lineno})"
