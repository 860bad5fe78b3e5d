import asyncio

import pytest

from gatewise.recordings.chats import chat
from gatewise.recordings.endpoints import Settings
from gatewise.recordings.retries import Patience
from server import Server, as_json

QUICK = Patience(attempts=3, first_wait=0.01, longest_wait=2.0, connect=2.0, silence=0.2)
ANSWER = {"choices": [{"message": {"content": '{"answer": "x", "confidence": 80}'}, "finish_reason": "stop"}]}


@pytest.fixture
def server():
    with Server() as one:
        yield one


def ask(server, *bodies, key="", **settings):
    async def scene():
        async with chat(Settings("m", server.url("/v1"), **settings), key=key, patience=QUICK) as endpoint:
            return [await endpoint(body) for body in bodies]

    return asyncio.run(scene())


def test_an_answer_comes_back_word_for_word_with_its_clock(server):
    server.on("/v1/chat/completions", as_json(ANSWER))
    (reply,) = ask(server, {"model": "m"})
    assert reply.raw == as_json(ANSWER).body.decode()
    assert 0 < reply.latency < 1
