"""URLs of a request log that aim at this machine or its network: none is connected to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from vcache_cli.errors import ReadError
from vcache_cli.media.fetch import Fetcher, is_public

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
LIMIT = 1 << 20


class Pages(BaseHTTPRequestHandler):
    """Some pages of a server that means no good."""

    def do_GET(self) -> None:
        page: Callable[[], None] = getattr(self, f"page_{self.path.strip('/').partition('?')[0]}")
        page()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Silent."""

    def answer(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def page_picture(self) -> None:
        self.answer(PICTURE)

    def page_missing(self) -> None:
        self.answer(b"", 404)

    def page_large(self) -> None:
        self.answer(PICTURE, Content_Length=str(LIMIT * 2))

    def page_endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            for _ in range(4 * LIMIT // len(PICTURE)):
                self.wfile.write(PICTURE)
        except OSError:
            return

    def page_short(self) -> None:
        self.answer(PICTURE, Content_Length=str(len(PICTURE) + 5))

    def page_packed(self) -> None:
        self.answer(PICTURE, Content_Encoding="gzip")

    def page_slow(self) -> None:
        """Never ends."""
        self.send_response(200)
        try:
            while True:
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.02)
        except OSError:
            return

    def page_to(self) -> None:
        self.answer(b"", 302, Location=self.path.partition("?")[2])

    def page_loop(self) -> None:
        self.answer(b"", 302, Location="/loop")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


def here(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


OPEN = Fetcher(resolve=here, allowed=lambda address: address == "127.0.0.1", seconds=300)
"""Takes this machine for a public one."""


def failure(fetcher: Fetcher, url: str) -> str:
    with pytest.raises(ReadError) as raised:
        fetcher(url, lambda _head: LIMIT)
    return raised.value.item_kind


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
     "100.64.0.1", "0.0.0.1", "255.255.255.255", "224.0.0.1", "192.0.2.1", "198.18.0.1",
     "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
     "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
     "2001:0:7f00:1::1", "2001:db8::1", "no address", ""],
)  # fmt: skip
def test_an_address_of_this_machine_or_network_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:4700:4700::1111"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "10.1.2.3", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]",
     "2130706433", "0x7f.1", "127.1"],
)  # fmt: skip
def test_a_url_of_this_machine_is_refused(port: int, host: str) -> None:
    assert failure(Fetcher(), f"http://{host}:{port}/picture") in {"refused_address", "http"}


@pytest.mark.parametrize("answers", [["10.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::1"], []])
def test_a_public_name_with_a_private_address_is_refused(port: int, answers: list[str]) -> None:
    fetcher = Fetcher(resolve=lambda _host, _port: answers)
    assert failure(fetcher, f"http://pictures.example:{port}/picture") == "refused_address"


def test_the_connection_goes_to_the_address_that_was_checked(port: int) -> None:
    """A name that resolves to another address the second time is asked once."""
    asked: list[str] = []

    def rebinding(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    fetcher = replace(OPEN, resolve=rebinding)
    assert fetcher(f"http://pictures.example:{port}/picture", lambda _head: LIMIT) == PICTURE
    assert asked == ["pictures.example"]


@pytest.mark.parametrize(
    "target",
    ["http://10.0.0.1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]/",
     "//192.168.0.1/a", "https://127.0.0.2/"],
)  # fmt: skip
def test_a_redirect_is_checked_as_the_url_was(port: int, target: str) -> None:
    fetcher = replace(
        OPEN,
        resolve=lambda host, _port: [host if host[0].isdigit() or ":" in host else "127.0.0.1"],
    )
    assert failure(fetcher, f"http://pictures.example:{port}/to?{target}") == "refused_address"


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://8.8.8.8/", "gopher://8.8.8.8/"])
def test_a_redirect_to_another_scheme_is_refused(port: int, target: str) -> None:
    assert failure(OPEN, f"http://pictures.example:{port}/to?{target}") == "bad_url"


def test_a_redirect_to_an_allowed_place_is_followed(port: int) -> None:
    assert OPEN(f"http://pictures.example:{port}/to?/picture", lambda _head: LIMIT) == PICTURE


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("missing", "http_status"),
        ("large", "too_large"),
        ("endless", "too_large"),
        ("short", "http"),
        ("packed", "http"),
        ("loop", "http_status"),
    ],
)
def test_what_a_server_may_do_is_bounded(port: int, page: str, kind: str) -> None:
    assert failure(OPEN, f"http://pictures.example:{port}/{page}") == kind


def test_a_server_that_drips_is_left(port: int) -> None:
    fetcher = replace(OPEN, seconds=0.5)
    assert failure(fetcher, f"http://pictures.example:{port}/slow") == "http"


def test_no_more_than_the_head_is_taken_of_what_is_no_picture(port: int) -> None:
    heads: list[bytes] = []
    assert OPEN(f"http://x.example:{port}/picture", heads.append) is None
    assert heads == [PICTURE[:64]]


@pytest.mark.parametrize(
    "url", ["http://user@8.8.8.8/", "http:///a", "http://8.8.8.8:99999/", "http://[::1/", "http://"]
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    assert failure(Fetcher(), url) in {"bad_url", "http"}


def test_a_proxy_of_the_environment_is_not_asked(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed.getsockname()[1]}")
        url = f"http://pictures.example:{port}/picture"
        assert OPEN(url, lambda _head: LIMIT) == PICTURE
