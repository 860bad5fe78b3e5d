"""A deterministic chat server on the loopback: every reply is a pure function of the request's body, byte for byte.

It counts requests by the hash of their body, so that a test can say that none was paid for twice. In a thread:

    with Scripted(latency=0.05) as server: ... server.url ... server.counts ... server.total

or in a process of its own, which prints its address: `python tests/scripted.py --latency 0.05` (GET /counts tells,
GET /seen how often each body came).
"""

import argparse
import asyncio
import hashlib
import json
import math
import os
import threading
from collections import Counter

from aiohttp import web

os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"  # the client obeys the proxies it finds


def seed_of(body):
    """Return a number that only the body decides."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def filled(schema, seed):
    """Return an object that fits a schema of plain properties, its values decided by a number."""
    made = {}
    for name, one in schema.get("properties", {}).items():
        kind = one.get("type")
        if kind == "integer":
            made[name] = seed % (one.get("maximum", 100) + 1)
        elif kind == "number":
            made[name] = seed % 101
        elif kind == "boolean":
            made[name] = bool(seed & 256)
        else:
            made[name] = f"{name} {seed % 9973}"
    return made


ANSWER = {"properties": {"answer": {"type": "string"}, "confidence": {"type": "integer"}}}


def content_of(body):
    """Return what is said: what the schema asks for; Yes or No in one token; else an answer with a confidence."""
    seed = seed_of(body)
    if (body.get("max_tokens") or body.get("max_completion_tokens") or 99) <= 2:
        return "Yes" if seed & 1 else "No"
    asked = body.get("response_format", {}).get("json_schema", {}).get("schema")
    return json.dumps(filled(asked or ANSWER, seed))


def said(body):
    """Return the whole reply as a dict."""
    content, seed = content_of(body), seed_of(body)
    prompt, completion = len(json.dumps(body["messages"])) // 4, max(1, len(content) // 4)
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    if body.get("logprobs"):
        pieces = [content] if content in ("Yes", "No") else [content[at : at + 4] for at in range(0, len(content), 4)]
        share = 0.5 + (seed % 49) / 100
        other = "No" if content == "Yes" else "Yes"
        choice["logprobs"] = {
            "content": [
                {
                    "token": piece,
                    "logprob": math.log(share),
                    "top_logprobs": [
                        {"token": piece, "logprob": math.log(share)},
                        {"token": other, "logprob": math.log(1 - share)},
                    ],
                }
                for piece in pieces
            ]
        }
    return {
        "id": f"chatcmpl-{seed:016x}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body.get("model", ""),
        "provider": "scripted",
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "cost": (prompt + 4 * completion) / 1e6,
        },
    }


def embedded(body):
    """Return the reply to a call for embeddings: four numbers a text."""
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    rows = [[(seed_of(text) >> (8 * n) & 255) / 255 for n in range(4)] for text in texts]
    data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
    return {"object": "list", "model": body.get("model", ""), "data": data, "usage": {"prompt_tokens": len(texts)}}


class Scripted:
    """The server: `say(body)` makes the reply; `script(body, time)` may return a status or (status, text) instead.

    `time` counts the requests with the same body, from 0. `counts` holds the requests by the hash of their bytes,
    `answered` those whose reply went out whole with status 200.
    """

    def __init__(self, say=said, *, script=None, latency=0.0, port=0):
        self.counts: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.kept: dict[str, bytes] = {}  # one body a hash
        self.at_once = self.most_at_once = 0
        self._say, self._script, self._latency, self._port = say, script, latency, port
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def url(self):
        """The base address."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def total(self):
        return self.counts.total()

    @property
    def twice(self):
        """How many requests were answered although the same body had been answered before."""
        return sum(count - 1 for count in self.answered.values())

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(30)
        assert self._port, "the server did not start"
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self):
        try:
            asyncio.run(self._serve())
        finally:
            self._ready.set()

    async def _serve(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/v1/embeddings", self._answer)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/counts", self._tell)
        app.router.add_get("/seen", self._seen)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port, backlog=2048)
        await site.start()
        self._port = runner.addresses[0][1]
        self._ready.set()
        await self._over.wait()
        await runner.cleanup()

    async def _models(self, _):
        return web.json_response({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    async def _tell(self, _):
        return web.json_response({"total": self.total, "twice": self.twice, "most_at_once": self.most_at_once})

    async def _seen(self, _):
        return web.json_response(self.counts)

    async def _answer(self, request):
        raw = await request.read()
        name = hashlib.sha256(raw).hexdigest()
        body = json.loads(raw)
        with self._lock:
            time = self.counts[name]
            self.counts[name] += 1
            self.kept.setdefault(name, raw)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self._latency:
                await asyncio.sleep(self._latency)
            fault = self._script(body, time) if self._script else None
            if fault:
                status, text = fault if isinstance(fault, tuple) else (fault, "")
                error = text or json.dumps({"error": {"message": f"scripted {status}", "code": status}})
                return web.Response(status=status, text=error, content_type="application/json")
            reply = embedded(body) if request.path.endswith("/embeddings") else self._say(body)
            response = web.Response(body=json.dumps(reply).encode(), content_type="application/json")
            await response.prepare(request)
            await response.write_eof()
            with self._lock:
                self.answered[name] += 1
            return response
        finally:
            self.at_once -= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    given = parser.parse_args()
    with Scripted(latency=given.latency, port=given.port) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
