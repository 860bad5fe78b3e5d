"""Build the bundled multi-hop questions from tables of public facts: same tables, same bytes.

    python experiments/worldfacts/make.py            # write src/gatewise/data/worldfacts.jsonl
    python experiments/worldfacts/make.py --check    # exit 1 if the shipped file differs

A question is a walk through the tables: a novel → its author → the birthplace → the country → the capital. Every hop
is one supporting passage. The other passages are true too: other walks of the same kind, and traps, which answer a
lazy reading of the question. What chance decides elsewhere, keyed hashes decide here.
"""

import argparse
import csv
import hashlib
import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TARGET = HERE.parents[1] / "src" / "gatewise" / "data" / "worldfacts.jsonl"
QUOTAS = {2: 324, 3: 252, 4: 144}  # questions by hops
PASSAGES = 10
PER_START = 4  # questions that start from one entity
PER_ANSWER = 12  # questions of one number of hops that share an answer
SHARED = ("", "7", "39", "44", "47")  # calling codes of more than one country
HOME_NATIONS = ("England", "Scotland", "Wales", "Northern Ireland")

Row = dict[str, str]

# The tables: the kind of their rows → file.
FILES = {
    "battle": "battles", "book": "books", "building": "buildings", "city": "cities", "country": "countries",
    "element": "elements", "film": "films", "idea": "ideas", "moon": "moons", "museum": "museums", "music": "music",
    "painting": "paintings", "person": "people", "planet": "planets", "president": "presidents", "river": "rivers",
    "state": "states", "university": "universities",
}  # fmt: skip

# What a column names: the kind of the row that the next hop reads.
NAMES = {
    "architect": "person", "author": "person", "birthplace": "city", "city": "city", "composer": "person",
    "country": "country", "director": "person", "discoverer": "person", "element": "element", "museum": "museum",
    "painter": "person", "person": "person", "planet": "planet", "premiere": "city", "president": "president",
    "river": "river", "state": "state",
}  # fmt: skip

# How a fact is said: {n} is the row's name, {v} the value, others are columns. A hash chooses among several.
FACTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("battle", "country"): (
        "The Battle of {n} was fought in what is now {v}.",
        "The place of the Battle of {n} lies in what is now {v}.",
    ),
    ("battle", "year"): ("The Battle of {n} was fought in {v}.",),
    ("book", "author"): ("{n} is a {form} by {v}.", "The {form} {n} was written by {v}."),
    ("book", "year"): ("The {form} {n} was first published in {v}.", "{n} is a {form} that came out in {v}."),
    ("building", "architect"): ("{n} was {maker} by {v}.",),
    ("building", "city"): ("In {v} you can find {n}.", "You can find {n} in {v}."),
    ("city", "country"): ("{n} is a {size} in {v}.", "The {size} of {n} is in {v}."),
    ("city", "state"): ("{n} is a {size} in the US state of {v}.",),
    ("city", "river"): ("The river that flows through {n} is {v}.", "{n} lies on {v}."),
    ("code", "country"): ("{n} is the international calling code of {v}.",),
    ("country", "capital"): ("The capital of {n} is {v}.",),
    ("country", "code"): ("The international calling code of {n} is +{v}.",),
    ("country", "continent"): ("{n} is a country in {v}.",),
    ("country", "currency"): ("The currency of {n} is the {v}.", "People in {n} pay with the {v}."),
    ("country", "language"): ("The main language of {n} is {v}.",),
    ("country", "mountain"): ("The highest mountain of {n} is {v}.",),
    ("element", "country"): ("The chemical element {n} is named after {v}.",),
    ("element", "discoverer"): ("The chemical element {n} was discovered by {v}.", "{v} discovered the element {n}."),
    ("element", "number"): ("The atomic number of {n} is {v}.",),
    ("element", "person"): ("The chemical element {n} is named after {v}.",),
    ("element", "year"): ("The chemical element {n} was discovered in {v}.",),
    ("film", "director"): ("{n} is a film by {v}.", "The film {n} was directed by {v}."),
    ("film", "year"): ("The film {n} came out in {v}.",),
    ("moon", "discoverer"): ("The moon {n} was discovered by {v}.", "{v} discovered the moon {n}."),
    ("moon", "planet"): ("{n} is a moon of {v}.", "The moon {n} goes round the planet {v}."),
    ("museum", "city"): ("{n} is a museum in {v}.",),
    ("music", "composer"): ("The {form} {n} was composed by {v}.", "{v} composed the {form} {n}."),
    ("music", "premiere"): ("{n} was first performed in {v}.",),
    ("music", "year"): ("{n} was first performed in {v}.",),
    ("namesake", "number"): ("The element {element} is named after {n}. The atomic number of {element} is {v}.",),
    ("namesake", "symbol"): ("The element {element} is named after {n}. The chemical symbol of {element} is {v}.",),
    ("office", "president"): ("The {name} President of the United States was {v}.",),
    ("painting", "museum"): ("The painting {n} hangs in {v}.", "{n} is a painting in {v}."),
    ("painting", "painter"): ("{n} is a painting by {v}.", "The painting {n} was made by {v}."),
    ("person", "birthplace"): ("{n} was born in {v}.", "The birthplace of {n} is {v}."),
    ("person", "born"): ("{n} was born in {v}.", "The {role} {n} was born in the year {v}."),
    ("planet", "largest_moon"): ("The largest moon of {n} is {v}.",),
    ("planet", "place"): ("Counted from the Sun, {n} is the {v} planet.", "{n} is the {v} planet from the Sun."),
    ("president", "state"): ("{n} was born in the US state of {v}.",),
    ("river", "mouth"): ("{n} flows into {v}.",),
    ("state", "capital"): ("The capital of {n} is {v}.",),
    ("state", "nickname"): ("{n} is called the {v}.", "The nickname of {n} is the {v}."),
    ("symbol", "element"): ("{n} is the chemical symbol of {v}.",),
    ("university", "city"): ("The students of {n} study in {v}.", "{n} is a university in {v}."),
}

# What else a passage may say before or after its fact: it is left out where it would give something away.
FILLERS: dict[str, tuple[str, ...]] = {
    "battle": ("The year of the battle was {year}.",),
    "book": ("{n} was first published in {year}.",),
    "city": ("{n} lies on {river}.",),
    "country": ("{n} is a country in {continent}.",),
    "element": ("The chemical symbol of {n} is {symbol}.",),
    "film": ("{n} came out in {year}.",),
    "moon": ("{n} was discovered in {year}.",),
    "music": ("The year of the first performance was {year}.",),
    "person": ("{n} was a {role}.",),
    "planet": ("{n} is a planet.",),
    "president": ("{n} was the {ordinal} President of the United States.",),
    "river": ("{n} is a river.",),
    "state": ("{n} is a state of the United States.",),
}

# Starts whose other passages stay bare: a filler would say what the first hop says.
UNFILLED = ("symbol", "office")

# What a whole walk starts from, when it leads to a person: how the person is called.
PERSONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "book": ("the author of the {form} {name}", ("author",)),
    "building": ("the {maker} {name}", ("architect",)),
    "element": ("the discoverer of the element {name}", ("discoverer",)),
    "film": ("the director of the {year} film {name}", ("director",)),
    "idea": ("{phrase}", ("person",)),
    "moon": ("the discoverer of the moon {name}", ("discoverer",)),
    "music": ("the composer of the {form} {name}", ("composer",)),
    "namesake-element": ("the scientist after whom the element {name} is named", ("person",)),
    "painting": ("the painter of {name}", ("painter",)),
    "symbol": ("the discoverer of the element with the chemical symbol {name}", ("element", "discoverer")),
}

# … and when it leads to a place: the question after its country, how city and country are called, and the way there.
PLACES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "building": (
        "In which {area} can you find {name}?",
        "the city where you can find {name}",
        "the {area} where you can find {name}",
        ("city",),
    ),
    "music": (
        "In which present-day {area} was the {form} {name} first performed?",
        "the city where the {form} {name} was first performed",
        "the present-day {area} where the {form} {name} was first performed",
        ("premiere",),
    ),
    "painting": (
        "In which {area} is the museum that shows the painting {name}?",
        "the city with the museum that shows the painting {name}",
        "the {area} with the museum that shows the painting {name}",
        ("museum", "city"),
    ),
    "university": (
        "In which {area} is {name}?",
        "the city where {name} is",
        "the {area} where {name} is",
        ("city",),
    ),
}

# What is asked about a country, a state, or a city's river at the end.
COUNTRY = {
    "capital": "What is the capital of {np}?",
    "code": "What is the international calling code of {np}?",
    "continent": "On which continent is {np}?",
    "currency": "Which currency is used in {np}?",
    "language": "What is the main language of {np}?",
    "mountain": "What is the highest mountain of {np}?",
}
STATE = {"capital": "What is the capital of {np}?", "nickname": "What is the nickname of {np}?"}

# Countries reached in one step.
LANDS = {
    "battle": "the present-day country where the Battle of {name} was fought",
    "city": "the country where the {size} of {name} lies",
    "code": "the country with the international calling code {name}",
    "element": "the country after which the element {name} is named",
}

TOPICS = {
    "battle": "history", "book": "literature", "building": "architecture", "city": "geography", "code": "geography",
    "element": "chemistry", "film": "film", "idea": "science", "moon": "astronomy", "music": "music",
    "namesake-element": "chemistry", "office": "presidents", "painting": "art", "president": "presidents",
    "symbol": "chemistry", "university": "universities",
}  # fmt: skip


class Fault(Exception):
    """The tables or the questions break a rule."""


@dataclass(frozen=True)
class Template:
    """A kind of question: where its walks start, the columns they follow, and how it is asked."""

    name: str
    start: str
    path: tuple[str, ...]
    pattern: str


@dataclass(frozen=True)
class Hop:
    """One step of a walk: a row, the column that is read, and the value there."""

    kind: str
    row: int
    column: str
    name: str
    value: str


@dataclass(frozen=True)
class Draft:
    """A question before it gets its other passages."""

    name: str
    family: str
    topic: str
    starts: tuple[str, ...]
    question: str
    answers: tuple[str, ...]
    supports: tuple[dict[str, str], ...]
    hidden: tuple[str, ...]  # names on the way that nothing else may mention
    walks: tuple[tuple[Hop, ...], ...]


def folded(text: str) -> str:
    """Return a text in ASCII: accents dropped, special letters spelled out."""
    special = str.maketrans({"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "ß": "ss", "ð": "d", "æ": "ae", "’": "'"})
    return unicodedata.normalize("NFKD", text.translate(special)).encode("ascii", "ignore").decode()


def normal(text: str) -> str:
    """Return the lower-case words of a text, in ASCII, without articles."""
    return " ".join(word for word in re.findall(r"[a-z0-9]+", folded(text).lower()) if word not in ("a", "an", "the"))


def says(text: str, phrase: str) -> bool:
    """Return whether a text holds a phrase as whole words."""
    return f" {normal(phrase)} " in f" {normal(text)} "


def slug(text: str) -> str:
    """Return a text as lower-case words joined by hyphens."""
    return normal(text).replace(" ", "-")


def key(*parts: str) -> str:
    """Return a hash that orders things without any pattern, and always the same way."""
    return hashlib.blake2b("\x1f".join(parts).encode(), key=b"worldfacts", digest_size=16).hexdigest()


def by(*parts: str) -> Callable[[Row], str]:
    """Return what sorts rows by a hash of their names."""
    return lambda row: key(*parts, row["name"])


def choice(options: Sequence[str], *parts: str) -> str:
    """Return one of some options, chosen by a hash."""
    return options[int(key(*parts), 16) % len(options)]


def sentence(text: str) -> str:
    """Return a text with its first letter as a capital."""
    return text[0].upper() + text[1:]


def read_tables() -> dict[str, list[Row]]:
    """Return all tables, and those that are other tables read backwards; names are unique within a table."""
    tables: dict[str, list[Row]] = {}
    for kind, file in FILES.items():
        with (HERE / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
            tables[kind] = list(csv.DictReader(lines))
    tables["code"] = [
        {"name": f"+{r['code']}", "country": r["name"]} for r in tables["country"] if r["code"] not in SHARED
    ]
    tables["symbol"] = [{"name": r["symbol"], "element": r["name"]} for r in tables["element"]]
    tables["office"] = [{"name": r["ordinal"], "president": r["name"]} for r in tables["president"]]
    tables["namesake"] = [
        {"name": r["person"], "element": r["name"], "symbol": r["symbol"], "number": r["number"]}
        for r in tables["element"]
        if r["person"]
    ]
    tables["namesake-element"] = [r for r in tables["element"] if r["person"]]
    for kind, rows in tables.items():
        for row in rows:
            if None in row or None in row.values():
                raise Fault(f"{kind}: {row} has another number of columns than its table.")
            for column, value in row.items():
                named = NAMES.get(column)
                if (
                    named in FILES
                    and value
                    and named != "element"
                    and not any(r["name"] == value for r in tables[named])
                ):
                    raise Fault(f"{kind} {row['name']}: {column} {value!r} is in no row of {named}.")
        twice = [name for name, n in Counter(row["name"] for row in rows).items() if n > 1]
        if twice:
            raise Fault(f"{kind}: {twice} more than once.")
    return tables


def person_templates() -> Iterator[Template]:
    """Yield the questions about the person behind a thing: birthplace, year, country, and what follows from them."""
    for start, (phrase, way) in PERSONS.items():
        yield Template(
            "birthplace", start, (*way, "birthplace"), f"In which city, town or village was {phrase} born?"
        )
        yield Template("born", start, (*way, "born"), f"In which year was {phrase} born?")
        birth = (*way, "birthplace")
        yield Template("country", start, (*birth, "country"), f"In which present-day country was {phrase} born?")
        yield Template("state", start, (*birth, "state"), f"In which US state was {phrase} born?")
        yield Template(
            "river", start, (*birth, "river"), f"Which river flows through the place where {phrase} was born?"
        )
        yield Template(
            "mouth",
            start,
            (*birth, "river", "mouth"),
            f"Into which body of water does the river flow that runs through the birthplace of {phrase}?",
        )
        for column, pattern in COUNTRY.items():
            asked = pattern.format(np=f"the present-day country where {phrase} was born")
            yield Template(f"birth-{column}", start, (*birth, "country", column), asked)
        for column, pattern in STATE.items():
            asked = pattern.format(np=f"the US state where {phrase} was born")
            yield Template(f"state-{column}", start, (*birth, "state", column), asked)


def place_templates() -> Iterator[Template]:
    """Yield the questions about the place of a thing: its country, its river, and what follows from them."""
    for start, (asked, city, area, way) in PLACES.items():
        country, state = area.replace("{area}", "country"), area.replace("{area}", "US state")
        yield Template("place-country", start, (*way, "country"), asked.replace("{area}", "country"))
        if start != "music":
            yield Template("place-state", start, (*way, "state"), asked.replace("{area}", "US state"))
            for column, pattern in STATE.items():
                yield Template(f"place-state-{column}", start, (*way, "state", column), pattern.format(np=state))
        if len(way) > 1:
            yield Template("place", start, way, asked.replace("{area}", "city"))
        yield Template("place-river", start, (*way, "river"), f"Which river flows through {city}?")
        yield Template(
            "place-mouth",
            start,
            (*way, "river", "mouth"),
            f"Into which body of water does the river flow that runs through {city}?",
        )
        for column, pattern in COUNTRY.items():
            yield Template(f"place-{column}", start, (*way, "country", column), pattern.format(np=country))


def other_templates() -> Iterator[Template]:
    """Yield the questions that lead straight to a country, a state, an element or a planet."""
    for start, phrase in LANDS.items():
        for column, pattern in COUNTRY.items():
            if (start, column) != ("code", "code"):
                yield Template(f"land-{column}", start, ("country", column), pattern.format(np=phrase))
    water = "Into which body of water does the river flow that runs through the {size} of {name}?"
    yield Template("city-mouth", "city", ("river", "mouth"), water)
    office = "the {name} President of the United States"
    yield Template("office-state", "office", ("president", "state"), f"In which US state was {office} born?")
    for column, pattern in STATE.items():
        asked = pattern.format(np=f"the US state where {office} was born")
        yield Template(f"office-{column}", "office", ("president", "state", column), asked)
        asked = pattern.format(np="the US state where President {name} was born")
        yield Template(f"president-{column}", "president", ("state", column), asked)
    symbol = "the element with the chemical symbol {name}"
    yield Template("symbol-discoverer", "symbol", ("element", "discoverer"), f"Who discovered {symbol}?")
    yield Template("symbol-number", "symbol", ("element", "number"), f"What is the atomic number of {symbol}?")
    yield Template("symbol-year", "symbol", ("element", "year"), f"In which year was {symbol} discovered?")
    named = "the element named after {phrase}"
    yield Template("idea-symbol", "idea", ("person", "namesake:symbol"), f"What is the chemical symbol of {named}?")
    yield Template("idea-number", "idea", ("person", "namesake:number"), f"What is the atomic number of {named}?")
    asked = "Counted from the Sun, which place has the planet that the moon {name} goes round?"
    yield Template("moon-place", "moon", ("planet", "place"), asked)
    asked = "What is the largest moon of the planet that the moon {name} goes round?"
    yield Template("moon-largest", "moon", ("planet", "largest_moon"), asked)


class World:
    """The tables, and what can be asked and said about them."""

    def __init__(self, tables: dict[str, list[Row]]) -> None:
        self.tables = tables
        self.places = {kind: {row["name"]: i for i, row in enumerate(rows)} for kind, rows in tables.items()}

    def row(self, kind: str, name: str) -> Row:
        """Return the row of a name, empty if there is none."""
        place = self.places[kind].get(name)
        return {} if place is None else self.tables[kind][place]

    def called(self, kind: str, name: str) -> str:
        """Return a name as it stands in a sentence, with its article."""
        if kind in ("river", "sea"):
            return f"the {name}"
        article = self.row(kind, name).get("article", "") if kind in self.tables else ""
        return f"{article} {name}".strip()

    def walk(self, start: str, name: str, path: Sequence[str]) -> tuple[Hop, ...]:
        """Return the hops from a row along a path, nothing if a value is missing on the way."""
        hops: list[Hop] = []
        kind = start
        for step in path:
            other, _, column = step.rpartition(":")
            kind = other or kind
            value = self.row(kind, name).get(column, "")
            if not value:
                return ()
            hops.append(Hop(kind, self.places[kind][name], column, name, value))
            kind, name = NAMES.get(column, ""), value
        return tuple(hops)

    def title(self, hop: Hop) -> str:
        """Return the title of a hop's passage."""
        row = self.tables[hop.kind][hop.row]
        match hop.kind:
            case "battle":
                return f"Battle of {hop.name}"
            case "code":
                return f"Calling code {hop.name}"
            case "symbol":
                return f"Chemical symbol {hop.name}"
            case "office":
                return f"{sentence(hop.name)} President of the United States"
            case "namesake":
                return sentence(row["element"])
            case _:
                return sentence(re.sub("^the ", "", hop.name))

    def fact(self, hop: Hop, salt: str = "") -> str:
        """Return the sentence that says a hop's value."""
        row = self.tables[hop.kind][hop.row]
        value_kind = NAMES.get(hop.column, "sea" if hop.column == "mouth" else "")
        if hop.column == "mouth" and self.row("river", hop.value):
            value_kind = "river"
        value = self.called(value_kind, hop.value)
        kind = "element" if hop.kind == "namesake-element" else hop.kind
        if kind == "idea":
            return sentence(row["sentence"].format(person=value))
        said = choice(FACTS[kind, hop.column], "said", kind, hop.column, hop.name, salt)
        return sentence(said.format_map({**row, "n": self.called(kind, hop.name), "v": value}))

    def passage(self, hop: Hop, salt: str, hidden: Sequence[str], *, filled: bool = True) -> dict[str, str]:
        """Return a hop's passage; it says nothing besides its fact that is hidden."""
        row, text = self.tables[hop.kind][hop.row], self.fact(hop, salt)
        for filler in FILLERS.get(hop.kind, ()) if filled else ():
            columns = re.findall(r"{(\w+)}", filler)
            if any(not row.get(column) for column in columns if column != "n") or hop.column in columns:
                continue
            living = hop.kind == "person" and not row["died"]
            wording = filler.replace(" was a ", " is a ") if living else filler
            shown = {**row, "n": self.called(hop.kind, hop.name), "river": self.called("river", row.get("river", ""))}
            if living or hop.kind == "person":
                shown["role"] = row["role"]
            more = sentence(wording.format_map(shown)).replace(" a a", " an a").replace(" a e", " an e")
            more = more.replace(" a i", " an i")
            if not any(says(more.replace(hop.name, "", 1), name) for name in hidden):
                first = hop.kind in ("person", "country", "river", "state", "planet", "president")
                text = f"{more} {text}" if first else f"{text} {more}"
        return {"title": self.title(hop), "text": text}

    def answers(self, walk: Sequence[Hop]) -> tuple[str, ...]:
        """Return the last value of a walk and all the ways in which it may be given."""
        last = walk[-1]
        value, kind = last.value, NAMES.get(last.column, "")
        also: list[str] = []
        country = self.row("country", last.name)
        match last.column:
            case "country":
                also += self.row("country", value)["aliases"].split("|")
                also += [a for a in self.row("city", last.name).get("aliases", "").split("|") if a in HOME_NATIONS]
            case "currency":
                also += [] if value == "euro" else [f"{country['adjective']} {value}"]
                also += {
                    "pound": ["pound sterling"] if last.name == "United Kingdom" else [],
                    "ruble": ["rouble", f"{country['adjective']} rouble"],
                    "yuan": ["renminbi"],
                    "hryvnia": ["hryvna"],
                    "koruna": ["crown", "Czech crown"],
                    "krone": ["kroner", "crown"],
                    "krona": ["kronor", "crown"],
                }.get(value, [])
            case "mountain":
                bare = re.sub("^(Mount|Pico de) | Peak$", "", value)
                also += [
                    bare,
                    *([] if re.search("^(Pico|Mont) |Peak", value) else [f"Mount {bare}"]),
                    *(["Aoraki"] if bare == "Cook" else []),
                ]
            case "river":
                bare = value.removesuffix(" River")
                also += [bare, f"{bare} River", f"River {bare}"]
            case "mouth":
                also += [value.removesuffix(" Ocean")] if value.endswith("Ocean") else []
                also += {"Loire": ["Bay of Biscay"], "Guadalquivir": ["Gulf of Cádiz"]}.get(last.name, [])
                also += [value.split()[0]] if value.split()[0] in ("Mediterranean", "Adriatic", "Baltic") else []
                also += [f"{value} River", f"River {value}"] if len(value.split()) == 1 else []
            case "place":
                digit = {"fourth": "4", "fifth": "5", "sixth": "6", "seventh": "7", "eighth": "8"}[value]
                also += [f"{digit}th", digit, f"{value} planet", f"{value} place"]
            case "state":
                also += [f"{value} State"] if value in ("New York", "Washington") else []
        if kind == "person":
            also += self.row("person", value)["aliases"].split("|") + value.replace(" II", "").split()[-1:]
        if kind == "city" or last.column == "capital":
            also += [a for a in self.row("city", value).get("aliases", "").split("|") if a not in HOME_NATIONS]
        kept: dict[str, str] = {}
        for text in (value, *also):
            for spelled in (text, folded(text)):
                # Graders differ in what they make of accents: both spellings count.
                kept.setdefault(spelled.lower().replace("-", " "), spelled)
        return tuple(text for text in kept.values() if text)

    def traps(self, walk: Sequence[Hop]) -> Iterator[dict[str, str]]:
        """Yield passages that answer a lazy reading of a walk: the place of death, the largest city and so on."""
        values = {hop.value for hop in walk}
        for hop in walk:
            row = self.tables[hop.kind][hop.row]
            match hop.kind, hop.column:
                case "person", "birthplace" if row["died_in"] and row["died_in"] not in values:
                    yield {"title": f"Death of {hop.name}", "text": f"{hop.name} died in {row['died_in']}."}
                case "person", "born" if row["died"]:
                    yield {"title": f"Death of {hop.name}", "text": f"{hop.name} died in the year {row['died']}."}
                case (("country" | "state"), "capital") if row["largest"]:
                    n = self.called(hop.kind, hop.name)
                    yield {"title": row["largest"], "text": f"{row['largest']} is the largest city of {n}."}
                case "country", "currency" if row["old_currency"]:
                    old, n = row["old_currency"], self.called(hop.kind, hop.name)
                    yield {"title": sentence(old), "text": f"The {old} is the former currency of {n}."}
                case "city", "country" if row["namesake"]:
                    where = row["namesake"]
                    yield {
                        "title": f"{hop.name} ({where})",
                        "text": f"There is also a place called {hop.name} in {where}.",
                    }
                case "book", "author" if row["film_by"]:
                    text = f"A film of {hop.name} from {row['film_year']} was directed by {row['film_by']}."
                    yield {"title": f"{hop.name} (film)", "text": text}
                case "president", "state" if row["elsewhere"]:
                    yield {"title": f"Career of {hop.name}", "text": row["elsewhere"]}
                case "music", "composer" if row["premiere"]:
                    text = f"The {row['form']} {hop.name} was first performed in {row['premiere']}."
                    yield {"title": f"{hop.name} (first night)", "text": text}
                case "painting", "painter" if row["museum"]:
                    text = f"The painting {hop.name} now hangs in {self.called('museum', row['museum'])}."
                    yield {"title": f"{hop.name} (today)", "text": text}
                case ("music", "premiere") | ("painting", "museum") | ("building", "city"):
                    maker = row[{"music": "composer", "painting": "painter", "building": "architect"}[hop.kind]]
                    born = self.walk("person", maker, ("birthplace",)) if maker else ()
                    if born and born[0].value not in values:
                        role = {"music": "composer", "painting": "painter"}.get(hop.kind, "architect")
                        role = "artist" if row.get("maker") == "created" else role
                        work = hop.name
                        text = f"{maker} is the {role} of {work}. {maker} was born in {born[0].value}."
                        yield {"title": maker, "text": text}
            if (hop.kind, hop.column) in (("person", "birthplace"), ("person", "born")):
                surname = hop.name.split()[-1]
                for other in self.tables["person"]:
                    if other["name"] != hop.name and other["name"].split()[-1] == surname and other[hop.column]:
                        yield self.passage(self.walk("person", other["name"], (hop.column,))[0], "", ())

    def drafts(self, template: Template) -> Iterator[Draft]:
        """Yield the questions of a template that keep the rules; rows that cannot are left out."""
        for row in self.tables[template.start]:
            walk = self.walk(template.start, row["name"], template.path)
            if not walk:
                continue
            asked = dict(row)
            if template.start == "building":
                asked["maker"] = {"designed": "architect of", "created": "artist who made", "": ""}[row["maker"]]
            if template.start == "symbol" and len(row["name"]) == 1 and template.name == "symbol-number":
                continue
            question = sentence(template.pattern.format_map(asked))
            answers = self.answers(walk)
            bridges = [hop.value for hop in walk[:-1]]
            if any(says(question, name) for name in (*answers, *bridges)):
                continue
            if any(
                here.column == "country"
                and set(self.row("city", here.name).get("aliases", "").split("|")) & set(HOME_NATIONS[1:])
                for here in walk[:-1]
            ):
                continue  # whether Scotland or the United Kingdom is the country would change the answer
            hidden = (*bridges, *answers)
            filled = template.start not in UNFILLED
            supports = tuple(
                self.passage(hop, template.name, [*bridges[place + 1 :], *answers], filled=filled)
                for place, hop in enumerate(walk)
            )
            if any(says(f"{p['title']} {p['text']}", answer) for p in supports[:-1] for answer in answers):
                continue
            ahead = [(p, name) for place, p in enumerate(supports) for name in bridges[place + 1 :]]
            if any(says(f"{p['title']} {p['text']}", name) for p, name in ahead):
                continue
            name = f"wf-{len(walk)}hop-{template.start}-{slug(row['name']).replace('+', '')}-{template.name}"
            family = f"{template.start} {template.name}"
            starts = (f"{template.start} {row['name']}",)
            topic = TOPICS[template.start]
            yield Draft(name, family, topic, starts, question, answers, supports, hidden, (walk,))

    def comparisons(self) -> Iterator[Draft]:
        """Yield the questions that compare: two years of two things, or two persons behind two things."""
        for kind, column, asked in (
            ("book", "year", "In which year did the older of the two books {a} and {b} come out?"),
            ("film", "year", "In which year did the older of the two films {a} and {b} come out?"),
            ("battle", "year", "In which year was the earlier of the Battles of {a} and {b} fought?"),
            ("element", "year", "In which year was the element discovered that was found first, {a} or {b}?"),
            ("music", "year", "In which year was the newer of {a} and {b} first performed?"),
        ):
            rows = sorted((r for r in self.tables[kind] if r[column]), key=by("pair", kind))
            for one, two in pairwise(rows):
                walks = [self.walk(kind, r["name"], (column,)) for r in (one, two)]
                years = sorted(int(walk[0].value) for walk in walks)
                if years[0] == years[1]:
                    continue
                answer = str(years[-1] if "newer" in asked else years[0])
                names = [r["name"] for r in (one, two)]
                supports = tuple(self.passage(w[0], "compare", (), filled=False) for w in walks)
                question = asked.format(a=names[0], b=names[1])
                label = f"wf-2hop-{kind}-{slug(names[0])}-{slug(names[1])}-earlier-year"
                if "newer" in asked:
                    label = label.replace("earlier", "later")
                starts = tuple(f"{kind} {n}" for n in names)
                hidden = (*names, answer)
                yield Draft(
                    label,
                    f"{kind} two years",
                    TOPICS[kind],
                    starts,
                    question,
                    (answer,),
                    supports,
                    hidden,
                    tuple(walks),
                )
        for kind in ("book", "film", "music", "painting", "idea", "element", "building"):
            phrase, way = PERSONS[kind]
            rows = sorted((r for r in self.tables[kind]), key=by("who", kind))
            ready = [r for r in rows if self.walk(kind, r["name"], (*way, "born"))]
            for one, two in pairwise(ready):
                walks = [self.walk(kind, r["name"], (*way, "born")) for r in (one, two)]
                if walks[0][-1].value == walks[1][-1].value:
                    continue
                later = choice(("first", "later"), "who", one["name"], two["name"])
                winner = (min if later == "first" else max)(walks, key=lambda walk: int(walk[-1].value))
                phrases = []
                for row in (one, two):
                    maker = {"designed": "architect of", "created": "artist who made"}.get(row.get("maker", ""), "")
                    phrases.append(phrase.format_map({**row, "maker": maker}))
                question = f"Who was born {later}, {phrases[0]} or {phrases[1]}?"
                answers = self.answers(winner[:-1])
                people = tuple(w[-1].name for w in walks)
                if any(says(question, name) for name in (*answers, *people)):
                    continue
                supports = tuple(
                    self.passage(hop, "compare", (), filled=hop.kind == "person") for w in walks for hop in w
                )
                label = f"wf-4hop-{kind}-{slug(one['name'])}-{slug(two['name'])}-born-{later}"
                starts = tuple(f"{kind} {r['name']}" for r in (one, two))
                hidden = (one["name"], two["name"], *people, *answers)
                yield Draft(
                    label,
                    f"{kind} who was born {later}",
                    TOPICS[kind],
                    starts,
                    question,
                    answers,
                    supports,
                    hidden,
                    tuple(walks),
                )

    def others(self, draft: Draft, rows: Sequence[Row], start: str) -> Iterator[dict[str, str]]:
        """Yield the passages of other walks of the same kind, the most alike first."""
        walk = draft.walks[0]
        path = [f"{hop.kind}:{hop.column}" if hop.kind == "namesake" else hop.column for hop in walk]
        own = self.tables[walk[0].kind][walk[0].row]
        likeness = ("form", "role", "size")
        filled = start not in UNFILLED

        def nearness(row: Row) -> tuple[bool, str]:
            alike = all(row.get(c) == own.get(c) for c in likeness)
            return not alike, key("other", draft.name, row["name"])

        for row in sorted(rows, key=nearness):
            for hop in self.walk(start, row["name"], path):
                yield self.passage(hop, draft.family, (), filled=filled)
        for hop in reversed(walk):
            for row in sorted(self.tables[hop.kind], key=by("more", draft.name)):
                for single in self.walk(hop.kind, row["name"], (hop.column,)):
                    yield self.passage(single, draft.family, (), filled=filled)
        cities = sorted(self.tables["city"], key=by("city", draft.name))
        for row in cities:
            for single in self.walk("city", row["name"], ("country",)):
                yield self.passage(single, draft.family, (), filled=filled)

    def finished(self, draft: Draft) -> dict[str, Any]:
        """Return a question with its ten passages: supports in order, others and traps strewn between them."""
        supports = list(draft.supports)
        titles = {normal(p["title"]) for p in supports}
        chosen: list[dict[str, str]] = []
        trap = False

        def fits(passage: dict[str, str], forbidden: Iterable[str]) -> bool:
            whole = f"{passage['title']}. {passage['text']}"
            return normal(passage["title"]) not in titles and not any(says(whole, name) for name in forbidden)

        def take(passage: dict[str, str]) -> None:
            chosen.append(passage)
            titles.add(normal(passage["title"]))

        lures = [p for walk in draft.walks for p in self.traps(walk)] if "two years" not in draft.family else []
        if int(key("trap", draft.name), 16) % 10 < 8:
            people = "who was born" in draft.family
            forbidden = () if people else draft.answers
            for passage in lures:
                if len(chosen) < 2 and fits(passage, forbidden):
                    take(passage)
                    trap = True
        first = draft.walks[0][0]
        own = {name.partition(" ")[2] for name in draft.starts}
        start = draft.starts[0].partition(" ")[0]
        rows = [r for r in self.tables[start] if r["name"] not in own]
        if start == "namesake-element":
            rows = [r for r in self.tables[start] if r["name"] != first.name]
        for passage in self.others(draft, rows, start):
            if len(supports) + len(chosen) == PASSAGES:
                break
            if fits(passage, (*draft.hidden, *own)):
                take(passage)
        if len(supports) + len(chosen) != PASSAGES:
            raise Fault(f"{draft.name}: too few other passages.")
        marked = [(p, True) for p in supports] + [(p, False) for p in chosen]
        order = sorted(range(PASSAGES), key=lambda i: key("order", draft.name, marked[i][0]["title"]))
        spots = sorted(order.index(i) for i in range(len(supports)))
        for spot, place in zip(spots, range(len(supports)), strict=True):
            order[spot] = place
        passages = [{**marked[i][0], "supporting": marked[i][1]} for i in order]
        question: dict[str, Any] = {"id": draft.name, "question": draft.question, "answers": list(draft.answers)}
        return {**question, "passages": passages, "hops": len(supports), "topic": draft.topic, "trap": trap}


def templates() -> list[Template]:
    """Return every template."""
    return [*person_templates(), *place_templates(), *other_templates()]


def selected(drafts: Iterable[Draft]) -> list[Draft]:
    """Return as many questions as the quotas ask for: template by template in turn, no entity or answer too often."""
    families: dict[int, dict[str, list[Draft]]] = defaultdict(lambda: defaultdict(list))
    for draft in sorted(drafts, key=lambda d: key("draft", d.name)):
        families[len(draft.supports)][draft.family].append(draft)
    starts: Counter[str] = Counter()
    kept: list[Draft] = []
    for hops, quota in QUOTAS.items():
        answers: Counter[str] = Counter()
        waiting = [families[hops][name] for name in sorted(families[hops], key=lambda n: key("family", n))]
        count = 0
        while count < quota and any(waiting):
            for queue in waiting:
                while queue and count < quota:
                    draft = queue.pop(0)
                    full = any(starts[name] >= PER_START for name in draft.starts)
                    if not full and answers[draft.answers[0]] < PER_ANSWER:
                        kept.append(draft)
                        count += 1
                        starts.update(draft.starts)
                        answers[draft.answers[0]] += 1
                        break
        if count < quota:
            raise Fault(f"only {count} questions of {hops} hops, {quota} are wanted.")
    return sorted(kept, key=lambda d: key("row", d.name))


def check(rows: Sequence[dict[str, Any]]) -> None:
    """Raise what breaks a rule of the file."""
    seen_ids: set[str] = set()
    seen_questions: set[str] = set()
    for row in rows:
        name, answers, passages = row["id"], row["answers"], row["passages"]
        supports = [p for p in passages if p["supporting"]]
        compared = "-born-" in name and name.startswith("wf-4hop") and row["question"].startswith("Who")
        bearing = [p for p in supports if any(says(p["text"], answer) for answer in answers)]
        titles = {normal(p["title"]) for p in passages}
        others = [f"{p['title']}. {p['text']}" for p in passages if not p["supporting"]]
        paired = name.endswith("-year") and "two years" not in name and "symbol" not in name
        faults = {
            "an id twice": name in seen_ids,
            "a question twice": normal(row["question"]) in seen_questions,
            "no single question mark": row["question"].count("?") != 1 or not row["question"].endswith("?"),
            "doubled words or braces": bool(re.search(r"\b(\w+) \1\b|[{}]|  ", row["question"])),
            "not ten passages": len(passages) != PASSAGES,
            "not a support for each hop": len(supports) != row["hops"] or row["hops"] not in QUOTAS,
            "a title twice": len(titles) != PASSAGES,
            "an empty or long passage": any(not 3 <= len(p["text"].split()) <= 40 for p in passages),
            "an unfinished passage": any(not p["text"].endswith(".") or "{" in p["text"] for p in passages),
            "an answer blank or twice": len({a.lower() for a in answers}) != len(answers)
            or not all(map(str.strip, answers)),
            "an answer of more than four words": len(answers[0].split()) > 5,
            "an answer in its question": any(says(row["question"], answer) for answer in answers),
            "an answer outside the supports": not compared and any(says(t, a) for t in others for a in answers),
            "an answer too early": not compared and not paired and bearing != supports[-1:],
            "no answer in the supports": not bearing,
        }
        if not compared and not paired:
            start = re.sub("^(Chemical symbol|Calling code|Battle of) ", "", supports[0]["title"])
            faults["a hop that could be left out"] = any(says(p["text"], start) for p in supports[1:])
            for one, two in pairwise(supports):
                bridge = any(says(one["text"], word) for word in (two["title"], two["text"].split(" was ")[0]))
                bridge = bridge or any(
                    says(one["text"], w) for w in re.findall(r"named after ([^.]+)\.", two["text"])
                )
                faults[f"no way from {one['title']} to {two['title']}"] = not bridge
                faults[f"{two['title']} named in the question"] = says(row["question"], two["title"])
        broken = [fault for fault, found in faults.items() if found]
        if broken:
            raise Fault(f"{name}: {'; '.join(broken)}.")
        seen_ids.add(name)
        seen_questions.add(normal(row["question"]))
    if not 640 <= len(rows) <= 800 or sum(row["trap"] for row in rows) < len(rows) / 4:
        raise Fault("too few or too many questions, or too few traps.")


def built() -> tuple[str, list[dict[str, Any]]]:
    """Return the file's text and its rows."""
    world = World(read_tables())
    drafts = [draft for template in templates() for draft in world.drafts(template)]
    rows = [world.finished(draft) for draft in selected([*drafts, *world.comparisons()])]
    check(rows)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), rows


def main() -> int:
    """Write the file, or compare it with what the tables give; return the exit code."""
    parser = argparse.ArgumentParser(description="Build the bundled questions from the tables.")
    parser.add_argument("--check", action="store_true", help="exit 1 if the shipped file differs")
    parser.add_argument("--counts", action="store_true", help="print counts by hops, topic and trap")
    options = parser.parse_args()
    text, rows = built()
    if options.counts:
        lines = [f"{row['hops']} hops" for row in rows] + [row["topic"] for row in rows]
        lines += ["trap" for row in rows if row["trap"]]
        sys.stdout.write("".join(f"{name}: {n}\n" for name, n in sorted(Counter(lines).items())))
    if options.check:
        same = TARGET.is_file() and TARGET.read_bytes() == text.encode()
        sys.stdout.write(f"{TARGET.name}: {'as the tables give it' if same else 'differs from its tables'}\n")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8", newline="\n")
    sys.stdout.write(f"{TARGET.name}: {len(rows)} questions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
