"""An OpenAI-compatible server over any async callable: request body → raw reply. It listens on the loopback only.

A page in a browser cannot use it: requests must be JSON by their type and name this machine as their host.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from gatewise.errors import BadChoice, Mistake, Refused, Unavailable

Answer = Callable[[Mapping[str, Any]], Awaitable[str]]  # a chat request → the JSON of its reply

LARGEST = 1 << 23  # bytes of a request
HOME = "127.0.0.1"
_OURS = ("127.0.0.1", "localhost", "[::1]")


def chat_app(answer: Answer, models: Sequence[str], *, largest: int = LARGEST) -> web.Application:
    """Return an app that answers chat requests for the models named; the first is the one it lists.

    Paths: POST /v1/chat/completions, GET /v1/models, GET /health.
    """

    async def complete(request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return _wrong(415, f"expected application/json, found {ascii(request.content_type)[1:-1][:60]}.")
        try:
            body = json.loads(await request.read(), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return _wrong(400, "expected a JSON object as the body, found something else.")
        if not isinstance(body, dict):
            return _wrong(400, "expected a JSON object as the body, found something else.")
        model = body.get("model", models[0])
        if model not in models:
            return _wrong(404, f"expected the model {models[0]}, found another.", "model_not_found", param="model")
        try:
            return web.Response(text=await answer(body), content_type="application/json")
        except Refused as refused:
            return _wrong(refused.status, str(refused))
        except Unavailable as failure:
            if failure.kind == "large":
                return _wrong(400, str(failure), "context_length_exceeded", param="messages")
            return _wrong(503, str(failure))
        except Mistake as mistake:
            return _wrong(400, str(mistake))

    async def listed(request: web.Request) -> web.Response:
        one = {"id": models[0], "object": "model", "created": 0, "owned_by": "gatewise"}
        return web.json_response({"object": "list", "data": [one]})

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app = web.Application(client_max_size=largest, middlewares=[_guard])
    app.router.add_post("/v1/chat/completions", complete)
    app.router.add_get("/v1/models", listed)
    app.router.add_get("/health", health)
    return app


@web.middleware
async def _guard(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
    """Turn away who speaks to another host's name, and say in OpenAI's shape what the framework refuses."""
    if request.host.rpartition(":")[0] not in _OURS and request.host not in _OURS:
        return _wrong(403, "expected a request to 127.0.0.1 or localhost, found another host's name.")
    try:
        return await handler(request)
    except web.HTTPException as refused:
        if refused.status < 400:
            raise
        said = {
            404: "expected /v1/chat/completions, /v1/models or /health, found another path.",
            405: f"expected another method at this path, found {request.method}.",
            413: "expected a smaller body. Show less.",
        }
        return _wrong(refused.status, said.get(refused.status, f"{refused.reason}."))


def _wrong(status: int, message: str, code: str | None = None, *, param: str | None = None) -> web.Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return web.json_response(
        {"error": {"message": message, "type": kind, "param": param, "code": code}}, status=status
    )


def _no_constant(name: str) -> None:
    raise ValueError(name)


@asynccontextmanager
async def served(app: web.Application, port: int = 0) -> AsyncIterator[str]:
    """Serve an app on a port of the loopback while the block runs, and yield its address; 0 picks a free port."""
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, HOME, port).start()
        except (OSError, OverflowError) as error:
            said = getattr(error, "strerror", None) or "no such port"
            raise BadChoice(
                f"expected to listen on port {port} of {HOME}, found: {said}. Choose another port, or 0."
            ) from None
        yield f"http://{HOME}:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
