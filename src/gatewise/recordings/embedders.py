"""Embedders: texts → vectors, by an endpoint, a small ONNX model, or sentence-transformers.

An embedder is an async callable `texts -> (n, d) array` with a `name` and, where its weights are known, a `digest`.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gatewise.errors import BadChoice, Unavailable
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.weights import MODELS, sha256, weight_path

Vectors = npt.NDArray[np.float32]
Call = Callable[[Mapping[str, Any]], Awaitable[Any]]  # the body of a request → the JSON of its reply

BATCH = 64  # texts a request
AT_ONCE = 8  # requests under way


class Embedder(Protocol):
    """Texts → one vector each."""

    name: str
    digest: str  # of the weights; "" where nobody says

    def __call__(self, texts: Sequence[str]) -> Awaitable[Vectors]:
        """Return the vectors of some texts, shape (n, d)."""
        ...


class Endpoint:
    """Any OpenAI-compatible `/embeddings` endpoint."""

    def __init__(self, model: str, call: Call) -> None:
        self.name = model
        self.digest = ""
        self._call = call

    async def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the endpoint's vectors, asked for in batches."""
        permit = asyncio.Semaphore(AT_ONCE)  # of this call: a semaphore belongs to one event loop
        batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._batch(batch, permit)) for batch in batches]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # one is enough to say what is wrong
        found = [task.result() for task in tasks]
        if len({vectors.shape[1] for vectors in found}) > 1:
            raise Unavailable(f"expected vectors of one length from {self.name}, found several. Use one model.")
        return np.concatenate(found)

    async def _batch(self, texts: Sequence[str], permit: asyncio.Semaphore) -> Vectors:
        async with permit:
            body = {"model": self.name, "input": list(texts), "encoding_format": "float"}
            return vectors_in(await self._call(body), len(texts))


def vectors_in(reply: Any, count: int) -> Vectors:
    """Return the vectors of an `/embeddings` reply, in the order of the texts, or raise what is wrong with it.

    >>> vectors_in({"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]}, 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    try:
        found = sorted(reply["data"], key=lambda one: int(one["index"]))
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            vectors = np.array([one["embedding"] for one in found], np.float32)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise Unavailable("expected a list of embeddings, found another reply. Is this an embedding model?") from None
    if (
        [one["index"] for one in found] != list(range(count))
        or vectors.ndim != 2
        or not vectors.size
        or not np.isfinite(vectors).all()
    ):
        raise Unavailable(f"expected {count} finite vectors of one length, found others. Is this an embedding model?")
    return vectors


def kept(call: Call, url: str, ledger: Ledger) -> Call:
    """Return a call that looks into the ledger first, and puts there what it had to ask for: once it can be read."""

    async def once(body: Mapping[str, Any]) -> Any:
        request = Request(url, body, kind="embedding")
        had = ledger.find([request.key]).get(request.key)
        if had:
            return json.loads(had.raw)
        task = asyncio.ensure_future(pay(request, body))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.gather(
                task, return_exceptions=True
            )  # it is paid for: kept before an interrupt gets through
            raise

    async def pay(request: Request, body: Mapping[str, Any]) -> Any:
        started, clock = time.time(), time.perf_counter()
        reply = await call(body)
        latency = time.perf_counter() - clock
        vectors_in(reply, len(body["input"]))  # what holds no vectors is a failure, and asked for again
        await ledger.put(request, Reply(json.dumps(reply, separators=(",", ":")), started, latency))
        return reply

    return once


class MiniLM:
    """all-MiniLM-L6-v2 in int8 on the CPU: the embedded default, no server and no torch.

    Texts are embedded one at a time: in a batch, the quantization of one would depend on its neighbours.
    """

    longest = 256  # tokens, as the model was trained

    def __init__(self, cache: Path) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
        except ImportError as error:
            raise BadChoice(f"expected the library {error.name}, found none. Install gatewise[embed].") from None
        model = MODELS["minilm"]
        paths = [weight_path(model, weight, cache) for weight in model.weights]
        for path, weight in zip(paths, model.weights, strict=True):
            if not path.is_file() or sha256(path) != weight.sha256:
                raise BadChoice(f"expected the embedder's file {path}, found none. Run gatewise fetch model minilm.")
        self.name, self.digest = model.name, model.weights[0].sha256
        words = paths[1].read_text("utf-8").splitlines()
        place = {word: number for number, word in enumerate(words)}
        self._tokens = Tokenizer(models.WordPiece(place, unk_token="[UNK]"))  # noqa: S106 -- no secret, a token
        self._tokens.normalizer = normalizers.BertNormalizer(lowercase=True)
        self._tokens.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        ends = [(word, place[word]) for word in ("[CLS]", "[SEP]")]
        self._tokens.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
        self._tokens.enable_truncation(self.longest)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(paths[0], options, providers=["CPUExecutionProvider"])
        self._inputs = {one.name for one in self._session.get_inputs()}

    async def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return mean-pooled vectors of length 1."""
        return await asyncio.to_thread(lambda: np.stack([self._one(text) for text in texts]))

    def _one(self, text: str) -> npt.NDArray[np.float32]:
        ids = np.array([self._tokens.encode(text.encode("utf-8", "replace").decode()).ids], np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        states = self._session.run(None, {name: array for name, array in given.items() if name in self._inputs})[0]
        mean = np.asarray(states[0], np.float64).mean(axis=0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), np.float32)


class SentenceTransformer:
    """A model of sentence-transformers, the paper's `BAAI/bge-m3` by default."""

    def __init__(self, model: str = "BAAI/bge-m3") -> None:
        try:
            import sentence_transformers
        except ImportError:
            raise BadChoice(
                "expected the library sentence_transformers, found none. Install gatewise[sentence-transformers], or "
                "name an endpoint that serves the model."
            ) from None
        try:
            self._model = sentence_transformers.SentenceTransformer(model)
        except (OSError, ValueError) as error:
            said = ascii(str(error).partition("\n")[0])[1:-1][:200]
            raise Unavailable(f"expected the model {model}, found: {said}. Name a folder that holds it.") from None
        self.name, self.digest = model, ""

    async def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return normalized vectors."""

        def encode() -> Vectors:
            found = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
            return np.asarray(found, np.float32)

        return await asyncio.to_thread(encode)
