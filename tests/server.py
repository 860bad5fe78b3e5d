"""A loopback HTTP server that misbehaves on script: real sockets, one thread a connection, every request noted."""

import json
import os
import re
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"  # the client obeys the proxies it finds


@dataclass(frozen=True)
class Seen:
    """A request as it came in; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def start(self):
        """The first byte that is asked for, None for the whole."""
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        return int(found[1]) if found else None


@dataclass(frozen=True)
class Reply:
    """What to answer, and how to fail at it."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None  # what Content-Length says; -1 says nothing, the end of the connection is the end
    cut: int | None = None  # bytes of the body after which the connection is closed
    stall: int | None = None  # bytes of the body after which nothing follows
    chunked: bool = False
    delay: float = 0.0  # seconds before the first byte
    reset: bool = False  # end the connection with a reset, after whatever else was sent
    raw: bytes | None = None  # these bytes instead, none at all to hang up


def as_json(value, status=200, **more):
    headers = {"Content-Type": "application/json", **more.pop("headers", {})}
    return Reply(status, json.dumps(value).encode(), headers, **more)


def redirect(place, status=302):
    return Reply(status, headers={"Location": place})


Script = Callable[[Seen], Reply]


def hosted(content, *, tag='"one"', modified=None, cuts=(), ranges=True, chunked=False) -> Script:
    """Answer as a good file server does; the nth reply is cut after the nth number of `cuts`, where it is no None."""
    breaks = list(cuts)

    def answer(seen):
        headers = {"Accept-Ranges": "bytes"} if ranges else {}
        if tag:
            headers["ETag"] = tag
        if modified:
            headers["Last-Modified"] = modified
        strong = {known for known in (tag, modified) if known and not known.startswith("W/")}
        reply = Reply(200, content, headers, cut=breaks.pop(0) if breaks else None, chunked=chunked)
        start = seen.start
        if not ranges or start is None or seen.headers.get("if-range", next(iter(strong), "")) not in strong:
            return reply
        if start >= len(content):
            return Reply(416, headers={**headers, "Content-Range": f"bytes */{len(content)}"})
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return replace(reply, status=206, body=content[start:], headers={**headers, "Content-Range": span})

    return answer


class Server:
    """A script a path: one reply for ever, a list of replies of which the last stays, or a function of a request."""

    def __init__(self):
        self.seen: list[Seen] = []
        self._scripts: dict[str, Script] = {}
        self._over = threading.Event()
        self._listener = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._listener.daemon_threads = False
        self._listener.handle_error = lambda *_: None  # clients that leave are part of the play
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def place(self):
        return f"127.0.0.1:{self._listener.server_address[1]}"

    def url(self, path="/"):
        return f"http://{self.place}{path}"

    def on(self, path, *script):
        """Say what answers at a path, and return its address."""
        replies = list(script)

        def next_reply(seen):
            one = replies.pop(0) if len(replies) > 1 else replies[0]
            return one(seen) if callable(one) else one

        self._scripts[path] = next_reply
        return self.url(path)

    def paths(self):
        return [one.path for one in self.seen]

    def close(self):
        self._over.set()
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _handler(server):  # noqa: N805 -- the handler's own self is another
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 5
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.close_connection = True
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                seen = Seen(self.command, self.path, headers, body)
                with lock:
                    server.seen.append(seen)
                    script = server._scripts.get(self.path.partition("?")[0])
                    reply = script(seen) if script else Reply(404, b"nothing here")
                server._over.wait(reply.delay)
                with suppress(OSError):
                    if reply.raw is None:
                        self.answer(reply)
                    else:
                        self.wfile.write(reply.raw)
                if reply.reset:
                    now = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
                    self.connection.close()

            do_POST = do_GET  # noqa: N815

            def answer(self, reply):
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if reply.chunked:
                    self.send_header("Transfer-Encoding", "chunked")
                elif reply.length != -1:
                    self.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
                self.send_header("Connection", "close")
                self.end_headers()
                stops = [stop for stop in (reply.cut, reply.stall) if stop is not None]
                sent = reply.body[: min(stops)] if stops else reply.body
                with suppress(OSError):
                    if reply.chunked:
                        for start in range(0, len(sent), 1 << 16):
                            piece = sent[start : start + (1 << 16)]
                            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                        if not stops:
                            self.wfile.write(b"0\r\n\r\n")
                    else:
                        self.wfile.write(sent)
                    self.wfile.flush()
                    if reply.stall is not None:
                        server._over.wait(5)

        return Handler


def closed_port():
    """Return the number of a port at which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
