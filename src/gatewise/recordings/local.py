"""The embedded model: a GGUF file that answers in this process, through llama.cpp, as an endpoint does.

At temperature 0 a reply is a function of the request alone, on one machine and one version of the library: it does
not matter what was asked before, although the evidence that two requests begin with is read only once. Three things
see to that. Flash attention is off, for its sums depend on how many tokens are read together. A token read alone is
summed in another order than one in company, so the model's own words, which were made one at a time, are read again
before a conversation goes on behind them. And whatever tells of clocks, chance or the cache is left out of the reply.
"""

import asyncio
import json
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gatewise.errors import BadChoice, BrokenFile, Refused, Unavailable, nearest, shown
from gatewise.recordings.calls import Reply, as_sent
from gatewise.recordings.gguf import Card, read_card
from gatewise.recordings.weights import MODELS, sha256, weight_path

DEFAULT = "qwen-0.5b"
CONTEXT = 4096  # tokens of evidence and answer together
_READ = 512  # tokens read together

Message = Mapping[str, Any]


def model_file(model: str, cache: Path) -> Path:
    """Return the file of a model that is named, or that a path leads to."""
    known = [name for name, one in MODELS.items() if one.weights[0].file.endswith(".gguf")]
    if model in known:
        path = weight_path(MODELS[model], MODELS[model].weights[0], cache)
        if not path.is_file():
            raise BadChoice(
                f"expected the weights of {model} at {path}, found none. Run gatewise fetch model {model}."
            )
        return path
    if Path(model).is_file():
        return Path(model)
    raise BadChoice(
        f"expected a model among {', '.join(known)}, or the path of a GGUF file, found {shown(model)}"
        f"{nearest(model, known)}."
    )


def name_of(model: str, cache: Path) -> str:
    """Return what the ledger knows a model by; a named one need not be there, for its digest is known."""
    if model in MODELS:
        return f"local:{model}@sha256:{MODELS[model].weights[0].sha256[:12]}"
    path = model_file(model, cache)
    digest = sha256(path)
    return f"local:{_name(path, digest)}@sha256:{digest[:12]}"


class Local:
    """The model of a GGUF file, answering one request at a time in a thread; it is closed when the block ends.

    `read` and `reused` count the prompts' tokens: those that were computed, and those that the last prompt's cache
    spared.
    """

    def __init__(self, path: Path, *, threads: int | None = None, context: int = CONTEXT) -> None:
        library = _library()
        self.card: Card = read_card(path)
        self.digest = sha256(path)
        self.name = f"local:{_name(path, self.digest)}@sha256:{self.digest[:12]}"
        self.context = context
        self.read = self.reused = 0
        self._version = f"xllamacpp-{library.__version__}"
        self._controls = re.compile("|".join(map(re.escape, self.card.controls)) or "(?!)")
        self._last: Sequence[Message] = ()
        try:
            self._engine = library.Server(_settings(library, path, threads or _cores(), context))
        except (RuntimeError, ValueError) as error:
            raise BrokenFile(
                f"expected a model that llama.cpp can run at {path}, found: {_said(error)}. Fetch it again, or "
                "choose another."
            ) from None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gatewise-local")

    async def __call__(self, body: Mapping[str, Any]) -> Reply:
        """Return the model's reply to a chat request; requests queue for the one thread."""
        return await asyncio.wrap_future(self._thread.submit(self._answer, as_sent(body)))

    def close(self) -> None:
        """Finish the request under way, drop those that wait, and free the memory."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._engine = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, text: str) -> Reply:
        started, clock = time.time(), time.perf_counter()
        body = json.loads(text)  # what a reply answers is what the ledger holds, whoever made the mapping
        if body.get("stream"):
            raise Refused(
                f"expected a request for one whole reply from {self.name}, found stream. Leave it out.", 400, "stream"
            )
        sent = {key: value for key, value in body.items() if key not in ("model", "response_format", "cache_prompt")}
        schema = _schema(body.get("response_format"), self.name)
        if schema is not None:
            sent["grammar"] = _grammar(schema)
        sent["messages"] = messages = self._plain(body.get("messages"))
        found = self._ask(sent, messages)
        choices = found.get("choices") or [{}]
        if schema is not None and choices[0].get("finish_reason") == "stop" and not _is_json(choices[0]):
            raise Refused(
                f"expected a schema that {self.name} can hold to, found another. Make it simpler.", 400, "json_schema"
            )
        return Reply(self._raw(found), started, time.perf_counter() - clock)

    def _plain(self, messages: Any) -> list[dict[str, Any]]:
        """Return the messages as plain text: nothing in them spells a control token, no surrogate stands alone."""
        if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages) or not messages:
            raise Refused(f"expected a list of messages for {self.name}, found none. Give one.", 400, "messages")
        return [{key: self._text(value) for key, value in one.items()} for one in messages]

    def _text(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return self._controls.sub(lambda found: f"{found[0][0]} {found[0][1:]}", whole)

    def _ask(self, sent: dict[str, Any], messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Ask until no token of the prompt was read alone: as it is, behind another ending, and from the start."""
        before, self._last = self._last, ()
        shared = len(before)
        if before and messages[:shared] == before:  # the same again, or on behind the model's own words
            self._rewind(messages, min(shared, len(messages) - 1))
        for way in range(3):
            if way == 1:
                self._rewind(messages, len(messages) - 1)
            found = self._call({**sent, "cache_prompt": way < 2})
            if found["timings"]["prompt_n"] % _READ != 1:
                break
        self._last = messages
        return found

    def _rewind(self, messages: list[dict[str, Any]], keep: int) -> None:
        """Let the cache hold the first messages, and then something else than the next."""
        other = "#" if str(messages[keep].get("content", "")).startswith("~") else "~"
        end = [] if messages[keep].get("role") == "user" else [{"role": "user", "content": other}]
        self._call({"messages": [*messages[:keep], {**messages[keep], "content": other}, *end], "max_tokens": 1})

    def _call(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        try:
            found: Any = self._engine.handle_chat_completions(sent)
        except (RuntimeError, ValueError) as error:
            raise Refused(
                f"expected a request that {self.name} takes, found: {_said(error)}.", 400, _said(error)
            ) from None
        wrong: Mapping[str, Any] = found.get("error") or {}
        if not wrong and isinstance(found.get("choices"), list):
            self.read += found["timings"]["prompt_n"]
            self.reused += found["timings"]["cache_n"]
            return dict(found)
        if wrong.get("type") == "exceed_context_size_error":
            raise Unavailable(
                f"expected a conversation of at most {self.context:,} tokens, found {wrong['n_prompt_tokens']:,}. "
                "Show less evidence, or load the model with a larger context.",
                "large",
            )
        said = _said(wrong.get("message", "a reply without choices"))
        if 400 <= wrong.get("code", 0) < 500:
            raise Refused(f"expected a request that {self.name} takes, found: {said}.", 400, said)
        raise Unavailable(f"expected an answer from {self.name}, found: {said}. Try again.", "server")

    def _raw(self, found: dict[str, Any]) -> str:
        """Return the reply without what tells of clocks, chance, folders or the cache."""
        kept = {key: value for key, value in found.items() if key not in ("timings", "created", "id")}
        usage = {key: value for key, value in found.get("usage", {}).items() if key != "prompt_tokens_details"}
        return as_sent({**kept, "usage": usage, "model": self.name, "system_fingerprint": self._version})


def _library() -> Any:
    """Return xllamacpp, told before it loads that a waiting thread sleeps: on a busy machine spinning ones crawl."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    try:
        import xllamacpp
    except ImportError:
        raise BadChoice("expected the library xllamacpp, found none. Install gatewise[local].") from None
    return xllamacpp


def _settings(library: Any, path: Path, threads: int, context: int) -> Any:
    settings = library.CommonParams()
    settings.model.path = str(path)
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    settings.n_ctx, settings.n_batch, settings.n_ubatch = context, _READ, _READ
    settings.n_parallel, settings.n_gpu_layers, settings.fit_params = 1, 0, False
    settings.flash_attn_type = library.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    settings.cache_ram_mib, settings.n_ctx_checkpoints = 0, 0  # one prompt is kept, not every one
    settings.verbosity = -1
    # The library also listens on a random port of the loopback: it shows nothing, and nobody has its key.
    settings.hostnames, settings.port, settings.api_keys = ["127.0.0.1"], 0, [secrets.token_hex(32)]
    settings.ui = settings.endpoint_slots = settings.endpoint_props = settings.endpoint_metrics = False
    return settings


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _name(path: Path, digest: str) -> str:
    return next((name for name, one in MODELS.items() if one.weights[0].sha256 == digest), path.stem)


def _schema(form: Any, name: str) -> dict[str, Any] | None:
    """Return the schema that a reply is held to, None where it is free."""
    kind = form.get("type", "text") if isinstance(form, dict) else "text" if form is None else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    held = form.get("json_schema") if kind == "json_schema" else None
    if isinstance(held, dict) and isinstance(held.get("schema"), dict):
        return dict(held["schema"])
    raise Refused(
        f"expected a response_format of json_schema, json_object or text for {name}, found another.",
        400,
        "response_format",
    )


def _grammar(schema: Mapping[str, Any]) -> str:
    """Return a grammar of one line of JSON, its fields in the order in which the schema requires them.

    llama.cpp's own constraint lets a model wrap its object in a fence and write blanks until its words run out.
    """
    fields = schema.get("properties")
    if isinstance(fields, dict) and isinstance(required := schema.get("required"), list):
        first = {name: fields[name] for name in required if name in fields}
        schema = {**schema, "properties": {**first, **fields}}
    layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return "%llguidance {}\nstart: %json " + json.dumps({**schema, "x-guidance": layout})


def _is_json(choice: Mapping[str, Any]) -> bool:
    try:
        json.loads(choice["message"]["content"])
    except (KeyError, TypeError, ValueError):
        return False
    return True


def _said(error: object) -> str:
    return ascii(str(error).partition("\n")[0])[1:-1][:200]
