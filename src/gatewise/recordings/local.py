"""The embedded model: a GGUF file that answers in this process, through llama.cpp, as an endpoint does.

At temperature 0 a reply is a function of the request alone, on one kind of machine and one version of the library: it
does not matter what was asked before, although the evidence that two requests begin with is read only once. Three
things see to that. Flash attention and repacked weights are off, for their sums depend on how many tokens are read
together. A few tokens read by themselves are summed in another order than many, so where only few are new, more are
read again; and the model's own words, which were made one by one, are read again before a conversation goes on behind
them. And whatever tells of clocks, chance or the cache is left out of the reply.
"""

import asyncio
import hashlib
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from gatewise.errors import BadChoice, BrokenFile, Refused, Unavailable, nearest, shown
from gatewise.recordings.calls import Reply, as_sent
from gatewise.recordings.gguf import Card, read_card
from gatewise.recordings.prompts import plain_messages
from gatewise.recordings.weights import MODELS, sha256, weight_path

DEFAULT = "qwen-0.5b"
CONTEXT = 4096  # tokens of evidence and answer together
_READ = 512  # tokens read together at most
_FEW = 16  # tokens that may be summed in another order than many: measured, fewer than 8 are

Message = dict[str, Any]


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
        self.path, self.digest = path, sha256(path)
        self.model = _name(path, self.digest)
        self.name = f"local:{self.model}@sha256:{self.digest[:12]}"
        self.context = context
        self.read = self.reused = 0
        self._version = f"xllamacpp-{library.__version__}"
        self._controls = re.compile("|".join(map(re.escape, self.card.controls)) or "(?!)")
        self._over = threading.Event()
        self._last: Sequence[Message] | None = ()  # what the cache holds, None where nobody knows
        try:
            self._engine = library.Server(_settings(library, path, threads or _cores(), context))
        except (RuntimeError, ValueError) as error:
            raise BrokenFile(
                f"expected a model that llama.cpp can run at {path}, found: {_said(error)}. Fetch it again, or "
                "choose another."
            ) from None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gatewise-local")

    async def __call__(self, body: Mapping[str, Any]) -> Reply:
        """Return the model's reply to a chat request; requests queue for the one thread, and end with their task."""
        gone = threading.Event()
        try:
            return await asyncio.wrap_future(self._thread.submit(self._answer, as_sent(body), gone))
        finally:
            gone.set()

    def close(self) -> None:
        """Stop the request under way, drop those that wait, and free the memory."""
        self._over.set()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._engine = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, text: str, gone: threading.Event) -> Reply:
        started, clock = time.time(), time.perf_counter()
        body = json.loads(text)  # what a reply answers is what the ledger holds, whoever made the mapping
        if body.get("stream") or body.get("n", 1) != 1:
            raise self._refused("stream or n. Ask for one whole reply", "stream")
        sent = {key: value for key, value in body.items() if key not in ("model", "response_format", "cache_prompt")}
        schema = self._schema(body.get("response_format"))
        if schema is not None:
            sent["grammar"] = _grammar(schema)
        messages = plain_messages(body.get("messages"), self._controls)
        if messages is None:
            raise self._refused("no list of messages. Give one", "messages")
        sent["messages"] = messages
        found = self._ask(sent, messages, gone)
        if schema is not None and found["choices"][0]["finish_reason"] == "stop" and not _is_json(found):
            raise self._refused("a schema that it cannot hold to. Make it simpler", "json_schema")
        label = hashlib.sha256(text.encode()).hexdigest()[:24]
        return Reply(as_sent({**found, "id": f"chatcmpl-{label}"}), started, time.perf_counter() - clock)

    def _refused(self, found: str, said: str) -> Refused:
        return Refused(f"expected a request that {self.name} takes, found {found}.", 400, said)

    def _schema(self, form: Any) -> dict[str, Any] | None:
        """Return the schema that a reply is held to, None where it is free."""
        kind = form.get("type") if isinstance(form, dict) else "text" if form is None else None
        if kind == "text":
            return None
        if kind == "json_object":
            return {"type": "object"}
        held = form.get("json_schema") if kind == "json_schema" else None
        if isinstance(held, dict) and isinstance(held.get("schema"), dict):
            return dict(held["schema"])
        raise self._refused("another response_format. Use json_schema, json_object or text", "response_format")

    def _ask(self, sent: Mapping[str, Any], messages: list[Message], gone: threading.Event) -> dict[str, Any]:
        """Ask until no few tokens were read by themselves: as it is, behind two other endings, from the start."""
        before, self._last = self._last, None
        last = len(messages) - 1
        if before and messages[: len(before)] == before:  # the same again, or on behind the model's own words
            self._rewind(messages, min(len(before), last), gone, half=len(before) > last)
        for way in range(4):
            if way in (1, 2):
                self._rewind(messages, last, gone, half=way == 1)
            found, few = self._call({**sent, "cache_prompt": before is not None and way < 3}, gone)
            if not few:
                break
        self._last = messages
        return found

    def _rewind(self, messages: list[Message], keep: int, gone: threading.Event, *, half: bool) -> None:
        """Let the cache hold the first messages, perhaps half of the next, then something else."""
        content = str(messages[keep].get("content", ""))
        start = content[: len(content) // 2] if half else ""
        other = start + ("#" if content[len(start) :].startswith("~") else "~")
        end = [] if messages[keep].get("role") == "user" else [{"role": "user", "content": other}]
        turned = [*messages[:keep], {**messages[keep], "content": other}, *end]
        self._call({"messages": turned, "max_tokens": 1, "temperature": 0}, gone)

    def _call(self, sent: Mapping[str, Any], gone: threading.Event) -> tuple[dict[str, Any], bool]:
        """Return the reply whose pieces the library hands out, and whether few tokens were read by themselves."""
        pieces: list[dict[str, Any]] = []

        def take(piece: dict[str, Any]) -> bool:
            pieces.append(piece)
            return gone.is_set() or self._over.is_set()

        wanted = {**sent, "stream": True, "stream_options": {"include_usage": True}}
        try:
            whole = self._engine.handle_chat_completions(wanted, take)
        except (RuntimeError, ValueError) as error:
            raise self._refused(_said(error), _said(error)) from None
        wrong = next((one["error"] for one in (*pieces, whole) if one and "error" in one), None)
        if wrong is not None:
            self._raise(wrong)
        if not pieces or "timings" not in pieces[-1]:
            raise Unavailable(f"expected an answer from {self.name}, found that it was stopped. Ask again.", "server")
        timings = pieces[-1]["timings"]
        self.read += timings["prompt_n"]
        self.reused += timings["cache_n"]
        return self._joined(pieces), 0 < timings["prompt_n"] % _READ < _FEW

    def _raise(self, wrong: Mapping[str, Any]) -> NoReturn:
        said = _said(wrong.get("message", "nothing"))
        if wrong.get("type") == "exceed_context_size_error":
            raise Unavailable(
                f"expected a conversation of at most {self.context:,} tokens, found {wrong['n_prompt_tokens']:,}. "
                "Show less evidence, or load the model with a larger context.",
                "large",
            )
        if 400 <= wrong.get("code", 0) < 500:
            raise self._refused(said, said)
        raise Unavailable(f"expected an answer from {self.name}, found: {said}. Try again.", "server")

    def _joined(self, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return a reply without what tells of clocks, chance, folders or the cache."""
        choices = [choice for piece in pieces for choice in piece["choices"]]
        message = {"role": "assistant", "content": "".join(one["delta"].get("content") or "" for one in choices)}
        if thought := "".join(one["delta"].get("reasoning_content") or "" for one in choices):
            message["reasoning_content"] = thought
        choice = {"index": 0, "message": message, "finish_reason": choices[-1]["finish_reason"]}
        if tokens := [token for one in choices for token in (one.get("logprobs") or {}).get("content") or ()]:
            choice["logprobs"] = {"content": tokens}
        usage = pieces[-1]["usage"]
        return {
            "object": "chat.completion",
            "created": 0,
            "model": self.name,
            "system_fingerprint": self._version,
            "choices": [choice],
            "usage": {name: usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")},
        }


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
    settings.no_extra_bufts = True
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


def _is_json(found: Mapping[str, Any]) -> bool:
    try:
        json.loads(found["choices"][0]["message"]["content"])
    except ValueError:
        return False
    return True


def _said(error: object) -> str:
    return ascii(str(error).partition("\n")[0])[1:-1][:200]
