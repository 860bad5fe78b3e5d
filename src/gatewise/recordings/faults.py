"""Faults: what a server's refusal means. It may pass; or this request will not do; or no call will, and all stop.

Pure: status and text in, a `Fault` out. Servers differ in what they put where, so that codes are read before words,
and words only where a server puts its own: what it echoes of a prompt decides nothing.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LONGEST_SAID = 4000  # characters kept of what a server says about a refusal


@dataclass(frozen=True)
class Fault:
    """Why there is no answer: `kind` for counting, whether it may pass, whether it ends every call; in its words."""

    kind: str
    passes: bool
    final: bool
    words: str  # one tame line, "" where the server said nothing readable


def fault_of(status: int, text: str) -> Fault:
    """Return what a status and the body beside it mean.

    >>> fault_of(429, '{"error": {"code": "insufficient_quota", "message": "Pay first."}}')
    Fault(kind='quota', passes=False, final=True, words='Pay first.')
    >>> fault_of(429, "").kind, fault_of(503, "").passes, fault_of(401, "").final
    ('rate', True, True)
    """
    error = _error_in(text)
    words = _line("; ".join(dict.fromkeys(_messages(error))))
    codes = " ".join(_codes(error)).lower()
    said = words.lower()
    kind, passes, final = _meaning(status, codes, said)
    return Fault(kind, passes, final, words)


def fault_in(raw: str) -> Fault | None:
    """Return what is wrong with a reply of status 200; None for a completion, whatever its content.

    >>> fault_in('{"error": {"code": 402, "message": "Insufficient credits"}}').kind
    'quota'
    >>> fault_in('{"choices": [{"message": {"content": null, "reasoning": "hm"}}]}')
    """
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return Fault("garbage", True, False, "no JSON")
    if isinstance(value, dict):
        if not (value.get("error") or value.get("object") == "error"):
            choices = value.get("choices")
            first = choices[0] if isinstance(choices, list) and choices else None
            if isinstance(first, dict) and first.get("error"):
                value = first
            elif isinstance(first, dict) and isinstance(first.get("message"), dict):
                return None
            else:
                return Fault("garbage", True, False, "no choice in it")
        return fault_of(_status_in(value), json.dumps(value))
    return Fault("garbage", True, False, "no choice in it")


_QUOTA_CODES = re.compile(r"insufficient_(quota|balance|credits|funds)|billing|quota_exceeded|payment")
_QUOTA = re.compile(
    r"insufficient (credits?|balance|funds|quota)|credit balance is too low|out of credits|billing hard limit"
    r"|(?!.*retry in)exceeded your current quota"
)
_AUTH = re.compile(r"api key (is )?(not valid|invalid|expired)|(invalid|incorrect|missing) api key|api_key_invalid")
_NO_MODEL_CODES = re.compile(r"model_not_found|model_not_available|unknown_model|invalid_model")
_NO_MODEL = re.compile(
    r"not a valid model|model\b.{0,200}\b(not found|does not exist|not exist|not available|not loaded)"
    r"|no (such )?model|unknown model|no models? loaded|(have|has) access to (the )?model"
)
_THIS_REQUEST = re.compile(r"moderation|flagged|content.?policy|content.?filter|logprobs|requested parameters")
_FORM = re.compile(r"grammar|json_schema|response_format|not implemented|unimplemented")


def _meaning(status: int, codes: str, said: str) -> tuple[str, bool, bool]:
    """Return kind, whether it may pass, and whether it is final."""
    start = said[:200]
    if status == 402 or _QUOTA_CODES.search(codes):
        return "quota", False, True
    if status in (400, 403, 429) and _QUOTA.search(start) and "resource_exhausted" not in codes:
        return "quota", False, True
    if status == 401 or (status in (400, 403) and _AUTH.search(f"{codes} {start}")):
        return "auth", False, True
    if status in (400, 403, 404) and (_NO_MODEL_CODES.search(codes) or _NO_MODEL.search(start)):
        return "missing", False, True
    if status in (403, 404) and _THIS_REQUEST.search(start):
        return "refused", False, False
    if status == 403 or status == 407:
        return "auth", False, True
    if status in (404, 405, 410) or 300 <= status < 400:
        return "missing", False, True
    if status == 501 or (status >= 500 and _FORM.search(start)):
        return "refused", False, False
    if status >= 500:
        return "server", True, False
    if status in (408, 409, 425, 429):
        return {408: "timeout", 429: "rate"}.get(status, "server"), True, False
    return "refused", False, False


def _status_in(value: Any) -> int:
    """Return the status that an error body of status 200 stands for."""
    error = value.get("error", value)
    codes = [error.get(name) for name in ("code", "status")] if isinstance(error, dict) else []
    for code in codes:
        if str(code).isdecimal() and 400 <= int(str(code)[:9]) < 600:
            return int(str(code))
    named = " ".join(_codes(value)).lower()
    for words, status in (
        ("rate_limit|too_many|resource_exhausted", 429),
        ("invalid_api_key|authentication|unauthorized", 401),
        ("invalid_request|unsupported|bad_?request", 400),
        ("not_found", 404),
    ):
        if re.search(words, named):
            return status
    return 500


def _error_in(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.lstrip().startswith("<") else text  # a page for eyes says nothing in one line


def _messages(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield what a server says in its own words, wherever it puts them."""
    if isinstance(value, str):
        if depth and value.lstrip().startswith(("{", "[")):  # a provider's own error, handed on as text
            yield from _messages(_error_in(value), depth + 1)
        elif value.strip():
            yield value.strip()
    elif isinstance(value, list):
        for one in value[:3]:
            yield from _messages(one, depth + 1)
    elif isinstance(value, dict) and depth < 8:
        for name in ("error", "message", "detail", "msg", "metadata", "raw"):
            if name in value:
                yield from _messages(value[name], depth + 1)


def _codes(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the codes and types of an error."""
    if isinstance(value, list):
        for one in value[:3]:
            yield from _codes(one, depth + 1)
    elif isinstance(value, dict) and depth < 8:
        for name in ("code", "type", "status", "reason"):
            if isinstance(value.get(name), str | int):
                yield str(value[name])
        for name in ("error", "detail", "details"):
            yield from _codes(value.get(name), depth + 1)


def _line(text: str) -> str:
    return ascii(text.partition("\n")[0])[1:-1][:300] if text else ""
