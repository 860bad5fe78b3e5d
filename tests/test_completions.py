"""The loopback server, asked over real sockets."""

import asyncio
import json

import aiohttp
import pytest

from gatewise.errors import BadChoice, BadPolicy, Refused, Unavailable
from gatewise.servers.completions import chat_app, served

REPLY = {"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": "Hi \u202e"}}]}


async def echo(body):
    said = body.get("say", "")
    failures = {
        "refuse": Refused("expected another request.", 422, "no"),
        "large": Unavailable("expected at most 9 tokens, found 10.", "large"),
        "busy": Unavailable("expected an answer, found none.", "server"),
        "odd": BadPolicy("expected something else."),
    }
    if said in failures:
        raise failures[said]
    return json.dumps({**REPLY, "asked": body})


def ask(path="/v1/chat/completions", method="POST", app=None, **request):
    async def run():
        async with (
            served(app or chat_app(echo, ["tiny", "local:tiny"], largest=1000)) as address,
            aiohttp.ClientSession() as session,
            session.request(method, address.removesuffix("/v1") + path, **request) as reply,
        ):
            return reply.status, await reply.json()

    return asyncio.run(run())


def test_a_chat_request_reaches_the_callable_and_its_reply_comes_back():
    status, found = ask(json={"model": "tiny", "messages": []})
    assert status == 200
    assert found == {**REPLY, "asked": {"model": "tiny", "messages": []}}
    assert ask(json={"messages": []})[0] == 200
    assert ask(json={"model": "local:tiny"})[0] == 200


def test_the_model_is_listed_and_the_server_says_that_it_is_well():
    status, found = ask("/v1/models", "GET")
    assert (status, [one["id"] for one in found["data"]]) == (200, ["tiny"])
    assert ask("/health", "GET") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        ({"json": {"model": "huge"}}, 404, "model_not_found"),
        ({"json": {"model": ["tiny"]}}, 404, "model_not_found"),
        ({"json": []}, 400, None),
        ({"data": b"{", "headers": {"Content-Type": "application/json"}}, 400, None),
        ({"data": b'{"x": NaN}', "headers": {"Content-Type": "application/json"}}, 400, None),
        ({"data": b"[" * 900, "headers": {"Content-Type": "application/json"}}, 400, None),
        ({"data": b"\xff", "headers": {"Content-Type": "application/json"}}, 400, None),
        ({"data": b"{}"}, 415, None),
        ({"json": {"x": "y" * 2000}}, 413, None),
        ({"json": {}, "headers": {"Host": "evil.example"}}, 403, None),
        ({"json": {"say": "refuse"}}, 422, None),
        ({"json": {"say": "large"}}, 400, "context_length_exceeded"),
        ({"json": {"say": "busy"}}, 503, None),
        ({"json": {"say": "odd"}}, 400, None),
        ({"path": "/v1/nothing", "json": {}}, 404, None),
        ({"method": "GET"}, 405, None),
    ],
)
def test_what_cannot_be_answered_is_an_error_in_the_shape_of_openai(request_, status, code):
    found_status, found = ask(**request_)
    assert found_status == status
    assert set(found["error"]) == {"message", "type", "param", "code"}
    assert found["error"]["code"] == code
    assert found["error"]["type"] == ("server_error" if status >= 500 else "invalid_request_error")


def test_a_port_that_is_taken_is_said():
    async def run():
        one, other = chat_app(echo, ["tiny"]), chat_app(echo, ["tiny"])
        async with served(one) as address, served(other, int(address.split(":")[2].split("/")[0])):
            pass

    with pytest.raises(BadChoice, match="Choose another port"):
        asyncio.run(run())


def test_a_request_whose_asker_has_left_is_dropped():
    dropped = []

    async def slow(body):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            dropped.append(body)
            raise

    async def run():
        async with served(chat_app(slow, ["tiny"])) as address, aiohttp.ClientSession() as session:
            with pytest.raises(asyncio.TimeoutError):
                async with asyncio.timeout(0.2):
                    await session.post(f"{address}/chat/completions", json={"n": 1})
            for _ in range(100):
                await asyncio.sleep(0.01)
                if dropped:
                    break

    asyncio.run(run())
    assert dropped == [{"n": 1}]
