"""A service between the command and the S3 server: it counts, refuses, and asks for patience."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from tests.patience import PATIENCE_SECONDS

__all__ = ["Hold", "Proxy", "proxied"]

Fault = Callable[[str, str, int], int | None]
"""Method, path with query, and how often they were asked for before: a status, or None."""

_OWN = frozenset({"transfer-encoding", "connection", "date", "server"})
_SIZE = "content-length"
_CODES = {403: "AccessDenied", 404: "NoSuchKey", 500: "InternalError", 503: "SlowDown"}


class Proxy:
    """What was asked for, and what is answered instead of the server."""

    def __init__(self, server: str) -> None:
        self.server = urlsplit(server).netloc
        self.url = ""
        self.fault: Fault = lambda _method, _path, _before: None
        self.asked: Counter[tuple[str, str]] = Counter()
        self.lock = threading.Lock()

    def status_of(self, method: str, path: str) -> int | None:
        """Of a request that is answered here; counts it."""
        with self.lock:
            before = self.asked[method, path]
            self.asked[method, path] += 1
        return self.fault(method, path, before)

    def count(self, method: str, part: str) -> int:
        """Requests of that method whose path has `part`."""
        return sum(n for (how, path), n in self.asked.items() if how == method and part in path)


class Hold:
    """Answers some requests for objects, and the others once it is let go, slowly.

    Args:
        proxy: where it answers.
        method: of these requests.
        after: so many.
    """

    def __init__(self, proxy: Proxy, method: str, *, after: int) -> None:
        self._method, self._after = method, after
        self._free, self._numbers = threading.Event(), count()
        proxy.fault = self

    def __call__(self, method: str, path: str, _before: int) -> None:
        held = method == self._method and "/objects/" in path
        if held and next(self._numbers) >= self._after:
            self._free.wait(PATIENCE_SECONDS)
            time.sleep(0.05)

    def let_go(self) -> None:
        """Answer all of them."""
        self._free.set()


class _Handler(BaseHTTPRequestHandler):
    """One connection; `proxy` is set by a subclass."""

    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401  as the base
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = self.proxy.status_of(self.command, self.path)
        if status is None:
            self._forward(body)
            return
        told = f"<Error><Code>{_CODES[status]}</Code><Message>no</Message></Error>".encode()
        self._answer(status, {"Content-Type": "application/xml"}, told)

    def _forward(self, body: bytes) -> None:
        connection = http.client.HTTPConnection(self.proxy.server, timeout=PATIENCE_SECONDS)
        headers = {name: each for name, each in self.headers.items() if name != "Expect"}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        kept = {name: each for name, each in answer.getheaders() if name.lower() not in _OWN}
        self._answer(answer.status, kept, data)
        connection.close()

    def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
        size = str(len(data))
        if self.command == "HEAD":
            size = next((each for name, each in headers.items() if name.lower() == _SIZE), "0")
            data = b""
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() != _SIZE:
                self.send_header(name, value)
        self.send_header("Content-Length", size)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815  as the base


@contextmanager
def proxied(server: str) -> Iterator[Proxy]:
    """A proxy of the server, on a port of its own."""
    proxy = Proxy(server)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as service:
        proxy.url = f"http://127.0.0.1:{service.server_address[1]}"
        threading.Thread(target=service.serve_forever, daemon=True).start()
        yield proxy
        service.shutdown()
