"""How fast calls are made: gatewise, ledger on, beside openai-python, litellm and Inspect AI, at one loopback server.

python benchmarks/record.py          (all of 32, 256 and 1,024 calls at once; or name some)

The peers live in environments of their own, never in gatewise's; two, for they want different versions of
openai-python. Without them they are said to be missing:

    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install openai inspect-ai
    python3 -m venv /tmp/peers-litellm && /tmp/peers-litellm/bin/pip install litellm
    GATEWISE_PEERS=/tmp/peers/bin/python:/tmp/peers-litellm/bin/python python benchmarks/record.py
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from itertools import count
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection

LATENCY = 0.05  # seconds that the server takes over each call
AT_ONCE = (32, 256, 1024)
WARM = 3  # calls of each, before the measure
MEASURED = 4.0  # seconds, until the last call is begun
TIMES = 2  # of which the best counts, of rate and of CPU each
EVIDENCE = "The river flows through a city in the north of a country and into a sea near an old port. " * 20  # 1.8 kB
REPLY = json.dumps(
    {
        "id": "chatcmpl-0123456789",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": '{"answer": "an old port", "confidence": 85}'},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 420, "completion_tokens": 17, "total_tokens": 437},
    }
).encode()

Call = Callable[[int], Awaitable[object]]  # the number of a call → whatever; each asks something else
Peer = Callable[[str, int, AsyncExitStack], Awaitable[Call]]  # address, calls at once → how to make one


def messages(number: int) -> list[dict[str, str]]:
    """Return what is asked: an instruction, evidence, and a question that nobody asked before."""
    return [
        {"role": "system", "content": "Answer from the evidence, as JSON with answer and confidence."},
        {"role": "user", "content": f"{EVIDENCE}\n\nQuestion {number}: where does the river end?"},
    ]


# The server, in a process of its own


class Answering(asyncio.Protocol):
    """The least that speaks HTTP: reads a request, waits, and answers the same each time."""

    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(REPLY)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with nothing read."""
        self.transport, self.read, self.needed = transport, bytearray(), -1

    def data_received(self, data: bytes) -> None:
        """Answer after the latency, once a request is whole."""
        self.read += data
        if self.needed < 0 and (end := self.read.find(b"\r\n\r\n")) >= 0:
            length = bytes(self.read[:end]).lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            self.needed = end + 4 + int(length)
        if 0 <= self.needed <= len(self.read):
            del self.read[: self.needed]
            self.needed = -1
            asyncio.get_running_loop().call_later(LATENCY, self.answer)

    def answer(self) -> None:
        """Send the reply, if anybody is still there."""
        if not self.transport.is_closing():
            self.transport.write(self.head + REPLY)


def serve(port: Connection) -> None:
    """Listen at a free port, and say which."""

    async def listen() -> None:
        listener = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, backlog=4096)
        port.send(listener.sockets[0].getsockname()[1])
        await listener.serve_forever()

    asyncio.run(listen())


# Who calls


async def gatewise(url: str, at_once: int, stack: AsyncExitStack, *, ledger: bool = True) -> Call:
    """Ask, and return once the reply is committed to a ledger on disk."""
    from gatewise.recordings.calls import Request
    from gatewise.recordings.chats import chat
    from gatewise.recordings.endpoints import FIRST, Settings, request_body
    from gatewise.recordings.ledger import Ledger

    settings = Settings("m", url, concurrency=at_once)
    endpoint = await stack.enter_async_context(chat(settings, key="sk-0123456789"))
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    kept = stack.enter_context(Ledger.open(f"{folder}/ledger.sqlite")) if ledger else None

    async def call(number: int) -> None:
        request = Request(endpoint.name, request_body(settings, FIRST, messages(number)))
        reply = await endpoint(request.body)
        if kept is not None:
            await kept.put(request, reply)

    return call


async def without_ledger(url: str, at_once: int, stack: AsyncExitStack) -> Call:
    """Ask by gatewise's client alone."""
    return await gatewise(url, at_once, stack, ledger=False)


async def aiohttp(url: str, at_once: int, stack: AsyncExitStack) -> Call:
    """Ask by the bare library: no retries, no paces, nothing checked or kept."""
    import aiohttp

    opened = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))

    async def call(number: int) -> None:
        body = {"model": "m", "messages": messages(number), "max_tokens": 400, "temperature": 0.0}
        async with opened.post(f"{url}/chat/completions", json=body) as reply:
            await reply.json()

    return call


async def openai_python(url: str, at_once: int, stack: AsyncExitStack) -> Call:
    """Ask by openai-python's asynchronous client."""
    from openai import AsyncOpenAI

    client = await stack.enter_async_context(AsyncOpenAI(base_url=url, api_key="sk-0123456789"))

    async def call(number: int) -> None:
        asked = messages(number)
        await client.chat.completions.create(model="m", messages=asked, max_tokens=400, temperature=0.0)

    return call


async def litellm(url: str, at_once: int, stack: AsyncExitStack) -> Call:
    """Ask by litellm, as it comes but for its greetings."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network first
    import litellm

    litellm.suppress_debug_info = True

    async def call(number: int) -> None:
        more = {"api_base": url, "api_key": "sk-0123456789", "max_tokens": 400, "temperature": 0.0}
        await litellm.acompletion(model="openai/m", messages=messages(number), **more)

    return call


async def inspect_ai(url: str, at_once: int, stack: AsyncExitStack) -> Call:
    """Ask by a model of Inspect AI, without its cache and its log."""
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig, get_model

    config = GenerateConfig(max_connections=at_once, max_tokens=400, temperature=0.0)
    model = get_model("openai-api/local/m", base_url=url, api_key="sk-0123456789", config=config)

    async def call(number: int) -> None:
        system, user = messages(number)
        await model.generate([ChatMessageSystem(content=system["content"]), ChatMessageUser(content=user["content"])])

    return call


OURS: dict[str, Peer] = {
    "gatewise, ledger on": gatewise,
    "gatewise, no ledger": without_ledger,
    "aiohttp, bare": aiohttp,
}
PEERS: dict[str, Peer] = {"openai": openai_python, "litellm": litellm, "inspect-ai": inspect_ai}


async def paced(peer: Peer, url: str, at_once: int) -> tuple[float, float]:
    """Return calls a second, and microseconds of this process's CPU a call, once everything is warm."""
    async with AsyncExitStack() as stack:
        call, number = await peer(url, at_once, stack), count()

        async def keep_calling(until: Callable[[int], bool]) -> int:
            done = 0
            while not until(done):
                await call(next(number))
                done += 1
            return done

        await asyncio.gather(*(keep_calling(lambda done: done == WARM) for _ in range(at_once)))
        start, spent = time.perf_counter(), time.process_time()
        end = start + MEASURED
        done = sum(await asyncio.gather(*(keep_calling(lambda _: time.perf_counter() > end) for _ in range(at_once))))
        seconds, spent = time.perf_counter() - start, time.process_time() - spent
    return done / seconds, 1e6 * spent / done


def measured(name: str, url: str, at_once: int) -> tuple[float, float, str] | None:
    """Return what a caller reaches in a process of its own, and its version; None where its library is missing."""
    theirs = [python for python in os.environ.get("GATEWISE_PEERS", "").split(os.pathsep) if python]
    hidden = ("OPENAI", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")  # have no part in this
    clean = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    for python in [sys.executable] if name in OURS else [*theirs, sys.executable]:
        command = [python, __file__, name, url, str(at_once)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
        if not ended.returncode:
            rate, cpu, version = ended.stdout.split()[-3:]
            return float(rate), float(cpu), version
        if "ModuleNotFoundError" not in ended.stderr:
            raise SystemExit(ended.stderr)
    return None


def compare(rounds: Sequence[int]) -> None:
    """Print calls a second and CPU a call of each, by how many at once, and how they compare."""
    ours, theirs = Pipe()
    server = Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ours.recv()}/v1"
    missing: set[str] = set()
    for at_once in rounds:
        print(f"\n{at_once:,} at once; {1000 * LATENCY:.0f} ms a call allow {at_once / LATENCY:,.0f} calls/s")
        found: dict[str, list[tuple[float, float, str]]] = {}
        for name in [*OURS, *PEERS] * TIMES:  # in turns, for the machine has other work too
            one = None if name in missing else measured(name, url, at_once)
            if one:
                found.setdefault(name, []).append(one)
            else:
                missing.add(name)
        best = {name: (max(one[0] for one in all_), min(one[1] for one in all_)) for name, all_ in found.items()}
        rate, cpu = best["gatewise, ledger on"]
        for name, (calls, spent) in best.items():
            told = f"  {name} {found[name][0][2]}".ljust(30) + f"{calls:7,.0f} calls/s {spent:7,.0f} µs CPU"
            print(told, f"  ledger on: {rate / calls:5.2f} × the calls, CPU 1 : {spent / cpu:.2f}", flush=True)
    server.terminate()
    if missing:
        print(f"\nmissing: {', '.join(sorted(missing))}. {(__doc__ or '').partition('.py')[2].strip()}")


def main() -> None:
    """Compare; or, in a process that was started for it, be one caller."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # 1,024 connections and some
    if sys.argv[1:2] and sys.argv[1] in OURS | PEERS:
        name, url, at_once = sys.argv[1:]
        figures = asyncio.run(paced((OURS | PEERS)[name], url, int(at_once)))
        print(*figures, version(name.partition(",")[0]))
    else:
        print(f"Calls at one loopback server, {len(REPLY)} bytes a reply")
        compare([int(one) for one in sys.argv[1:]] or AT_ONCE)


if __name__ == "__main__":
    main()
