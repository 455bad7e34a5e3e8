"""One exchange with the server. No redirect is followed, no setting of the environment heard."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from vcache_cli.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vcache_cli.replay.address import Address

__all__ = ["Exchange", "Reply", "Wire"]

_MOST_BYTES: Final = 16 * 1024**2
"""Of an answer of one token."""
_MOST_ERROR_BYTES: Final = 64 * 1024
_LINE_BYTES: Final = 1024**2


class Reply(NamedTuple):
    """What came of one exchange."""

    status: int
    """Of HTTP; 0 where there was none."""
    trouble: str = ""
    """``unreachable``, ``untrusted``, ``timeout``, ``broken`` or ``no_answer``; empty for none."""
    message: str = ""
    """Of the server, or of the system."""
    retry_after: str = ""
    """As the server spelled it."""
    location: str = ""
    """Where the server would have us go."""
    first_token_seconds: float | None = None
    """Since the request began to be sent."""


class Exchange(Protocol):
    """Sends a request, and takes the answer. Called from several threads at once."""

    def __call__(self, pieces: Sequence[bytes]) -> Reply:
        """The answer to a request whose body is `pieces`."""
        ...

    def abort(self) -> None:
        """End at once what is under way; it ends as ``broken``."""
        ...


class Wire:
    """Exchanges by HTTP, each over a connection of its own.

    Args:
        address: of the server.
        timeout_seconds: for one exchange.
    """

    def __init__(self, address: Address, *, timeout_seconds: float) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._secure = ssl.create_default_context() if address.scheme == "https" else None
        self._open: set[http.client.HTTPConnection] = set()
        self._headers = {
            "User-Agent": f"vcache/{__version__}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        if address.key:
            self._headers["Authorization"] = f"Bearer {address.key}"

    def __call__(self, pieces: Sequence[bytes]) -> Reply:
        """See `Exchange`."""
        with closing(self._connection()) as connection, self._watched(connection):
            try:
                connection.connect()
            except ssl.SSLCertVerificationError as error:
                return Reply(0, "untrusted", error.verify_message)
            except (OSError, http.client.HTTPException, UnicodeError) as error:
                return Reply(0, "unreachable", _told(error))
            try:
                return self._hidden(self._exchange(connection, pieces))
            except TimeoutError:
                told = f"no answer within {self._timeout_seconds:g} s"
                return Reply(0, "timeout", told)
            except (OSError, http.client.HTTPException, ValueError) as error:
                return Reply(0, "broken", f"the connection broke: {_told(error)}")

    def abort(self) -> None:
        """See `Exchange`."""
        for connection in list(self._open):
            if connection.sock is not None:
                with suppress(OSError):  # it is closed already
                    connection.sock.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _watched(self, connection: http.client.HTTPConnection) -> Iterator[None]:
        self._open.add(connection)
        try:
            yield
        finally:
            self._open.discard(connection)

    def _connection(self) -> http.client.HTTPConnection:
        address = self._address
        host, port = address.proxy or (address.host, address.port)
        if self._secure is None:
            return http.client.HTTPConnection(host, port, timeout=self._timeout_seconds)
        made = http.client.HTTPSConnection(
            host, port, timeout=self._timeout_seconds, context=self._secure
        )
        if address.proxy:
            made.set_tunnel(address.host, address.port)
        return made

    def _hidden(self, reply: Reply) -> Reply:
        """The reply without our key: some servers repeat the one that they refuse."""
        if not (key := self._address.key):
            return reply
        message, location = (each.replace(key, "***") for each in (reply.message, reply.location))
        return reply._replace(message=message, location=location)

    def _exchange(self, connection: http.client.HTTPConnection, pieces: Sequence[bytes]) -> Reply:
        started = time.monotonic()
        headers = {**self._headers, "Content-Length": str(sum(map(len, pieces)))}
        plain_proxy = self._address.proxy and self._secure is None
        target = self._address.url if plain_proxy else self._address.path
        if plain_proxy:
            headers["Host"] = self._address.url.split("/")[2]
        try:
            connection.request("POST", target, body=iter(pieces), headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            if connection.sock is None:
                raise  # else it may have answered before it had heard all: too large, no key
        with connection.getresponse() as answer:
            if answer.status != 200:
                return _refusal(answer)
            return _token(answer, started, started + self._timeout_seconds)


def _refusal(answer: http.client.HTTPResponse) -> Reply:
    text = answer.read(_MOST_ERROR_BYTES).decode("utf-8", "replace")
    return Reply(
        answer.status,
        message=_error_text(text) or answer.reason,
        retry_after=answer.headers.get("Retry-After", ""),
        location=answer.headers.get("Location", ""),
    )


def _token(answer: http.client.HTTPResponse, started: float, ends: float) -> Reply:
    """The answer to its end, and when its first token came."""
    if "event-stream" not in answer.headers.get("Content-Type", ""):
        event = _json(answer.read(_MOST_BYTES).decode("utf-8", "replace"))
        return _judged([event], [time.monotonic() - started])
    events: list[Any] = []
    times: list[float] = []
    for text in _events(answer, ends):
        if text == "[DONE]":
            return _judged(events, times)
        events.append(_json(text))
        times.append(time.monotonic() - started)
    reply = _judged(events, times)
    return Reply(0, "broken", "the stream ended early") if reply.trouble else reply


def _events(answer: http.client.HTTPResponse, ends: float) -> Iterator[str]:
    size = 0
    while line := answer.readline(_LINE_BYTES):
        size += len(line)
        if time.monotonic() > ends:
            raise TimeoutError
        if size > _MOST_BYTES:
            raise http.client.HTTPException("more than one token")
        name, _, value = line.decode("utf-8", "replace").strip().partition(":")
        if name == "data":
            yield value.strip()


def _judged(events: Sequence[Any], times: Sequence[float]) -> Reply:
    """What the events of an answer say: an error, a token, or nothing of either."""
    for event in events:
        if isinstance(event, dict) and event.get("error"):
            return Reply(200, "refused", _error_text(json.dumps(event)))
    choices = [bool(isinstance(each, dict) and each.get("choices")) for each in events]
    if not any(choices):
        return Reply(200, "no_answer", "what came is no chat completion")
    tokens = [index for index, event in enumerate(events) if choices[index] and _has_token(event)]
    first = tokens[0] if tokens else len(events) - 1
    return Reply(200, first_token_seconds=times[first])


def _has_token(event: dict[str, Any]) -> bool:
    """True for one that brings text, or says that there is none; some begin with the role alone."""
    try:
        choice = event["choices"][0]
        said = choice.get("delta") or choice.get("message") or {}
        return bool(choice.get("finish_reason")) or any(
            value for name, value in said.items() if name != "role"
        )
    except (AttributeError, KeyError, IndexError, TypeError):
        return False


def _json(text: str) -> Any:  # noqa: ANN401  whatever JSON can be
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _error_text(text: str) -> str:
    """What an answer says is wrong, in the forms that servers have; one line, not long."""
    found = _json(text)
    if isinstance(found, dict):
        told = found.get("error") or found.get("detail") or found.get("message") or ""
        text = str(told.get("message", told) if isinstance(told, dict) else told)
    elif text.lstrip().startswith("<"):
        text = ""  # a page for people
    return " ".join(text.split())[:200]


def _told(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no connection in time"
    if isinstance(error, socket.gaierror):
        return "its name is not known"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
