"""Batches: requests as lines of a file that a distributed engine works off, and its results back into the ledger.

The format is that of OpenAI's batch files, which vLLM's `run-batch` and others run too: a request a line under an id
of ours, which is its key. Results come in any order, some twice, some as failures, some not at all. Whoever walks
through the plans asks a file instead of an endpoint, so that replies enter the ledger through the same door.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Self

from gatewise.errors import Refused, Unavailable
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.faults import Fault, fault_in, fault_of
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.store import Shelf
from gatewise.recordings.voices import NOT_ASKED

MOST_LINES = 50_000  # what a hosted service takes in one file
MOST_BYTES = 200_000_000


def batch_line(request: Request, custom_id: str = "") -> bytes:
    r"""Return a request as a line of a batch file, its body letter for letter what a call would send.

    >>> batch_line(Request("http://localhost/v1/chat/completions", {"model": "m"}), "one")
    b'{"custom_id":"one","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}\n'
    """
    path = "/v1/embeddings" if request.endpoint.endswith("/embeddings") else "/v1/chat/completions"
    name = json.dumps(custom_id or request.key)
    return f'{{"custom_id":{name},"method":"POST","url":"{path}","body":{request.text}}}\n'.encode()


@dataclass(frozen=True, slots=True)
class Result:
    """One line of results: the reply to the request of this key, or why there is none."""

    key: str  # "" where the line does not say
    raw: str | None  # letter for letter as it stands in the line
    failure: str = ""  # its kind in one word, as failures of calls are counted
    words: str = ""  # what was said about it, tame


def read_batch_lines(lines: Iterable[bytes]) -> Iterator[Result]:
    """Yield what the lines of a results file say, as they come; a line that cannot be read is a failure like others.

    >>> line = b'{"custom_id": "one", "response": {"status_code": 200, "body": {"choices": [{"message": {}}]}}}'
    >>> next(read_batch_lines([line])).raw
    '{"choices": [{"message": {}}]}'
    """
    for line in lines:
        text = line.decode("utf-8-sig", "replace").strip()
        if text:
            yield _result(text)


def _result(text: str) -> Result:
    try:
        row: Any = json.loads(text)
    except (ValueError, RecursionError):
        return Result("", None, "garbage", "a line that is no JSON, or was cut short")
    if not isinstance(row, dict) or not isinstance(row.get("custom_id"), str):
        return Result("", None, "garbage", "a line without a custom_id")
    key, response, error = row["custom_id"], row.get("response"), row.get("error")
    if not isinstance(response, dict):
        return _failed(key, _fault_without_response(error))
    inside = "body" in response  # else the response is the reply itself, as an engine of one's own may write it
    body = response.get("body") if inside else response
    status = response.get("status_code", 200)
    if not isinstance(status, int) or status >= 400 or error or not isinstance(body, dict):
        said = body if isinstance(body, dict) else {"error": error} if error else {}
        return _failed(key, fault_of(status if isinstance(status, int) and status >= 400 else 500, json.dumps(said)))
    raw = _member(text, "response")
    raw = _member(raw, "body") if inside else raw
    if body.get("error") or not isinstance(body.get("data"), list):  # which the reply of embeddings has
        fault = fault_in(raw)
        if fault:
            return _failed(key, fault)
    return Result(key, raw)


def _failed(key: str, fault: Fault) -> Result:
    return Result(key, None, fault.kind, fault.words)


def _fault_without_response(error: Any) -> Fault:
    code = str(error.get("code", "")) if isinstance(error, dict) else ""
    if re.search("expired|cancel", code):
        return Fault("timeout", True, False, "the batch ended before this request was run")
    return fault_of(500, json.dumps({"error": error}))


_decoder = json.JSONDecoder()
_space = re.compile(r"[ \t\r\n]*")


def _member(text: str, name: str) -> str:
    """Return the text of a member of a JSON object, letter for letter; of several with the name, the last."""
    found = ""
    at = _after_space(text, _after_space(text, 0) + 1)
    while text[at] == '"':
        key, at = _decoder.raw_decode(text, at)
        start = _after_space(text, _after_space(text, at) + 1)
        _, at = _decoder.raw_decode(text, start)
        if key == name:
            found = text[start:at]
        at = _after_space(text, at)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return found


def _after_space(text: str, at: int) -> int:
    match = _space.match(text, at)
    return match.end() if match else at


@dataclass
class Intake:
    """What became of the lines of a batch's results."""

    lines: int = 0  # without empty ones
    added: int = 0  # replies that were asked for, and were not in the ledger
    known: int = 0  # replies to requests that the ledger has an answer to
    repeated: int = 0  # further replies to a request; the first counts
    foreign: int = 0  # replies to what this study does not ask
    failures: Counter[str] = field(default_factory=Counter)  # lines that hold no reply, by kind
    said: dict[str, str] = field(default_factory=dict)  # the first words about each kind of failure


class Results:
    """Replies that came in files, asked like an endpoint: each waits on the disk until its request comes by.

    Use it in a `with`. Neither requests nor replies are held in memory; reading the same lines again changes nothing.
    """

    def __init__(self) -> None:
        self.intake = Intake()
        self._replies = Shelf()
        self._refused = Shelf()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._replies.close()
        self._refused.close()

    def take_in(self, lines: Iterable[bytes]) -> None:
        """Put what the lines of a results file say where requests find it."""
        intake = self.intake
        for result in read_batch_lines(lines):
            intake.lines += 1
            if result.raw is None:
                intake.failures[result.failure] += 1
                intake.said.setdefault(result.failure, result.words)
                if result.failure == "refused":
                    self._refused.add(result.key, result.words)
            elif not self._replies.add(result.key, result.raw):
                intake.repeated += 1

    async def ask(self, request: Request) -> Reply:
        """Return the reply to a request, or raise that there is none."""
        key = request.key
        raw = self._replies.take([key]).get(key)
        if raw is not None:
            self.intake.added += 1
            return Reply(raw, None, None)
        words = self._refused.take([key]).get(key)
        if words is not None:
            raise Refused(f"expected a reply in the results, found it refused: {words}.", 400, words)
        raise Unavailable("expected a reply in the results, found none. Write the next batch.", NOT_ASKED)

    def count_rest(self, ledger: Ledger) -> None:
        """Count the replies that nobody asked for: the ledger has them, or they are of another study."""
        rest = self._replies.rest()
        while few := list(islice(rest, 500)):
            known = len(ledger.find([key for key in few if _KEY.fullmatch(key)]))
            self.intake.known += known
            self.intake.foreign += len(few) - known


_KEY = re.compile("[0-9a-f]{64}")
