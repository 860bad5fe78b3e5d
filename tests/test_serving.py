"""gatewise serve-local as its user meets it, where the smallest weights are in the cache."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from gatewise.errors import BadChoice
from gatewise.recordings.local import model_file
from test_local import cache_folder


@pytest.fixture
def address():
    pytest.importorskip("xllamacpp", reason="needs the extra gatewise[local]")
    try:
        model_file("smollm2-135m", cache_folder())
    except BadChoice as missing:
        pytest.skip(f"THE EMBEDDED MODEL IS NOT TESTED: {missing}")
    command = [
        sys.executable,
        "-m",
        "gatewise",
        "serve-local",
        "--model",
        "smollm2-135m",
        "--port",
        "0",
        "--threads",
        "1",
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as server:
        try:
            word, address, *_ = server.stdout.readline().split()
            assert word == "ready"
            assert "b179c9523d0e" in server.stdout.readline()
            yield address
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(30) == 0
            said = server.stderr.read()
            assert said.startswith("loading ")
            assert "stopped: " in said
            assert "Traceback" not in said
            assert len(said.splitlines()) == 2  # and nothing of llama.cpp


def test_the_embedded_model_is_served_and_ctrl_c_ends_it_cleanly(address):
    body = {
        "model": "smollm2-135m",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 3,
        "temperature": 0,
    }
    data = json.dumps(body).encode()
    asked = urllib.request.Request(f"{address}/chat/completions", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as reply:
        first = reply.read()
    with urllib.request.urlopen(asked) as reply:
        assert reply.read() == first
    assert json.loads(first)["usage"]["completion_tokens"] == 3


def test_the_client_asks_the_served_model_like_any_other_endpoint(address):
    from gatewise.errors import Unavailable
    from gatewise.recordings.chats import chat
    from gatewise.recordings.endpoints import FIRST, Settings, request_body
    from gatewise.recordings.local import Local
    from gatewise.recordings.replies import read_reply

    settings = Settings("smollm2-135m", address, max_tokens=24, seed=1, logprobs=True)
    schema = {
        "title": "answer",
        "type": "object",
        "properties": {"answer": {"type": "string", "minLength": 1}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    body = request_body(settings, FIRST, [{"role": "user", "content": "What is the capital of France?"}], schema)

    async def ask():
        async with chat(settings) as endpoint:
            with pytest.raises(Unavailable) as caught:
                await endpoint({**body, "model": "huge"})
            assert caught.value.kind == "missing"
        async with chat(settings) as endpoint:
            return (await endpoint(body)).raw

    served = asyncio.run(ask())
    found = read_reply(served)
    assert list(json.loads(found.content)) == ["answer"]
    assert found.tokens
    with Local(model_file("smollm2-135m", cache_folder()), threads=1) as model:
        assert asyncio.run(model(body)).raw == served  # the same bytes as without a server


def test_a_model_that_is_not_known_is_said():
    command = [sys.executable, "-m", "gatewise", "serve-local", "--model", "qwen-0.7b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "did you mean qwen-0.5b" in done.stderr
