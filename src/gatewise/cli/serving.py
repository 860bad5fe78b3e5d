"""Commands that listen: serve-local."""

import asyncio
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.terminal import cache_folder, say, tell

if TYPE_CHECKING:
    from gatewise.recordings.local import Local


def serve_local(
    model: Annotated[
        str,
        typer.Option("--model", help="qwen-0.5b, qwen-1.5b, smollm2-135m, or the path of a GGUF file of yours."),
    ] = "qwen-0.5b",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port on 127.0.0.1; 0 takes a free one.")
    ] = 8080,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, help="Threads that compute; default: all cores.", show_default=False),
    ] = None,
    context: Annotated[
        int, typer.Option("--context", min=64, help="Tokens of a conversation, its answer included.")
    ] = 4096,
) -> None:
    """Serve the embedded model to this machine alone, as an OpenAI-compatible endpoint, until Ctrl-C."""
    from gatewise.recordings.local import Local, model_file

    path = model_file(model, cache_folder())
    say(f"loading {path}")
    with Local(path, threads=threads, context=context) as local:
        asyncio.run(_serve(local, port))


async def _serve(local: "Local", port: int) -> None:
    from gatewise.servers.completions import chat_app, served

    async def answer(body: Mapping[str, Any]) -> str:
        return (await local(body)).raw

    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    async with served(chat_app(answer, [local.model, local.name]), port) as address:
        tell(f"ready  {address}  model {local.model}  (Ctrl-C stops it)")
        tell(f"file   {local.path}  sha256 {local.digest}")
        await over.wait()
    say(f"stopped: {local.read:,} tokens of prompts were read, {local.reused:,} were spared by the prefix cache.")
