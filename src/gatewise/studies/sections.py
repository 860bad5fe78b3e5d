"""Sections of a TOML file → frozen dataclasses; all that is wrong is found at once, each with its line.

A dataclass is the whole description of its section: names, types, defaults, and checks in `Annotated`. A value that
looks like a key is never kept and never shown.
"""

import re
import tomllib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gatewise.errors import BrokenFile, nearest, shown

T = TypeVar("T")

Check = Callable[[Any], str]  # a value of the right type → what was expected instead, "" where it is fit
SHOWN = 20

# What services give their keys to begin with, and words that carry one along.
_SECRET = re.compile(
    r"(?:\b(?:sk|pk|rk|key|r8|hf|gsk|ghp|gho|pplx|xai|nvapi|glpat)[-_][A-Za-z0-9_-]{8,}"
    r"|\bAKIA[A-Z0-9]{12,}|\bAIza[A-Za-z0-9_-]{16,}|\bBearer\s+\S{8,}|\beyJ[A-Za-z0-9_-]{16,})"
)
_SECRET_NAME = re.compile(
    r"(?:.*[-_])?(?:key|apikey|token|secret|password|passwd|authorization|bearer|credentials?)", re.IGNORECASE
)
_ADDRESS_WITH_MORE = re.compile(r"//[^/\s]*@|\?[^\s]*=")
UNSHOWN = ("key_env",)  # whoever puts a key there by mistake does not read it on the screen
NO_KEY = "Keys never stand in a file: put it into an environment variable, and name that with key_env"


@dataclass(frozen=True)
class Wrong:
    """One thing that is wrong with a file: its line, 0 where none can be named, the key, and what to do."""

    line: int
    where: str
    problem: str

    def __str__(self) -> str:
        """Line, section and key, problem."""
        return f"{f'line {self.line}, ' if self.line else ''}{self.where}: {self.problem}."


def require_fit(found: Sequence[Wrong], file: str) -> None:
    """Raise where anything is wrong, all of it together, in the order of the file."""
    if not found:
        return
    listed = sorted(found, key=lambda one: (not one.line, one.line))
    noun = "place" if len(listed) == 1 else "places"
    first = f", the first {SHOWN} are" if len(listed) > SHOWN else ""
    head = f"the study file {file} breaks its rules in {len(listed)} {noun}{first}:"
    raise BrokenFile("\n  ".join([head, *map(str, listed[:SHOWN])]))


def looks_secret(text: str) -> bool:
    """Tell whether a text looks like a key.

    >>> looks_secret("sk-or-v1-0123456789abcdef"), looks_secret("OPENROUTER_API_KEY")
    (True, False)
    """
    return bool(_SECRET.search(text))


def safe(value: object) -> str:
    """Return a value as an error shows it, and nothing of one that may hold a key."""
    text = str(value)[:1000]  # far more than is shown
    if looks_secret(text):
        return "what looks like a key (not shown)"
    if _ADDRESS_WITH_MORE.search(text):
        return "an address with more in it (not shown)"
    return text.lower() if isinstance(value, bool) else shown(value)


class Sections:
    """A parsed TOML file, with the line of every key, and what has been found wrong so far."""

    def __init__(self, text: str, folder: Path, file: str) -> None:
        try:
            self.values = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            said = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "nested too deeply"
            said = "what looks like a key (not shown)" if looks_secret(said) else ascii(said)[1:-1][:200]
            raise BrokenFile(f"expected TOML in the study file {file}, found: {said}. Mend that line.") from None
        self.folder = folder
        self.file = file
        self.found: list[Wrong] = []
        self._unfit: set[tuple[str, int, str]] = set()
        self._lines = _lines(text)

    def wrong(self, where: tuple[str, int], key: str, problem: str) -> None:
        """Keep what is wrong with a key of a section, or with the section where the key is empty."""
        section, place = where
        self._unfit.add((section, place, key))
        places = ((section, place, key), (section, place, ""), ("", 0, section))
        line = next((self._lines[one] for one in places if one in self._lines), 0)
        many = isinstance(self.values.get(section), list)
        heading = f"[[{section}]] {place + 1}" if many else f"[{section}]"
        self.found.append(Wrong(line, f"{heading} {safe(key)[1:-1] if key else ''}".strip(), problem))

    def fit(self, where: tuple[str, int], *keys: str) -> bool:
        """Tell whether nothing has been found wrong with some keys of a section."""
        return not self._unfit & {(*where, key) for key in keys}

    def require_known(self, names: Sequence[str]) -> None:
        """Find sections that are none, and keys that stand before the first section."""
        for name, value in self.values.items():
            if name not in names:
                kind = "section" if isinstance(value, dict | list) else "key outside a section"
                line = self._lines.get((name, 0, "")) or self._lines.get(("", 0, name), 0)
                problem = f"no such {kind}{nearest(name, names)}. Sections are {', '.join(names)}"
                self.found.append(Wrong(line, safe(name)[1:-1], problem))

    def one(self, name: str, kind: type[T]) -> T | None:
        """Return the section of a name as its dataclass, None where that cannot be made.

        What is absent or unfit has its default: so that the rest can be looked at all the same.
        """
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            self.wrong((name, 0), "", f"expected one section [{name}], found {_kind(value)}")
            return None
        return self._record(kind, value, (name, 0))

    def many(self, name: str, kind: type[T]) -> list[tuple[tuple[str, int], T]]:
        """Return the sections of a name that can be made, each with its place."""
        values = self.values.get(name, [])
        if not isinstance(values, list) or not all(isinstance(one, dict) for one in values):
            self.wrong((name, 0), "", f"expected sections [[{name}]], found {_kind(values)}")
            return []
        if not values:
            self.found.append(Wrong(0, f"[[{name}]]", "expected one or more, found none"))
        records = [((name, place), self._record(kind, value, (name, place))) for place, value in enumerate(values)]
        return [(where, record) for where, record in records if record is not None]

    def _record(self, kind: type[T], values: Mapping[str, Any], where: tuple[str, int]) -> T | None:
        assert is_dataclass(kind)  # noqa: S101 -- whoever calls
        whole = True
        hints = get_type_hints(kind, include_extras=True)
        known = {one.name: one for one in fields(kind)}
        for key, value in values.items():
            if key in known:
                continue
            if _SECRET_NAME.fullmatch(key):
                self.wrong(where, key, f"expected no key in a file. {NO_KEY}")
            else:
                names = ", ".join(known)
                self.wrong(where, key, f"no such key{nearest(key, list(known))}. This section knows {names}")
            self._search(value, where, key)
        fit = {}
        for name, one in known.items():
            if name in values:
                if not self._search(values[name], where, name):
                    value, problem = convert(hints[name], values[name], self.folder)
                    if not problem:
                        fit[name] = value
                        continue
                    hidden = name in UNSHOWN and isinstance(values[name], str)
                    found = "something else (not shown)" if hidden else safe(values[name])
                    self.wrong(where, name, f"expected {problem}, found {found}")
            elif one.default is MISSING and one.default_factory is MISSING:
                self.wrong(where, "", f"expected the key {name}, found none")
            whole &= one.default is not MISSING or one.default_factory is not MISSING or name in fit
        return kind(**fit) if whole else None

    def _search(self, value: object, where: tuple[str, int], key: str) -> bool:
        """Find keys in a value, however deep they lie."""
        if isinstance(value, str) and looks_secret(value):
            self.wrong(where, key, f"found what looks like a key (not shown). {NO_KEY}")
            return True
        if isinstance(value, dict):
            named = [one for one in value if _SECRET_NAME.fullmatch(one)]
            if named:
                self.wrong(where, key, f"found {safe(named[0])} inside (its value is not shown). {NO_KEY}")
                return True
            return any(self._search(one, where, key) for one in value.values())
        return isinstance(value, list) and any(self._search(one, where, key) for one in value)


def convert(hint: Any, value: Any, folder: Path) -> tuple[Any, str]:
    """Return a TOML value as a type says, and what was expected where it is unfit."""
    if get_origin(hint) is Annotated:
        inner, *checks = get_args(hint)
        fit, problem = convert(inner, value, folder)
        return fit, problem or next(filter(None, (check(fit) for check in checks)), "")
    if get_origin(hint) in (Union, types.UnionType):
        return convert(next(one for one in get_args(hint) if one is not types.NoneType), value, folder)
    if get_origin(hint) is tuple:
        return _many(get_args(hint), value, folder)
    if is_dataclass(hint) and isinstance(hint, type):
        return _inner(hint, value, folder)
    if isinstance(hint, type) and issubclass(hint, Path):
        return (folder / value, "") if isinstance(value, str) and value.strip() else (None, "a path")
    if hint is float:
        fit = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        return (float(value), "") if fit else (None, "a finite number")
    expected = {str: "text in quotes", int: "a whole number", bool: "true or false"}
    if hint in expected:
        return (value, "") if type(value) is hint else (None, expected[hint])
    return (value, "") if isinstance(value, dict) else (None, "a table such as {name = 1}")


def _many(hints: tuple[Any, ...], value: Any, folder: Path) -> tuple[Any, str]:
    single, open_ended = hints[0], hints[-1] is Ellipsis
    if not isinstance(value, list) or not (open_ended or len(value) == len(hints)):
        return None, "a list" if open_ended else f"a list of {len(hints)}"
    parts = [convert(single, one, folder) for one in value]
    problem = next((problem for _, problem in parts if problem), "")
    return tuple(part for part, _ in parts), problem and f"a list, each of it {problem}"


def _inner(kind: type[Any], value: Any, folder: Path) -> tuple[Any, str]:
    """Return a small table inside a section, such as prices."""
    hints = get_type_hints(kind, include_extras=True)
    names = " and ".join(hints)
    if not isinstance(value, dict) or set(value) != set(hints):
        return None, f"a table of {names}"
    parts = {name: convert(hint, value[name], folder) for name, hint in hints.items()}
    problem = next((f"{problem} as {name}" for name, (_, problem) in parts.items() if problem), "")
    return (None, problem) if problem else (kind(**{name: part for name, (part, _) in parts.items()}), "")


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "one section"
    return "a list" if isinstance(value, list) else safe(value)


_HEADER = re.compile(r"""^\s*(\[\[?)\s*([\w."'-]+)\s*\]\]?\s*(?:#.*)?$""")
_KEY = re.compile(r"""^\s*(["']?)([\w.-]+)\1\s*(?:\.[^=]*)?=""")


def _lines(text: str) -> dict[tuple[str, int, str], int]:
    """Return where sections and their keys stand: (section, which of its name, key) → line, from 1."""
    found: dict[tuple[str, int, str], int] = {}
    counts: dict[str, int] = {}
    section, place, quoted = "", 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        if quoted:  # inside a text of several lines nothing is a key
            quoted = "" if quoted in line else quoted
            continue
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            name, _, inner = header[2].strip("\"'").partition(".")
            if not inner:
                section, place = name, counts.get(name, 0)
                counts[name] = place + 1
                found.setdefault((section, place, ""), number)
            else:
                found.setdefault((name, max(counts.get(name, 1) - 1, 0), inner.partition(".")[0]), number)
        elif key:
            found.setdefault((section, place, key[2].partition(".")[0]), number)
        quoted = next((mark for mark in ('"""', "'''") if line.count(mark) % 2), "")
    return found
