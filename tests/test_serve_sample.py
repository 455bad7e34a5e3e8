"""The sample server: cold and warm answers, bounded requests, and an end of its own."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import vcache_cli as vcache
from samples import serve_with_cache as sample
from vcache_cli.assemble import create_root


@pytest.fixture(scope="module")
def recipe() -> vcache.LoadedRecipe:
    return vcache.load_recipe(sample.TINY)


@pytest.fixture
def features(recipe: vcache.LoadedRecipe, tmp_path: Path) -> Iterator[sample.Features]:
    create_root(tmp_path / "store", target="native")
    with vcache.open_store(tmp_path / "store", mode="w") as store:
        yield sample.Features(recipe, store)


def status_of(port: int, path: str, headers: dict[str, str]) -> int:
    """The status of a request that has no body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest("POST", path)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_demonstration_shows_cold_and_warm_and_stops(
    media: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample.main([str(media / "hills.jpg"), str(media / "chart.png")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["hills.jpg", "chart.png"]
    for line in lines:
        origins = [part.split()[0] for part in line.partition(": ")[2].split(" | ")]
        assert origins == ["encoder", "store", "memory"]


def test_a_warmed_store_answers_the_first_request(
    media: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(media / "hills.jpg")
    for _ in vcache.warm([picture], store=tmp_path / "store", model=sample.TINY):
        pass
    assert sample.main([picture, "--store", str(tmp_path / "store")]) == 0
    assert capsys.readouterr().out.startswith("hills.jpg: store ")


def test_a_picture_that_cannot_be_used_is_refused_and_told(
    samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample.main([str(samples / "bad" / "truncated.jpg")]) == 3
    assert "cut short" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {"Content-Length": "1"}, 404),
        ("/features", {}, 411),
        ("/features", {"Content-Length": "-1"}, 411),
        ("/features", {"Content-Length": str(sample.MAX_BODY_BYTES + 1)}, 413),
        ("/features", {"Content-Length": "9" * 5000}, 413),
        ("/features", {"Content-Length": "0"}, 422),
    ],
)
def test_a_request_out_of_bounds_is_refused_before_it_is_read(
    features: sample.Features, path: str, headers: dict[str, str], status: int
) -> None:
    with sample.running(features) as port:
        assert status_of(port, path, headers) == status


def test_too_many_at_a_time_are_turned_away(features: sample.Features, media: Path) -> None:
    with sample.Server(features) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        for _ in range(sample.MAX_REQUESTS):
            assert server.places.acquire(blocking=False)
        assert sample.post(server.server_port, b"x")["status"] == 503
        server.places.release()
        answer = sample.post(server.server_port, (media / "hills.jpg").read_bytes())
        assert answer["status"] == 200
        server.shutdown()


def test_a_client_that_goes_away_leaves_the_server_well(
    features: sample.Features, media: Path
) -> None:
    with sample.running(features) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"POST /features HTTP/1.0\r\nContent-Length: 99\r\n\r\nshort")
            client.shutdown(socket.SHUT_WR)
            assert b"400" in client.recv(64)
        assert sample.post(port, (media / "hills.jpg").read_bytes())["status"] == 200


def test_the_same_picture_from_many_clients_is_encoded_once(
    features: sample.Features, media: Path
) -> None:
    body = (media / "chart.png").read_bytes()
    answers = []
    with sample.running(features) as port:
        clients = [
            threading.Thread(target=lambda: answers.append(sample.post(port, body)))
            for _ in range(6)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join(30)
    assert len({answer["key"] for answer in answers}) == 1
    assert [answer["from"] for answer in answers].count("encoder") == 1
