"""The sample client of vLLM: the uuid of a warmed picture is in what a server receives."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import vcache_cli as vcache
from samples import vllm_client as sample
from samples.make_tiny_qwen import make_checkpoint
from tests.e2e.command import vcache as command

ANSWER = {"choices": [{"message": {"role": "assistant", "content": "hills"}}]}


class FakeServer(HTTPServer):
    """Remembers what it was asked; answers each chat request the same."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.answer: Any = ANSWER
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Chat completions alone."""

    server: FakeServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append({"path": self.path, **body})
        data = json.dumps(self.server.answer).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name there
        pass


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@pytest.fixture(scope="module")
def warmed(tmp_path_factory: pytest.TempPathFactory, media: Path) -> Path:
    """A folder with the manifest of one picture and the root that it leads into."""
    folder = tmp_path_factory.mktemp("warmed")
    model = make_checkpoint(folder / "model", family="qwen2_5_vl")
    words = ["warm", media / "hills.jpg", "-m", model, "--target", "vllm-ec", "-s", folder / "ec"]
    words += ["--backend", "numpy", "--manifest", folder / "warm.jsonl", "--quiet"]
    assert command(*words).code == 0
    return folder


def client(server: FakeServer, warmed: Path, *more: object) -> int:
    words = ["--model", "m", "--manifest", warmed / "warm.jsonl", "--server", server.url, *more]
    return sample.main(list(map(str, words)))


def test_the_server_gets_the_uuid_under_which_the_features_lie(
    server: FakeServer, warmed: Path, media: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = [media / "hills.jpg", media / "chart.png"]
    assert client(server, warmed, "What is this?", *pictures) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("hills\n", "1 of 2 pictures were warmed\n")
    (asked,) = server.asked
    assert (asked["path"], asked["model"]) == ("/v1/chat/completions", "m")
    first, second, text = asked["messages"][0]["content"]
    assert (warmed / "ec" / first["uuid"] / "encoder_cache.safetensors").is_file()
    with vcache.open_store(warmed / "ec") as store:
        assert store.get(first["uuid"]) is not None
    assert "uuid" not in second
    assert text == {"type": "text", "text": "What is this?"}
    for part, path in zip((first, second), pictures, strict=True):
        head, _, data = part["image_url"]["url"].partition(",")
        assert head.startswith("data:image/")
        assert base64.b64decode(data) == path.read_bytes()


def test_a_picture_is_known_by_its_bytes(warmed: Path, media: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "another name.jpg"
    renamed.write_bytes((media / "hills.jpg").read_bytes())
    uuids = sample.read_manifest(warmed / "warm.jsonl")
    part = sample.picture_part(renamed, uuids)
    assert part["uuid"] == uuids[hashlib.sha256(renamed.read_bytes()).hexdigest()]


@pytest.mark.parametrize("given", [(400, {"error": "no such model"}), (200, [])], ids=str)
def test_a_server_that_does_not_answer_is_told(
    server: FakeServer,
    warmed: Path,
    media: Path,
    capsys: pytest.CaptureFixture[str],
    given: tuple[int, object],
) -> None:
    server.status, server.answer = given
    assert client(server, warmed, "What is this?", media / "hills.jpg") == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert ("no such model" in told.err) == (server.status == 400)
    assert "error: " in told.err
