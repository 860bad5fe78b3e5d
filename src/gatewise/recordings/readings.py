"""Reply text → answer and confidence, or verdict; or the named reason why it is not read. Pure, and it never raises.

Models wrap the object that they were asked for in fences, prose and reasoning, and spell a number in many ways. What
can mean one thing only is read; all else is refused by name, and no number is ever guessed. docs/replies.md states
the rules with a table of cases, which the tests run. Time is linear in the length of the reply.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any, TypeVar

T = TypeVar("T")

READING = (
    "empty",  # nothing was said
    "refusal",  # the model, or its host, declined
    "truncated",  # the reply ends in the middle
    "no object",  # no JSON object, or a broken one
    "too deep",  # nested beyond what is read
    "several objects",  # that say different things
    "duplicate field",  # a field that is read stands twice in the object
    "no answer",  # the field is missing or null
    "answer not text",  # neither text nor a number
    "blank answer",  # without a visible character
    "no confidence",  # the field is missing or null
    "not a number",  # a confidence that is none
    "ambiguous scale",  # a fraction below 1, or a scale other than 100
    "out of range",  # below 0 or above 100
    "no verdict",  # the field is missing or null
    "not a verdict",  # neither true nor false
    "no completion",  # what came is no chat completion
)


@dataclass(frozen=True)
class Said:
    """What a model said: its answer, and its confidence from 0 to 1."""

    answer: str
    confidence: float


@dataclass(frozen=True)
class Unreadable:
    """A reply that is not read, and why: one of the names in `READING`."""

    reason: str


def read_answer(text: str, finish: str = "stop") -> Said | Unreadable:
    """Return what a reply says, given how its server says that it ended.

    >>> read_answer('{"answer": "Paris", "confidence": "85%"}')
    Said(answer='Paris', confidence=0.85)
    >>> read_answer('{"answer": "Paris", "confidence": 0.85}')
    Unreadable(reason='ambiguous scale')
    """
    return _read(text, finish, _answer, ("answer", "confidence"))


def read_verdict(text: str, finish: str = "stop") -> bool | Unreadable:
    """Return what a judge says.

    >>> read_verdict('{"correct": true}'), read_verdict("Yes.")
    (True, Unreadable(reason='no object'))
    """
    return _read(text, finish, _verdict, ("correct",))


def answer_span(text: str, finish: str = "stop") -> tuple[int, int] | None:
    """Return where in a readable reply its answer stands, quotes left out; None unless one object alone says it.

    >>> answer_span('{"answer": "Paris", "confidence": 85}')
    (12, 17)
    """
    found = _objects(text, finish, ("answer", "confidence"))
    if isinstance(found, Unreadable) or len(found) != 1 or isinstance(_answer(found[0][1]), Unreadable):
        return None
    place = found[0][0] + 1
    while True:  # over the fields of an object that is known to be whole
        key, place = _DECODER.raw_decode(text, _past(text, place))
        start = _past(text, _past(text, place) + 1)
        value, end = _DECODER.raw_decode(text, start)
        if _folded(key) == "answer":
            return (start + 1, end - 1) if isinstance(value, str) and text[start] == '"' else (start, end)
        place = _past(text, end) + 1


# From text to objects


class _Number(str):
    """A JSON number, as it was written: a huge one costs nothing, and no digit is lost."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """The fields of a JSON object in order, duplicates and all."""

    __slots__ = ()


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object,
    parse_int=_Number,
    parse_float=_Number,
    parse_constant=_Number,  # NaN and the infinities: known, and then refused by name
    strict=False,  # a raw line break or other control character within a text means itself
)

_TEXT = r'"[^"\\]*+(?:\\.[^"\\]*+)*+'  # a JSON text without its closing quote
_OPENING = r"<think>|<thinking>|<reasoning>|\[THINK\]|<\|channel\|>analysis<\|message\|>"
_CLOSING = r"</think>|</thinking>|</reasoning>|\[/THINK\]|<\|channel\|>final<\|message\|>"
_EVENT = re.compile(
    rf"(?P<opening>{_OPENING})|(?P<closing>{_CLOSING})|(?P<empty>(?:\{{[ \t\n\r]*+\}}[ \t\n\r]*+)++)"
    # an object by its first key and colon, or whatever there is of them at the very end
    rf'|\{{[ \t\n\r]*+(?:{_TEXT}(?:"[ \t\n\r]*+(?::|\Z)|\\?\Z)|\Z)',
    re.IGNORECASE | re.DOTALL,
)
_CLOSED = re.compile(_CLOSING, re.IGNORECASE)
_RUNS_OUT = re.compile(rf"[ \t\n\r]*+(?:{_TEXT}\\?|[-+.\w]*+)\Z", re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*+")
_REST = re.compile(r"[\s`\]]*+\Z")  # what may follow the object of a reply that was cut

_CUT = {"length", "max_tokens", "model_length", "error", "abort", "insufficient_system_resource"}
_DECLINED = {"content_filter", "refusal"}
_REFUSAL = re.compile(
    r"\W*+(?:i['’]?m (?:very |so )?sorry|i am (?:very |so )?sorry|sorry|i apologi[sz]e|i can(?:not|['’]t| not)|"
    r"i (?:won['’]t|will not)|i['’]?m (?:unable|not able)|i am (?:unable|not able)|as an ai)\b",
    re.IGNORECASE,
)


def _past(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _objects(text: str, finish: str, names: tuple[str, ...]) -> list[tuple[int, _Object]] | Unreadable:
    """Return the outermost objects that stand after any reasoning and have a field of these names, with their places.

    A broken object ends the search, for what stands within or behind it may be part of it; but if reasoning ends
    further on, it was a draft, and the search goes on behind the last end of reasoning.
    """
    found: list[tuple[int, _Object]] = []
    others = braces = place = 0
    while event := _EVENT.search(text, place):
        start = event.start()
        braces = max(braces + text.count("{", place, start) - text.count("}", place, start), 0)
        place = event.end()
        if event["opening"]:
            end = _CLOSED.search(text, place)
            if end is None:
                return Unreadable("truncated")
            place = end.end()
        elif event["closing"]:
            found, others, braces = [], 0, 0
        elif event["empty"]:
            others += 1
        else:
            value, place, failure = _decoded(text, start)
            if failure or braces:  # within braces that are no JSON, it is part of something else
                place = max((end.end() for end in _CLOSED.finditer(text, place)), default=0)
                if not place:
                    return Unreadable(failure or "no object")
                found, others, braces = [], 0, 0
            elif any(_folded(key) in names for key, _ in value):
                found.append((start, value))
            else:
                others += 1
    cut = "refusal" if finish in _DECLINED else "truncated" if finish in _CUT else ""
    if cut and (not found or finish == "refusal" or not _REST.match(text, place)):
        return Unreadable(cut)
    if found:
        return found
    if others:
        return Unreadable("no answer" if "answer" in names else "no verdict")
    if _blank(text):
        return Unreadable("empty")
    return Unreadable("refusal" if _REFUSAL.match(text) else "no object")


def _decoded(text: str, start: int) -> tuple[_Object, int, str]:
    """Return the object that begins here and where it ends, or where it breaks and why it is not read."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return _Object(), error.pos, "truncated" if _RUNS_OUT.match(text, error.pos) else "no object"
    except RecursionError:
        return _Object(), start, "too deep"
    return value, end, ""


def _read(
    text: str, finish: str, reading: Callable[[_Object], T | Unreadable], names: tuple[str, ...]
) -> T | Unreadable:
    found = _objects(text, finish, names)
    if isinstance(found, Unreadable):
        return found
    said = {reading(value) for _, value in found}
    return said.pop() if len(said) == 1 else Unreadable("several objects")


# From an object to what it says


def _folded(name: str) -> str:
    return name.strip().lower()


def _field(found: _Object, name: str) -> Any:
    """Return a field's value, None where it is absent or null, and Unreadable where it stands twice."""
    values = [value for key, value in found if _folded(key) == name]
    if len(values) > 1:
        return Unreadable("duplicate field")
    return values[0] if values else None


def _answer(found: _Object) -> Said | Unreadable:
    answer, stated = _field(found, "answer"), _field(found, "confidence")
    for value in (answer, stated):
        if isinstance(value, Unreadable):
            return value
    if answer is None:
        return Unreadable("no answer")
    if not isinstance(answer, str) or (answer in _CONSTANTS and isinstance(answer, _Number)):
        return Unreadable("answer not text")
    if _blank(answer):
        return Unreadable("blank answer")
    confidence = _confidence(stated)
    return confidence if isinstance(confidence, Unreadable) else Said(answer.strip(), confidence)


_CONSTANTS = ("NaN", "Infinity", "-Infinity")
_STATED = re.compile(
    r"\s*+([-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?)"
    r"\s*+(?:(%|percent)|(?:/|out of)\s*+([0-9]++(?:\.[0-9]++)?))?\s*+",
    re.IGNORECASE,
)
_ARITHMETIC = Context(prec=40)  # ours, whatever the caller's is


def _confidence(stated: Any) -> float | Unreadable:
    """Return a stated confidence from 0 to 1: the double nearest to its hundredth.

    A bare number is on the scale that was asked for, 0 to 100: 0 is none, 1 is one per cent. A fraction between them
    may be meant on either scale, and is refused unless its own scale, 100, stands with it.
    """
    if stated is None:
        return Unreadable("no confidence")
    form = _STATED.fullmatch(stated) if isinstance(stated, str) else None
    if form is None:
        return Unreadable("not a number")
    literal, percent, scale = form.groups()
    if scale is not None and scale != "100":
        return Unreadable("ambiguous scale")
    try:
        number = Decimal(literal)
    except InvalidOperation:  # an exponent beyond all reason
        return Unreadable("out of range")
    if 0 < number < 1 and not (percent or scale):
        return Unreadable("ambiguous scale")
    if not 0 <= number <= 100:
        return Unreadable("out of range")
    return abs(float(number.scaleb(-2, _ARITHMETIC)))  # in decimals, so that 99.9 is .999; and −0 is 0


def _verdict(found: _Object) -> bool | Unreadable:
    correct = _field(found, "correct")
    if correct is None or isinstance(correct, Unreadable):
        return correct or Unreadable("no verdict")
    if isinstance(correct, str) and not isinstance(correct, _Number):
        correct = {"true": True, "false": False}.get(_folded(correct))
    return correct if isinstance(correct, bool) else Unreadable("not a verdict")


_UNSEEN = ("Zs", "Zl", "Zp", "Cc", "Cf", "Cs")


def _blank(text: str) -> bool:
    """Whether a text has no visible character."""
    return all(unicodedata.category(letter) in _UNSEEN for letter in text)
