"""Plans ⇄ JSON Lines: a header with settings and digests, then one plan a line; each is verified when it is read."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gatewise.errors import BrokenFile, BrokenQuestions, Unfit, Violation, shown
from gatewise.files.disk import write_pieces
from gatewise.files.rows import read_rows
from gatewise.types import Passage, Plan, Question, Scalar

PLAN_SCHEMA = "gatewise.plans/1"


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values, in the order in which a line of a plan file holds them."""
    question = plan.question
    return {
        "question_id": question.id,
        "dataset": question.dataset,
        "split": question.split,
        "question": question.text,
        "references": list(question.references),
        "passages": [
            {"title": one.title, "text": one.text, "supporting": one.supporting} for one in question.passages
        ],
        "slices": [list(slice_) for slice_ in plan.slices],
        "digest": plan.digest,
        "about": dict(question.about),
    }


def json_line(value: Mapping[str, Any]) -> bytes:
    """Return one strict JSON object as a line of UTF-8; a lone surrogate is written as its escape."""
    try:
        return (json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(value, allow_nan=False) + "\n").encode()


def plan_lines(header: Mapping[str, Any], plans: Iterable[Plan]) -> Iterator[bytes]:
    """Yield the lines of a plan file."""
    yield json_line({"schema": PLAN_SCHEMA, **header})
    for plan in plans:
        yield json_line(plan_json(plan))


def write_plans(header: Mapping[str, Any], plans: Iterable[Plan], path: str | os.PathLike[str]) -> None:
    """Write a plan file whole or not at all; the same plans give the same bytes."""
    write_pieces(Path(path), plan_lines(header, plans))


class _Line(msgspec.Struct):
    question_id: str
    dataset: str
    split: str
    question: str
    references: list[str]
    passages: list[Passage]
    slices: list[list[int]]
    digest: str
    about: dict[str, Scalar] = {}


def read_plans(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Iterator[Plan]]:
    """Return the header of a plan file and its plans, each verified against its digest as it is read."""
    if not Path(path).is_file():
        found = "a folder" if Path(path).is_dir() else "no such file"
        raise BrokenFile(f"expected a plan file at {path}, found {found}. Write one with gatewise plan.")
    rows = read_rows(path)
    header = next(rows, None)
    if not isinstance(header, dict) or header.get("schema") != PLAN_SCHEMA:
        raise BrokenFile(
            f"expected a plan file of schema {PLAN_SCHEMA} in {path}, found another file. "
            "Write one with gatewise plan."
        )
    return header, _plans(rows, header, Path(path))


def _plans(rows: Iterator[Any], header: Mapping[str, Any], path: Path) -> Iterator[Plan]:
    count = 0
    seen: set[int] = set()
    for count, row in enumerate(rows, 1):
        try:
            plan = _plan(row)
            key = hash(plan.question.id)
            if key in seen:
                problem = "expected an id that no earlier line has, found it before"
                raise Unfit("malformed", "question_id", plan.question.id, problem, _REMEDY)
            seen.add(key)
            yield plan
        except Unfit as unfit:
            place = Violation(count, unfit.column, shown(unfit.value), unfit.problem, unfit.remedy, str(path))
            raise BrokenQuestions([place], 1) from None
    if header.get("questions") != count:
        raise BrokenFile(
            f"expected {header.get('questions')} plans in {path}, as its header says, found {count}. Write it again "
            "with gatewise plan."
        )


_REMEDY = "Write the plans again with gatewise plan."


def _plan(row: Any) -> Plan:
    if isinstance(row, Unfit):
        raise row
    try:
        line = msgspec.convert(row, _Line)
    except msgspec.ValidationError as error:
        raise Unfit("malformed", "(all)", None, f"expected a plan, found: {error}", _REMEDY) from None
    question = Question(
        line.question_id,
        line.question,
        tuple(line.references),
        tuple(line.passages),
        dataset=line.dataset,
        split=line.split,
        about=line.about,
    )
    places = [place for slice_ in line.slices for place in slice_]
    if len(set(places)) != len(places) or not set(places) <= set(range(len(line.passages))):
        problem = "expected positions of passages, each at most once"
        raise Unfit("malformed", "slices", line.slices, problem, _REMEDY)
    plan = Plan(question, tuple(map(tuple, line.slices)))
    if plan.digest != line.digest:
        problem = "expected the digest of what stands in this line, found another: the line was changed"
        raise Unfit("malformed", "digest", line.digest, problem, _REMEDY)
    return plan
