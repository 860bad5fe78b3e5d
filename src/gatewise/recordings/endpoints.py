"""Endpoints: a model's settings → the body of a request, in the form that its server turned out to understand.

Servers that call themselves compatible differ: in how they bind a reply to a schema, how they spell the limit, and in
what they refuse. A `Form` says which of these is used; `simpler` reads a refusal and returns the next form to try.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from gatewise.errors import BadChoice, Refused

Schema = Literal["json_schema", "bare_schema", "json_object", "plain"]  # from the strictest to the freest
Limit = Literal["max_tokens", "max_completion_tokens"]

SCHEMAS: tuple[Schema, ...] = get_args(Schema)
OURS = ("model", "messages", "stream", "n")  # what `extra` may not touch: one answer, whole, to these words
BOUNDS = ("minLength", "maxLength", "minimum", "maximum")  # keywords that strict servers may not know


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens."""

    input: float
    output: float


@dataclass(frozen=True)
class Settings:
    """A model behind an address, how to ask it, and how hard; the key only by the variable that holds it.

    `timeout` bounds one attempt; `overall` a call with its retries, from its first turn on; both in seconds.
    """

    model: str
    url: str  # the base, as in https://example.org/v1
    key_env: str = ""  # the environment variable that holds the key
    temperature: float | None = 0.0  # None sends none
    max_tokens: int = 400
    seed: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)  # joins the body as it is
    logprobs: bool = False
    top_logprobs: int = 5
    prices: Prices | None = None
    concurrency: int = 8
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float = 120.0
    overall: float = 900.0
    largest_reply: int = 16 << 20  # bytes
    proxy: str = ""  # an address, "none" for none; "" takes what the environment says
    ca: str = ""  # a file of PEM certificates to trust beside the system's

    def __post_init__(self) -> None:
        for name in ("max_tokens", "concurrency", "timeout", "overall", "largest_reply"):
            _require(getattr(self, name) > 0, f"{name} above 0")
        for name in ("requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            _require(value is None or value > 0, f"{name} above 0, or none")
        _require(0 <= self.top_logprobs <= 20, "top_logprobs from 0 to 20")
        _require(bool(self.model), "the name of a model")
        _require(_plain_address(self.url), "a web address such as https://example.org/v1 without user, key or query")
        _require(
            self.proxy in ("", "none") or _plain_address(self.proxy),
            "a proxy such as http://proxy.example.org:3128 without user or password (the environment may hold those)",
        )
        _require(
            not self.key_env or _VARIABLE.fullmatch(self.key_env), "the name of an environment variable, no key,"
        )
        _require(_is_json(self.extra), "an extra body that is JSON")
        _require(not set(OURS) & set(self.extra), f"an extra body without {', '.join(OURS)}")
        _require(not _SECRETS & set(_names_in(self.extra)), "an extra body without a key in it")

    @property
    def address(self) -> str:
        """Where chat completions are asked for, and what the ledger knows the endpoint by."""
        base = self.url.rstrip("/")
        return base if base.endswith("/chat/completions") else f"{base}/chat/completions"


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRETS = {"api_key", "apikey", "api-key", "key", "authorization", "password", "secret", "token", "access_token"}


def _require(holds: object, expected: str) -> None:
    if not holds:  # and what was found is not shown: an address that is none may hold a key
        raise BadChoice(f"expected {expected} in the settings of a model, found another. Correct it.")


def _plain_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return known and "@" not in parts.netloc and not (parts.query or parts.fragment) and url.isprintable()


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(value, Mapping)


def _names_in(value: Any) -> Iterator[str]:
    """Yield the names of a body in lower case, at every depth."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name).lower()
            yield from _names_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _names_in(inner)


@dataclass(frozen=True)
class Form:
    """What a server understands of a request; what is off is left out of the body."""

    schema: Schema = "json_schema"
    limit: Limit = "max_tokens"
    temperature: bool = True
    seed: bool = True
    logprobs: bool = True

    def as_json(self) -> str:
        """Return the form as the ledger notes it."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> "Form":
        """Return a noted form.

        >>> Form.from_json(FIRST.as_json()) == FIRST
        True
        """
        try:
            form = Form(**json.loads(text))
            known = form.schema in SCHEMAS and form.limit in get_args(Limit)
            flags = all(isinstance(flag, bool) for flag in (form.temperature, form.seed, form.logprobs))
        except (ValueError, TypeError):
            known = flags = False
        if not (known and flags):
            raise BadChoice("expected the form of a request as it was noted, found another text. Negotiate anew.")
        return form


FIRST = Form()  # what is tried first


def request_body(
    settings: Settings,
    form: Form,
    messages: Sequence[Mapping[str, str]],
    schema: Mapping[str, Any] | None = None,
    *,
    max_tokens: int | None = None,
    top_logprobs: int | None = None,
) -> dict[str, Any]:
    """Return the body of a chat completion; `top_logprobs` asks for log-probabilities whatever the settings say.

    A schema is a JSON schema; its `title` becomes its name.

    >>> settings = Settings("m", "http://localhost/v1", seed=7)
    >>> request_body(settings, Form("plain", seed=False), [{"role": "user", "content": "?"}], max_tokens=1)
    {'model': 'm', 'messages': [{'role': 'user', 'content': '?'}], 'max_tokens': 1, 'temperature': 0.0}
    """
    body: dict[str, Any] = {"model": settings.model, "messages": [dict(message) for message in messages]}
    body[form.limit] = settings.max_tokens if max_tokens is None else max_tokens
    if form.temperature and settings.temperature is not None:
        body["temperature"] = settings.temperature
    if form.seed and settings.seed is not None:
        body["seed"] = settings.seed
    if form.logprobs and (settings.logprobs or top_logprobs is not None):
        body["logprobs"] = True
        body["top_logprobs"] = settings.top_logprobs if top_logprobs is None else top_logprobs
    if schema is not None and form.schema != "plain":
        body["response_format"] = _response_format(form.schema, schema)
    return body | {name: _sorted(value) for name, value in sorted(settings.extra.items())}


def _sorted(value: Any) -> Any:
    """Return a value whose mappings are in the order of their keys, however a file has them."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def _response_format(kind: Schema, schema: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "json_object":
        return {"type": "json_object"}
    name = schema.get("title", "answer")
    bound = {key: value for key, value in schema.items() if key != "title"}
    told = _unbounded(bound) if kind == "bare_schema" else bound
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": told}}


def _unbounded(schema: Any) -> Any:
    """Return a schema without the bounds of its values; what is out of bounds is then refused at reading."""
    if isinstance(schema, Mapping):
        return {key: _unbounded(value) for key, value in schema.items() if key not in BOUNDS}
    return schema


# What a refusal names, by the parts of a form; in the order of doubt where it names several
_NAMED = {
    "limit": re.compile(r"\bmax_tokens"),
    "temperature": re.compile(r"\btemperature\b"),
    "seed": re.compile(r"\bseed\b"),
    "logprobs": re.compile(r"log_?probs|log probabilities"),
    "schema": re.compile(
        r"response[_ ]?format|json[_ ]?schema|json[_ ]?object|json[_ ]mode|structured[_ -]?output|guided[_ ]|grammar"
        r"|invalid schema"
    ),
}
_TOO_LONG = re.compile(r"context[ _](length|window|size)|maximum context|tokens?\b.{0,80}\btoo (long|large|many)")
_BOUND = re.compile("|".join(word.lower() for word in BOUNDS) + r"|unimplemented keys|features? not supported")
_PARAMETER = re.compile(r"""["']param["']\s*:\s*["']([^"']+)|["']loc["']\s*:\s*[\[(]([^\])]*)""")
_NOTHING_SAID = re.compile(
    r"\W*(bad request|unprocessable( entity| content)?|not implemented|invalid request|error)?\W*"
    r"|.*(requested parameters|provider returned error).*",
    re.DOTALL,
)


def simpler(form: Form, refused: Refused) -> Form | None:
    """Return the next form to try after a refusal, read from the server's own words; None where nothing is left.

    This is for a first call: once an endpoint has answered, a refusal is about what was asked, not about its form.

    >>> simpler(FIRST, Refused("", 400, "Unsupported parameter: 'max_tokens' is not supported with this model."))
    Form(schema='json_schema', limit='max_completion_tokens', temperature=True, seed=True, logprobs=True)
    """
    said = refused.said.lower().replace('\\"', '"')  # a provider's own error, handed on as text
    if _TOO_LONG.search(said):
        return None  # no other form makes a prompt shorter
    parameter = " ".join(part for found in _PARAMETER.findall(said) for part in found)
    for words in (parameter, said):
        for part, pattern in _NAMED.items():
            following = _without(form, part, said) if pattern.search(words) else None
            if following is not None:
                return following
    if _NOTHING_SAID.fullmatch(said):
        tried = (_without(form, part, said) for part in ("schema", "logprobs", "seed", "temperature"))
        return next((following for following in tried if following is not None), None)
    return None


def _without(form: Form, part: str, said: str) -> Form | None:
    if part == "limit":
        return replace(form, limit="max_completion_tokens") if form.limit == "max_tokens" else None
    if part == "schema":
        if form.schema == "json_schema" and _BOUND.search(said):
            return replace(form, schema="bare_schema")
        free = {"json_schema": "json_object", "bare_schema": "json_object", "json_object": "plain"}.get(form.schema)
        return replace(form, schema=free) if free else None  # type: ignore[arg-type]
    off: dict[str, Any] = {part: False}
    return replace(form, **off) if getattr(form, part) else None
