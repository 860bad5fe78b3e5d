"""The only listener: loopback names alone, reading alone."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from aiohttp import web

from gatewise.errors import BadChoice
from gatewise.servers.pages import HEADERS, LOOPBACK, Page, application, serve


@contextmanager
def listening(answers):
    """A server of these answers on a loop of its own; gives its address."""
    loop, started, address = asyncio.new_event_loop(), threading.Event(), []
    runner = web.AppRunner(application(answers), access_log=None)

    async def start():
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, 0).start()
        address.append(f"http://{LOOPBACK}:{runner.addresses[0][1]}")
        started.set()

    def work():
        loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    started.wait(10)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def asked(url, method="GET", **headers):
    request = urllib.request.Request(url, method=method, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as reply:
            return reply.status, dict(reply.headers), reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def refuse(query):
    raise BadChoice("expected another question, found this one. Ask it.")


ANSWERS = {"/": lambda query: Page("<p>é</p>"), "/echo": lambda query: {"query": dict(query)}, "/no": refuse}


@pytest.fixture(scope="module")
def address():
    with listening(ANSWERS) as found:
        yield found


def test_a_page_is_served_as_html_and_plain_values_as_json(address):
    status, headers, body = asked(f"{address}/")
    assert (status, headers["Content-Type"], body.decode()) == (200, "text/html; charset=utf-8", "<p>é</p>")
    status, headers, body = asked(f"{address}/echo?a=1&b=%ED%A0%80")
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert json.loads(body)["query"]["a"] == "1"
    assert {name: headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil", "10.0.0.1"]
)
def test_a_name_that_points_here_from_elsewhere_is_refused(address, host):
    status, _, body = asked(f"{address}/", Host=host)
    assert status in (400, 403)
    assert b"<p>" not in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8000", "[::1]"])
def test_every_loopback_name_is_answered(address, host):
    assert asked(f"{address}/", Host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_written(address, method):
    assert asked(f"{address}/", method)[0] == 405


def test_a_mistake_is_said_and_an_unknown_path_is_not_found(address):
    status, _, body = asked(f"{address}/no")
    assert (status, json.loads(body)) == (400, {"error": "expected another question, found this one. Ask it."})
    assert asked(f"{address}/../etc/passwd")[0] == 404


def test_a_port_that_is_taken_is_a_mistake(address):
    port = int(address.rpartition(":")[2])
    with pytest.raises(BadChoice, match="--port"):
        serve(ANSWERS, port=port, ready=lambda address: None)
