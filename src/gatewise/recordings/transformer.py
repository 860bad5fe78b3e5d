"""A Hugging Face model on a GPU or the CPU, which answers whatever requests wait, in batches, as an endpoint does.

Decoding is greedy. Requests of a batch are padded on the left and masked, so a reply is meant to depend on its own
request alone. Sums in another order still move the last digits, and may turn a tie of two tokens, in half precision
on a GPU more often than in float32 on a CPU: log-probabilities are rounded to four places, and no more is promised.
"""

import asyncio
import hashlib
import json
import re
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gatewise.errors import BadChoice, BrokenFile, Refused, Unavailable
from gatewise.recordings.calls import Reply, as_sent
from gatewise.recordings.prompts import plain_messages
from gatewise.recordings.weights import sha256

BATCH = 16  # requests answered together
LONGEST_ANSWER = 1024  # tokens, where a request does not say
PLACES = 4  # of a log-probability
_MOST_TOP = 20
_KNOWN = {"messages", "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs"}
_IDLE = {"model", "seed", "temperature"}  # read, and without effect on a greedy answer


@dataclass(eq=False)
class _Job:
    """A request under way: its prompt's tokens, what it asks for, and what has been said so far."""

    label: str
    prompt: list[int]
    limit: int
    top: int | None  # how many alternatives are asked for, None where no log-probabilities are
    reply: "Future[Reply]" = field(default_factory=Future)
    gone: threading.Event = field(default_factory=threading.Event)
    said: list[int] = field(default_factory=list)
    rows: list[tuple[int, float, list[tuple[int, float]]]] = field(default_factory=list)
    finish: str = ""


class Transformer:
    """A causal language model of a folder, or of the hub's cache; it is closed when the block ends.

    `model` is a folder or a name of the hub, `device` is `auto`, `cpu`, `cuda`, `cuda:1` and so on.
    """

    def __init__(self, model: str | Path, *, device: str = "auto", batch: int = BATCH) -> None:
        self._torch, library = _libraries()
        if batch < 1:
            raise BadChoice(f"expected a batch of at least 1 request, found {batch}. Choose more.")
        library.logging.set_verbosity_error()
        library.logging.disable_progress_bar()
        place = str(model)
        found = {"local_files_only": True} if Path(model).is_dir() else {}
        try:
            self._words = library.AutoTokenizer.from_pretrained(place, **found)
            chosen = ("cuda" if self._torch.cuda.is_available() else "cpu") if device == "auto" else device
            kind = self._torch.float32 if chosen == "cpu" else "auto"
            loaded = library.AutoModelForCausalLM.from_pretrained(place, dtype=kind, use_safetensors=True, **found)
            self._net = loaded.to(chosen).eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise BrokenFile(
                f"expected a model of transformers at {place}, found: {_said(error)}. Name a folder that holds its "
                "config, tokenizer and safetensors."
            ) from None
        if not getattr(self._words, "chat_template", None):
            raise BrokenFile(
                f"expected a model that chats at {place}, found no chat template. Choose an instruct model."
            )
        self.name = name_of(model, getattr(self._net.config, "_commit_hash", None))
        self.batch, self.device = batch, chosen
        self.batches = 0  # how often the model was run for some requests together
        self.context = int(getattr(self._net.config, "max_position_embeddings", 0) or 1 << 30)
        self._version = f"transformers-{library.__version__} torch-{self._torch.__version__} {chosen}"
        self._ends = _ends(self._net, self._words)
        marks = {str(one) for one in self._words.all_special_tokens}
        marks |= {one.content for one in self._words.added_tokens_decoder.values() if one.special}
        spelled = sorted((one for one in marks if len(one) > 1), key=lambda one: (-len(one), one))
        self._marks = re.compile("|".join(map(re.escape, spelled)) or "(?!)")
        self._over = threading.Event()
        self._waiting: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gatewise-transformer")

    async def __call__(self, body: Mapping[str, Any]) -> Reply:
        """Return the model's reply to a chat request, answered together with others that wait."""
        job = self._job(as_sent(body))
        self._waiting.append(job)
        self._thread.submit(self._drain)
        try:
            return await asyncio.wrap_future(job.reply)
        finally:
            job.gone.set()

    def close(self) -> None:
        """Stop what runs, drop those that wait, and free the memory."""
        self._over.set()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._net = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # A request

    def _job(self, text: str) -> _Job:
        """Return a request as tokens, or refuse what this model cannot do."""
        body = json.loads(text)
        for name, value in body.items():
            if name == "temperature" and value not in (None, 0):
                raise self._refused("a temperature above 0. It answers greedily", name)
            if name not in _KNOWN | _IDLE and value not in (None, False, {"type": "text"}):
                raise self._refused(f"{ascii(name)[1:-1][:40]}. Leave it out", name)
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        limit = LONGEST_ANSWER if limit is None else limit
        top = body.get("top_logprobs") or 0
        if not (isinstance(limit, int) and limit > 0 and isinstance(top, int) and 0 <= top <= _MOST_TOP):
            raise self._refused(
                f"another max_tokens or top_logprobs. Ask for 1 or more, and up to {_MOST_TOP}", "limit"
            )
        prompt = self._prompt(body.get("messages"))
        if len(prompt) + limit > self.context:
            raise Unavailable(
                f"expected a conversation of at most {self.context:,} tokens, found {len(prompt):,} and {limit:,} "
                "more for the answer. Show less evidence, or choose another model.",
                "large",
            )
        label = hashlib.sha256(text.encode()).hexdigest()[:24]
        return _Job(label, prompt, limit, top if body.get("logprobs") else None)

    def _prompt(self, messages: Any) -> list[int]:
        plain = plain_messages(messages, self._marks)
        if plain is None:
            raise self._refused("no list of messages. Give one", "messages")
        from jinja2 import TemplateError

        try:
            text = self._words.apply_chat_template(plain, add_generation_prompt=True, tokenize=False)
        except (
            TemplateError,
            TypeError,
            ValueError,
            KeyError,
        ) as error:  # roles that the model's maker has not foreseen
            raise self._refused(_said(error), _said(error)) from None
        return [int(one) for one in self._words(text, add_special_tokens=False)["input_ids"]]

    def _refused(self, found: str, said: str) -> Refused:
        return Refused(f"expected a request that {self.name} takes, found {found}.", 400, said)

    # A batch

    def _drain(self) -> None:
        """Answer the requests that wait, as many as fit together."""
        jobs: list[_Job] = []
        while self._waiting and len(jobs) < self.batch:
            job = self._waiting.popleft()
            if job.reply.set_running_or_notify_cancel():
                jobs.append(job)
        if not jobs:
            return
        started, clock = time.time(), time.perf_counter()
        try:
            self.batches += 1
            self._generate(jobs)
            latency = time.perf_counter() - clock
            for job in jobs:
                job.reply.set_result(Reply(self._raw(job), started, latency))
        except self._torch.OutOfMemoryError:
            self._fail(
                jobs, f"expected memory for {len(jobs)} requests on {self.device}, found too little. Lower the batch."
            )
        except RuntimeError as error:
            self._fail(jobs, f"expected an answer from {self.name}, found: {_said(error)}. Try again.")

    def _fail(self, jobs: Sequence[_Job], message: str) -> None:
        for job in jobs:
            if not job.reply.done():
                job.reply.set_exception(Unavailable(message, "server"))

    def _generate(self, jobs: Sequence[_Job]) -> None:
        """Let every request's answer grow by its likeliest token until all have ended."""
        torch, device = self._torch, self.device
        width = max(len(job.prompt) for job in jobs)
        filler = self._ends[0] if self._ends else 0
        ids = torch.tensor([[filler] * (width - len(job.prompt)) + job.prompt for job in jobs], device=device)
        mask = torch.tensor([[0] * (width - len(job.prompt)) + [1] * len(job.prompt) for job in jobs], device=device)
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        most = max([1, *(job.top for job in jobs if job.top)])
        kept = None
        with torch.inference_mode():
            while any(not job.finish for job in jobs):
                if self._over.is_set() or all(job.gone.is_set() for job in jobs):
                    raise RuntimeError("stopped")
                out = self._net(
                    input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=kept, use_cache=True,
                    logits_to_keep=1,
                )  # fmt: skip
                kept = out.past_key_values
                chances = torch.log_softmax(out.logits[:, -1].float(), dim=-1)
                best = chances.topk(min(most, chances.shape[-1]), dim=-1)
                numbers, values = best.indices.tolist(), best.values.tolist()
                for job, tokens, logprobs in zip(jobs, numbers, values, strict=True):
                    self._take(job, tokens, logprobs)
                ids = best.indices[:, :1]
                mask = torch.cat([mask, torch.ones_like(ids)], dim=-1)
                places = places[:, -1:] + 1

    def _take(self, job: _Job, tokens: Sequence[int], logprobs: Sequence[float]) -> None:
        """Add the likeliest token to an answer, or end it."""
        if job.finish:
            return
        if tokens[0] in self._ends:
            job.finish = "stop"
            return
        job.said.append(tokens[0])
        if job.top is not None:
            top = list(zip(tokens, logprobs, strict=True))[: job.top]
            job.rows.append((tokens[0], logprobs[0], top))
        if len(job.said) == job.limit:
            job.finish = "length"

    # A reply

    def _raw(self, job: _Job) -> str:
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": self._text(job.said)},
            "finish_reason": job.finish,
        }
        if job.top is not None:
            choice["logprobs"] = {"content": self._tokens(job)}
        counts = {"prompt_tokens": len(job.prompt), "completion_tokens": len(job.said)}
        return as_sent(
            {
                "id": f"chatcmpl-{job.label}",
                "object": "chat.completion",
                "created": 0,
                "model": self.name,
                "system_fingerprint": self._version,
                "choices": [choice],
                "usage": {**counts, "total_tokens": sum(counts.values())},
            }
        )

    def _tokens(self, job: _Job) -> list[dict[str, Any]]:
        """Return the answer's tokens; joined they are the answer, and a split character stands with its last part."""
        rows, before = [], ""
        for count, (_, logprob, top) in enumerate(job.rows, 1):
            text = self._text(job.said[:count])
            whole = text.removesuffix("\ufffd") if count < len(job.rows) else text
            grown, before = (whole[len(before) :], whole) if whole.startswith(before) else ("", before)
            alternatives = [{"token": self._text([one]), "logprob": _rounded(value)} for one, value in top]
            rows.append({"token": grown, "logprob": _rounded(logprob), "top_logprobs": alternatives})
        return rows

    def _text(self, tokens: Sequence[int]) -> str:
        found = self._words.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(found)


def name_of(model: str | Path, commit: str | None = None) -> str:
    """Return what the ledger knows a model by: a folder by the digest of its files, a hub's model by its commit.

    Without a commit it is that of the hub's cache, which is the one that was loaded last. A name that the ledger has
    stays what it is, so that what was recorded elsewhere can be read here.
    """
    if str(model).startswith("transformers:"):
        return str(model)
    folder = Path(model)
    if not folder.is_dir():
        commit = commit or _cached(str(model))
        return f"transformers:{model}@{commit[:12] if commit else 'unknown'}"
    files = sorted(
        one for one in folder.iterdir() if one.suffix in (".safetensors", ".json", ".jinja", ".txt", ".model")
    )
    lines = "".join(f"{one.name} {_digest(one, one.stat().st_mtime_ns)}\n" for one in files)
    return f"transformers:{folder.resolve().name}@sha256:{hashlib.sha256(lines.encode()).hexdigest()[:12]}"


@cache
def _digest(path: Path, changed: int) -> str:
    """Return the digest of a file; weights are large, and a study asks for their name more than once."""
    return sha256(path)


def _cached(model: str) -> str:
    """Return the commit of a hub's model that the hub's cache holds, empty where it holds none."""
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:  # comes with transformers
        return ""
    try:
        found = try_to_load_from_cache(model, "config.json")
    except HFValidationError:  # no name of a model there: opening it says so
        return ""
    return Path(found).parent.name if isinstance(found, str) else ""


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise BadChoice(f"expected the library {error.name}, found none. Install gatewise[transformers].") from None
    return torch, transformers


def _ends(net: Any, words: Any) -> list[int]:
    """Return the tokens that end an answer."""
    told = getattr(net.generation_config, "eos_token_id", None)
    found = [told] if isinstance(told, int) else list(told or ())
    return [*found, *([words.eos_token_id] if words.eos_token_id is not None else [])]


def _rounded(logprob: float) -> float:
    return round(max(logprob, -1000.0), PLACES) + 0.0  # and no negative zero


def _said(error: object) -> str:
    return ascii(str(error).partition("\n")[0])[1:-1][:200]
