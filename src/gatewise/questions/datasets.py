"""Data sets: one row of a source → one Question, or the rule that the row breaks.

A reader is any callable `row -> Question` that raises `Unfit`. The built-in ones know the official files by the
shape of their rows; unknown fields are legal everywhere, and plain ones are kept for subgroups.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from gatewise.errors import SHOWN, BadChoice, BrokenQuestions, Unfit, Violation, nearest, shown
from gatewise.types import Passage, Question, Scalar

T = TypeVar("T")
Row = Mapping[str, Any]
Reader = Callable[[Row], Question]

# Every rule that a row can break: its name on the command line, and what it asks for. A row that breaks one is
# refused, or counted and skipped where that is asked for.
RULES = {
    "malformed": "a row has the fields of its format, of the right kinds",
    "no-id": "every question has an id",
    "duplicate-id": "an id stands once; the first row that has it counts",
    "unanswerable": "a question can be answered from its passages",
    "empty-question": "a question has text",
    "no-answer": "there is at least one answer that is not blank",
    "no-passage": "there is at least one passage",
    "blank-passage": "every passage has a title or a text",
    "absent-support": "a passage that is named as a support is among the passages",
    "no-support": "at least one passage is a support (orders that read no labels do without)",
}


class _Hotpot(msgspec.Struct):
    question: str
    context: list[tuple[str, list[str] | str]]
    supporting_facts: list[tuple[str, int | None]]
    answer: str = ""
    _id: str | int = ""
    id: str | int = ""
    type: str | None = None
    level: str | None = None


class _Paragraph(msgspec.Struct):
    title: str
    paragraph_text: str
    is_supporting: bool = False
    idx: int | None = None


class _Step(msgspec.Struct):
    paragraph_support_idx: int | None = None


class _Musique(msgspec.Struct):
    question: str
    paragraphs: list[_Paragraph]
    id: str | int = ""
    answer: str = ""
    answer_aliases: list[str] = []
    answerable: bool = True
    question_decomposition: list[_Step] = []


class _OwnPassage(msgspec.Struct):
    text: str
    title: str = ""
    supporting: bool = False


class _Own(msgspec.Struct):
    question: str
    answers: list[str]
    passages: list[_OwnPassage]
    id: str | int = ""
    answerable: bool = True
    split: str | None = None


def hotpotqa(row: Row) -> Question:
    """Return a question of HotpotQA's distractor files: supports are the passages whose title is named.

    >>> hotpotqa({"_id": "q", "question": "Who?", "answer": "Ann", "supporting_facts": [["A", None]],
    ...           "context": [["A", ["Ann", " did."]], ["B", "Bob."]]}).passages[0]
    Passage(title='A', text='Ann did.', supporting=True)
    """
    return _hotpot(row, "".join)


def two_wiki(row: Row) -> Question:
    """Return a question of 2WikiMultihopQA: HotpotQA's shape, whose sentences carry no space between them."""
    return _hotpot(row, lambda sentences: " ".join(sentence.strip() for sentence in sentences))


def musique(row: Row) -> Question:
    """Return a question of MuSiQue's answerable files: supports are flagged, aliases are references too."""
    found = _read(row, _Musique)
    _require_answerable(found.answerable)
    places = {place if one.idx is None else one.idx for place, one in enumerate(found.paragraphs)}
    for step in found.question_decomposition:
        if found.paragraphs and step.paragraph_support_idx is not None and step.paragraph_support_idx not in places:
            raise Unfit(
                "absent-support",
                "question_decomposition",
                step.paragraph_support_idx,
                "expected a support that is among the paragraphs",
                "Complete the paragraphs of this question.",
            )
    passages = [Passage(one.title, one.paragraph_text, one.is_supporting) for one in found.paragraphs]
    about: dict[str, Scalar] = {"hops": len(found.question_decomposition)} if found.question_decomposition else {}
    references = _references(found.answer, *found.answer_aliases)
    return Question(str(found.id), found.question, references, tuple(passages), about=about)


def own(row: Row) -> Question:
    """Return a question of the open format: `id, question, answers, passages`, and whatever else is known.

    `answers` is a list, or one text with `|` between alternatives; `passages` a list of `title`, `text` and
    `supporting`. In a CSV file both may stand as JSON. Other plain fields are kept as what is known about it.
    """
    # Null, or an empty cell, breaks the rule of its column.
    blank: dict[str, Any] = {"question": "", "answers": [], "passages": []}
    whole = {name: blank[name] if value is None and name in blank else value for name, value in row.items()}
    whole = {name: value for name, value in whole.items() if value is not None}
    for name in ("answers", "passages"):
        text = whole.get(name)
        if isinstance(text, str) and (name == "passages" or text.lstrip().startswith("[")):
            try:
                whole[name] = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise _malformed(name, text, f"expected a JSON list, found {error}") from None
        elif isinstance(text, str):
            whole[name] = text.split("|")
    if isinstance(whole.get("answerable"), str):  # as CSV writes it
        whole["answerable"] = whole["answerable"].lower() not in ("false", "0")
    found = _read(whole, _Own)
    _require_answerable(found.answerable)
    about = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value  # strict JSON has no NaN
        for name, value in row.items()
        if name not in _Own.__struct_fields__ and isinstance(value, str | int | float | bool | None)
    }
    passages = tuple(Passage(one.title, one.text, one.supporting) for one in found.passages)
    references = _references(*found.answers)
    return Question(str(found.id), found.question, references, passages, split=found.split or "", about=about)


# Where the formats hold what a rule speaks of: the first that a row has is named.
_COLUMNS = {
    "id": ("_id", "id"),
    "answers": ("answers", "answer"),
    "passages": ("passages", "context", "paragraphs"),
}


def _column(row: Row, what: str) -> str:
    return next((name for name in _COLUMNS.get(what, ()) if name in row), what)


READERS: dict[str, Reader] = {"hotpotqa": hotpotqa, "musique": musique, "2wiki": two_wiki, "own": own}


def _hotpot(row: Row, join: Callable[[Sequence[str]], str]) -> Question:
    whole = dict(row)
    for name, parts in (("context", ("title", "sentences")), ("supporting_facts", ("title", "sent_id"))):
        columns = whole.get(name)  # as column-wise copies of the data set hold them
        if isinstance(columns, dict) and all(isinstance(columns.get(part), list) for part in parts):
            if len({len(columns[part]) for part in parts}) > 1:
                raise _malformed(name, columns, f"expected as many {parts[0]} as {parts[1]} entries")
            whole[name] = list(zip(*(columns[part] for part in parts), strict=True))
    found = _read(whole, _Hotpot)
    named = {title for title, _ in found.supporting_facts}
    absent = sorted(named - {title for title, _ in found.context})
    if found.context and absent:
        raise Unfit(
            "absent-support",
            "supporting_facts",
            absent[0],
            "expected a support that is among the titles of the context",
            "Complete the context of this question.",
        )
    passages = [
        Passage(title, text if isinstance(text, str) else join(text), title in named) for title, text in found.context
    ]
    said = {"type": found.type, "level": found.level}
    about: dict[str, Scalar] = {name: value for name, value in said.items() if value is not None}
    return Question(
        str(found.id if found._id == "" else found._id),
        found.question,
        _references(found.answer),
        tuple(passages),
        about=about,
    )


def _references(*answers: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(answer for answer in answers if answer.strip()))


def _read(row: Row, shape: type[T]) -> T:
    """Return a row as the struct of its format, or raise what does not fit, with its place in the row."""
    try:
        return msgspec.convert(row, shape)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at ")
        column = path.strip("`").removeprefix("$").removeprefix(".") or "(all)"
        if missing := re.search(r"missing required field `(\w+)`", problem):
            column = f"{column}.{missing[1]}" if path else missing[1]
            found = ", ".join(map(ascii, list(row)[:12])) if isinstance(row, Mapping) else type(row).__name__
            raise _malformed(column, None, f"expected this field, found {found}") from None
        value: Any = row
        for part in re.findall(r"\w+", column) if path else ():
            value = value[int(part)] if part.isdigit() and not isinstance(value, Mapping) else _held(value, part)
        raise _malformed(column, value, problem[0].lower() + problem[1:].replace("`", "")) from None


def _held(value: Any, part: str) -> Any:
    return value.get(part) if isinstance(value, Mapping) else value


def _malformed(column: str, value: object, problem: str) -> Unfit:
    return Unfit(
        "malformed", column, value, problem, "Bring the row into the shape of its format, or choose --format."
    )


def _require_answerable(answerable: bool) -> None:
    if not answerable:
        problem = "expected a question that its passages answer"
        raise Unfit("unanswerable", "answerable", False, problem, "Use the answerable part of the data set.")


def _is_question(value: object) -> bool:
    if not isinstance(value, Question):
        return False
    passages = list(value.passages)
    texts = [value.id, value.text, *value.references]
    texts += [text for one in passages if isinstance(one, Passage) for text in (one.title, one.text)]
    return len(texts) == 2 + len(value.references) + 2 * len(passages) and all(isinstance(t, str) for t in texts)


def read(row: Any, reader: Reader, *, dataset: str = "", labelled: bool = True) -> Question:
    """Return a row as a question that keeps every rule, or raise `Unfit` for the first that it breaks.

    `labelled` says whether supports must be marked; an order that reads no labels does without.
    """
    if isinstance(row, Unfit):
        raise row  # what could not even be read as a row
    try:
        if not isinstance(row, Mapping):
            raise _malformed("(all)", row, "expected one object a row")
        question = reader(row)
        if not _is_question(question):  # only a reader of somebody's own makes others
            raise BadChoice(
                "expected a Question from the reader, its id, text, references and passages all texts, found "
                f"{shown(question)}. Mend the reader."
            )
    except RecursionError:  # json reads deeper than an error can show
        raise _malformed("(all)", None, "expected plain fields, found some nested too deeply") from None
    for kind, holds, what, problem, remedy in (
        ("no-id", question.id.strip(), "id", "expected an id", "Name every question."),
        ("empty-question", question.text.strip(), "question", "expected a question", "Write what is asked."),
        ("no-answer", question.references, "answers", "expected an answer", "Give at least one answer."),
        ("no-passage", question.passages, "passages", "expected a passage", "Give the evidence of this question."),
        ("blank-passage", all(p.title.strip() or p.text.strip() for p in question.passages), "passages",
         "expected a title or a text in every passage", "Drop the blank passage, or write what it says."),
        ("no-support", not labelled or any(p.supporting for p in question.passages), "passages",
         "expected a supporting passage", "Mark the passages that the answer rests on, or order without labels."),
    ):  # fmt: skip
        if not holds:
            column = _column(row, what)
            value = None if kind in ("blank-passage", "no-support") else row.get(column)
            raise Unfit(kind, column, value, f"{problem}, found none", remedy)
    return replace(question, dataset=dataset)


@dataclass
class Intake:
    """What came in from a source: rows, those that became questions, and those skipped, by the rule they break."""

    rows: int = 0
    kept: int = 0
    skipped: dict[str, int] = field(default_factory=dict)


def take_in(
    rows: Iterable[Any],
    reader: Reader,
    *,
    dataset: str = "",
    labelled: bool = True,
    skip: Sequence[str] = (),
    file: str = "",
    intake: Intake | None = None,
) -> Iterator[Question]:
    """Yield the questions of a source, in order; rows that break a rule named in `skip` are counted and left out.

    Rows that break any other rule are refused together, once all have been read: `BrokenQuestions` lists the first
    ten and their number. Nothing but a hash of each id is kept in memory.
    """
    for rule in skip:
        if rule not in RULES:
            raise BadChoice(
                f"expected a rule among {', '.join(RULES)}, found {rule!r}{nearest(rule, list(RULES))}. "
                "Skip one of them."
            )
    intake = intake if intake is not None else Intake()
    seen: set[int] = set()
    broken: list[Violation] = []
    total = 0
    for number, row in enumerate(rows, 1):
        intake.rows = number
        try:
            question = read(row, reader, dataset=dataset, labelled=labelled)
            key = hash(question.id)
            if key in seen:
                problem = "expected an id that no earlier row has, found it before"
                raise Unfit(
                    "duplicate-id", _column(row, "id"), question.id, problem, "Rename or remove the later row."
                )
            seen.add(key)
        except Unfit as unfit:
            if unfit.kind in skip:
                intake.skipped[unfit.kind] = intake.skipped.get(unfit.kind, 0) + 1
                continue
            total += 1
            if len(broken) < SHOWN:
                remedy = f"{unfit.remedy} (--skip {unfit.kind} leaves such rows out.)"
                broken.append(Violation(number, unfit.column, shown(unfit.value), unfit.problem, remedy, file))
            continue
        intake.kept += 1
        yield question
    if broken:
        raise BrokenQuestions(broken, total)
    if not intake.kept:
        raise BadChoice(
            f"expected a question in {file or 'the rows'}, found none that keeps every rule. Mend the rows that "
            "were skipped."
        )
