"""A small server of chat completions on loopback, which behaves as a test asks it to."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["Chat", "Handler", "chat_server", "refuse", "say_token", "three_pictures"]

STREAM = (
    {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"delta": {"content": "A"}, "finish_reason": None}]},
    {"choices": [{"delta": {}, "finish_reason": "length"}]},
)


@dataclass
class Chat:
    """What a server was asked, and what it is to do next."""

    port: int = 0
    next: deque[Callable[[Handler], None]] = field(default_factory=deque)
    """Answers to give, one for each request, before all others get a token."""
    always: Callable[[Handler], None] | None = None
    """Answers what `next` does not."""
    bodies: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    most_at_once: int = 0
    at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Of the server."""
        return f"http://127.0.0.1:{self.port}"

    def urls(self) -> list[list[str]]:
        """Of each request, its data URIs."""
        return [
            [part[part["type"]]["url"] for part in body["messages"][0]["content"][1:]]
            for body in self.bodies
        ]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    chat: Chat
    under_way: bool = False

    def do_POST(self) -> None:
        """Note the request, and answer it."""
        chat = self.chat
        with chat.lock:
            self.under_way = True
            chat.at_once += 1
            chat.most_at_once = max(chat.most_at_once, chat.at_once)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with chat.lock:
            chat.bodies.append(body)
            chat.headers.append(dict(self.headers))
            chat.paths.append(self.path)
            answer = chat.next.popleft() if chat.next else chat.always or say_token
        try:
            answer(self)
        finally:
            self.ended()

    def ended(self) -> None:
        """The request is under way no more; said before the client can know its answer."""
        with self.chat.lock:
            self.chat.at_once -= self.under_way
            self.under_way = False

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def send(self, status: int, text: str, **headers: str) -> None:
        """Answer with `text`."""
        data = text.encode("utf-8")
        self.ended()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True


def say_token(handler: Handler) -> None:
    """One token, as a stream."""
    lines = [f"data: {json.dumps(event)}\n\n" for event in STREAM]
    handler.send(200, "".join([*lines, "data: [DONE]\n\n"]), Content_Type="text/event-stream")


def refuse(status: int, message: str = "no", **headers: str) -> Callable[[Handler], None]:
    """Answers with an error in the form that OpenAI's API has."""

    def answer(handler: Handler) -> None:
        handler.send(status, json.dumps({"error": {"message": message}}), **headers)

    return answer


def three_pictures(folder: Path) -> Path:
    """`folder`, with files that are pictures as far as their first bytes tell."""
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + name.encode())
    return folder


class Server(ThreadingHTTPServer):
    """Says nothing of clients that left."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def chat_server() -> Iterator[Chat]:
    """A server that runs meanwhile."""
    chat = Chat()
    handler = type("Bound", (Handler,), {"chat": chat})
    server = Server(("127.0.0.1", 0), handler)
    chat.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
