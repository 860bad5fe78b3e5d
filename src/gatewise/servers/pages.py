"""Pages on loopback: paths and the functions that answer them → a listener that only this machine can read.

It reads and never writes: there is no other method than GET. A name that some other site has pointed at this machine
(DNS rebinding) is refused, because only requests to a loopback name are answered; and no answer may be framed,
sniffed for another type or read by a page of another origin.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from gatewise.errors import BadChoice, Mistake

LOOPBACK = "127.0.0.1"
NAME = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.IGNORECASE)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Answer = Callable[[Mapping[str, str]], Any]  # query → a text, or plain values for JSON


@dataclass(frozen=True)
class Page:
    """A text to answer with, and its type."""

    text: str
    kind: str = "text/html"


def application(answers: Mapping[str, Answer]) -> web.Application:
    """Return the application that answers each path with what its function makes of the query.

    Functions run one at a time beside the event loop, so that they may keep what they have computed.
    """
    worker = ThreadPoolExecutor(1)
    app = web.Application(middlewares=[_guarded])

    def handler(answer: Answer) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            loop = asyncio.get_running_loop()
            try:
                found = await loop.run_in_executor(worker, answer, dict(request.query))
            except Mistake as mistake:
                return web.json_response({"error": str(mistake)}, status=400)
            if isinstance(found, Page):
                return web.Response(text=found.text, content_type=found.kind)
            return web.json_response(text=json.dumps(found, allow_nan=False))

        return handle

    for path, answer in answers.items():
        app.router.add_get(path, handler(answer))

    async def close(_: web.Application) -> None:
        worker.shutdown(cancel_futures=True)

    app.on_cleanup.append(close)
    return app


@web.middleware
async def _guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    if not NAME.fullmatch(request.headers.get("Host", "")):
        response: web.StreamResponse = web.Response(status=403, text="This page answers on loopback names alone.\n")
    else:
        try:
            response = await handler(request)
        except web.HTTPException as refused:
            response = web.Response(status=refused.status, text=f"{refused.reason}\n")
    response.headers.update(HEADERS)
    return response


def serve(answers: Mapping[str, Answer], *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Answer on loopback until interrupted; `ready` is told the address (port 0 takes a free one)."""
    asyncio.run(_serve(answers, port, ready))


async def _serve(answers: Mapping[str, Answer], port: int, ready: Callable[[str], None]) -> None:
    runner = web.AppRunner(application(answers), access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, LOOPBACK, port).start()
        except OSError as error:
            raise BadChoice(
                f"expected a port to listen on, found that {port} cannot be had: {error.strerror}. Choose another "
                "with --port."
            ) from None
        ready(f"http://{LOOPBACK}:{runner.addresses[0][1]}/")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
