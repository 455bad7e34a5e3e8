"""Pictures that a request log names by http: fetched once, from public addresses only.

A log is written by strangers: a URL in it must not reach what only this machine can reach. Every
address of a name is checked, and the connection goes to a checked address; so does each redirect.
Proxies of the environment are not used, since they would look the name up again.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import SplitResult, urljoin, urlsplit

from vcache_cli.errors import ReadError
from vcache_cli.media.read import HEAD_BYTES, check_size
from vcache_cli.version import __version__

if TYPE_CHECKING:
    from vcache_cli.items import FileStat

__all__ = ["Fetcher", "UrlPart", "is_public"]

_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CHUNK_BYTES: Final = 64 * 1024
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_TRIED: Final = "try again, or leave `--allow-http` away"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], list[str]]


@dataclass(frozen=True, slots=True)
class UrlPart:
    """A picture that a line of a log names by its URL."""

    name: str
    url: str

    @property
    def locator(self) -> str:
        """As `name`."""
        return self.name

    @property
    def size_bytes(self) -> int:
        """Not known before it is fetched."""
        return 0

    def read(
        self, path: str, stat: FileStat | None, limit_of: Callable[[bytes], int | None]
    ) -> bytes | None:
        """See `items.Part`."""
        return Fetcher()(self.url, limit_of)


def is_public(text: str) -> bool:
    """True for an address that anybody in the internet may reach.

    >>> is_public("93.184.215.14"), is_public("169.254.169.254"), is_public("::ffff:10.0.0.1")
    (True, False, False)
    """
    try:
        address: Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if not address.is_global or address.is_multicast:
        return False
    return all(is_public(str(inner)) for inner in _embedded(address))


def _embedded(address: Address) -> Iterator[ipaddress.IPv4Address]:
    """The IPv4 addresses that a gateway would take an IPv6 address for."""
    if isinstance(address, ipaddress.IPv6Address):
        found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        yield from (each for each in found if each is not None)
        if address in _NAT64:
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches one URL: https or http, few redirects, so many bytes, so many seconds."""

    resolve: Resolve = _resolve
    """Addresses of a host, as text."""
    allowed: Callable[[str], bool] = is_public
    """Whether an address may be connected to."""
    seconds: float = 30.0
    """For all of it, redirects included; a name's look-up is bounded by the system alone."""

    def __call__(self, url: str, limit_of: Callable[[bytes], int | None]) -> bytes | None:
        """What is at `url`, if its first bytes say so; see `items.Part.read`.

        Raises:
            ReadError: kind ``refused_address``, ``bad_url``, ``http_status``, ``http`` or
                ``too_large``.
        """
        try:
            with _Deadline(self.seconds) as deadline:
                return self._follow(url, limit_of, deadline)
        except (OSError, http.client.HTTPException, UnicodeError, ValueError) as error:
            late = isinstance(error, TimeoutError) or deadline.passed
            told = f"not fetched within {self.seconds:g} s" if late else _told(error)
            raise ReadError(told, kind="http", hint=_TRIED) from error

    def _follow(
        self, url: str, limit_of: Callable[[bytes], int | None], deadline: _Deadline
    ) -> bytes | None:
        for _ in range(_MAX_REDIRECTS + 1):
            with self._answer(url, deadline) as answer:
                if answer.status not in _REDIRECTS:
                    return _body(answer, limit_of)
                url = urljoin(url, answer.headers.get("Location", ""))
        raise ReadError(f"more than {_MAX_REDIRECTS} redirects", kind="http_status", hint=_TRIED)

    @contextmanager
    def _answer(self, url: str, deadline: _Deadline) -> Iterator[http.client.HTTPResponse]:
        place = urlsplit(url)
        connection = self._connection(place, deadline)
        try:
            target = (place.path or "/") + (f"?{place.query}" if place.query else "")
            connection.request("GET", target, headers=_HEADERS)
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def _connection(self, place: SplitResult, deadline: _Deadline) -> http.client.HTTPConnection:
        if place.scheme not in {"http", "https"} or not place.hostname or "@" in place.netloc:
            raise ReadError(
                "not a plain http or https URL", kind="bad_url", hint="mend the log, or leave it"
            )
        port = place.port or (443 if place.scheme == "https" else 80)
        address = self._address(place.hostname, port)
        secure = ssl.create_default_context() if place.scheme == "https" else None
        return _Checked((place.hostname, port), address, secure=secure, deadline=deadline)

    def _address(self, host: str, port: int) -> str:
        """The first address of `host`, after all were found to be allowed."""
        found = self.resolve(host, port)
        refused = [each for each in found if not self.allowed(each)]
        if refused or not found:
            told = f"{host} is {refused[0]}, no public address" if refused else f"no such {host}"
            raise ReadError(told, kind="refused_address", hint="leave it out of the log")
        return found[0]


_HEADERS: Final = {
    "User-Agent": f"vcache/{__version__}",
    "Accept": "image/*,*/*;q=0.5",
    "Accept-Encoding": "identity",
    "Connection": "close",
}


class _Deadline:
    """Ends the connection of the moment when the time is over: no drop by drop."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.passed = False
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    def watch(self, connected: socket.socket) -> None:
        """`connected` is the connection of the moment."""
        self._socket = connected
        if self.passed:
            raise TimeoutError

    def _end(self) -> None:
        self.passed = True
        if self._socket is not None:
            try:
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
            except OSError:
                return  # closed already


class _Checked(http.client.HTTPConnection):
    """A connection to an address that was checked, for the host that it was looked up of."""

    def __init__(
        self,
        place: tuple[str, int],
        address: str,
        *,
        secure: ssl.SSLContext | None,
        deadline: _Deadline,
    ) -> None:
        super().__init__(place[0], place[1], timeout=deadline.seconds)
        self._address = address
        self._secure = secure
        self._deadline = deadline
        self.default_port = 443 if secure else 80

    def connect(self) -> None:
        self.sock: Any = socket.create_connection((self._address, self.port), self.timeout)
        self._deadline.watch(self.sock)
        if self._secure:
            self.sock = self._secure.wrap_socket(self.sock, server_hostname=self.host)
            self._deadline.watch(self.sock)


def _body(
    answer: http.client.HTTPResponse, limit_of: Callable[[bytes], int | None]
) -> bytes | None:
    if answer.status != 200:
        raise ReadError(
            f"the server says {answer.status} {answer.reason}", kind="http_status", hint=_TRIED
        )
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise ReadError("packed, although plain bytes were asked for", kind="http", hint=_TRIED)
    data = answer.read(HEAD_BYTES)
    max_bytes = limit_of(data)
    if max_bytes is None:
        return None
    check_size(answer.length or 0, max_bytes)
    pieces = [data]
    while (size := sum(map(len, pieces))) <= max_bytes and (more := answer.read(_CHUNK_BYTES)):
        pieces.append(more)
    check_size(size, max_bytes)
    if answer.length:
        raise ReadError("the connection ended early", kind="http", hint=_TRIED)
    return b"".join(pieces)


def _told(error: Exception) -> str:
    return f"cannot be fetched: {getattr(error, 'strerror', None) or error or type(error).__name__}"
