"""A raw reply → its completion, and the signals that its log-probabilities carry. Pure, and it never raises.

Replies are stored as they came and read afterwards, so that a better reading costs nothing.
"""

import json
import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from gatewise.recordings.readings import Unreadable, answer_span


@dataclass(frozen=True)
class Token:
    """A token with its log-probability, and the likeliest ones in its place."""

    text: str  # a part of a character is held as surrogate escapes
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Completion:
    """What a chat completion holds, as far as it is used; what a server does not say is empty or None."""

    content: str
    refusal: str = ""
    finish: str = "stop"  # as the server says; "refusal" where the model declined in the field made for that
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    served_model: str = ""
    provider: str = ""
    tokens: tuple[Token, ...] = ()


def read_reply(raw: str) -> Completion | Unreadable:
    """Return the completion in a server's reply, or why there is none.

    >>> read_reply('{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "model": "m"}').content
    'Hi'
    """
    try:
        reply = json.loads(raw)
    except (ValueError, RecursionError):
        return Unreadable("no completion")
    choices = _of(reply, dict).get("choices")
    first = _of(choices[0] if isinstance(choices, list) and choices else None, dict)
    message = first.get("message")
    if not isinstance(message, dict):
        return Unreadable("no completion")
    usage = _of(reply.get("usage"), dict)
    refusal = _of(message.get("refusal"), str)
    return Completion(
        content=_content(message.get("content")),
        refusal=refusal,
        finish="refusal" if refusal.strip() else _of(first.get("finish_reason"), str) or "stop",
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        cost_usd=_price(usage.get("cost")),
        served_model=_of(reply.get("model"), str),
        provider=_of(reply.get("provider"), str),
        tokens=_tokens(_of(first.get("logprobs"), dict).get("content")),
    )


def _of(value: Any, kind: type[Any]) -> Any:
    """Return a value if it is of a kind, else the empty one of that kind."""
    return value if isinstance(value, kind) else kind()


def _content(value: Any) -> str:
    """Return the text of a message, whole or in parts; the parts that hold reasoning are left out."""
    if isinstance(value, list):
        parts = [one for one in value if isinstance(one, dict) and one.get("type") in ("text", "output_text")]
        return "".join(_of(one.get("text"), str) for one in parts)
    return str(_of(value, str))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _count(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 0 <= number < 2**53 and number == int(number) else None


def _price(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and number >= 0 else None


def _tokens(value: Any) -> tuple[Token, ...]:
    """Return all tokens, or none if any is not what it should be."""
    found = []
    for row in _of(value, list):
        pair = _token(row)
        if pair is None:
            return ()
        top = [_token(one) for one in _of(row.get("top_logprobs"), list)]
        found.append(Token(*pair, tuple(one for one in top if one is not None)))
    return tuple(found)


def _token(row: Any) -> tuple[str, float] | None:
    """Return a token's text and log-probability; its bytes, where they stand, say more than its text."""
    logprob = _number(_of(row, dict).get("logprob"))
    if logprob is None:
        return None
    whole = row.get("bytes")
    if isinstance(whole, list):
        try:
            return bytes(whole).decode("utf-8", "surrogateescape"), min(logprob, 0.0)
        except (ValueError, TypeError):
            return None
    return (row["token"], min(logprob, 0.0)) if isinstance(row.get("token"), str) else None


def token_probability(completion: Completion) -> float | None:
    """Return the mean probability of the tokens that carry the answer's text; None where they cannot be told.

    They can be told if the tokens, put together, hold the content exactly once: some servers list tokens of reasoning
    before it, or one that ends the turn. A token that holds a quote as well as a piece of the answer counts.
    """
    span = answer_span(completion.content, completion.finish) if completion.tokens else None
    if span is None:
        return None
    try:
        content = completion.content.encode()
        pieces = [one.text.encode("utf-8", "surrogateescape") for one in completion.tokens]
        start, end = (len(completion.content[:place].encode()) for place in span)
    except UnicodeEncodeError:  # half a character of a pair, which no token can hold
        return None
    whole = b"".join(pieces)
    shift = whole.find(content)
    if shift < 0 or whole.find(content, shift + 1) >= 0:
        return None
    ends = accumulate(map(len, pieces))
    found = [
        math.exp(one.logprob)
        for one, piece, stop in zip(completion.tokens, pieces, ends, strict=True)
        if stop - len(piece) < end + shift and stop > start + shift and piece
    ]
    return math.fsum(found) / len(found) if found else None


def p_true(completion: Completion) -> float | None:
    """Return P(Yes) / (P(Yes) + P(No)) by the first token that is not blank; None where neither is offered.

    Case and white space make no difference: variants add up. One that is not among the likeliest counts as 0.
    """
    first = next((one for one in completion.tokens if one.text.strip()), None)
    if first is None or not first.top:  # without others beside it, the one that was said would count as sure
        return None
    offered = {first.text: first.logprob} | dict(first.top)
    mass = {"yes": 0.0, "no": 0.0}
    for text, logprob in offered.items():
        word = text.strip(" \t\r\n▁Ġ").lower()
        if word in mass:
            mass[word] += math.exp(logprob)
    total = math.fsum(mass.values())
    return mass["yes"] / total if total else None
