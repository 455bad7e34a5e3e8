"""The installed server of mlx-vlm: after a warm, its first request for a picture is a hit."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.parity.fixtures import Fixtures, noise
from tests.parity.tiny_models import make_model
from vcache_cli import open_store, warm
from vcache_cli.assemble import WarmOptions
from vcache_cli.outcome import Status

pytestmark = pytest.mark.parity
pytest.importorskip("mlx_vlm")

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("qwen2_5_vl", "qwen3_5")
"""One that never asks for a cache, and one that does."""
NAMES = (
    *(f"exif-{orientation}.jpg" for orientation in (2, 3, 6, 8)),
    *("mode-RGBA.png", "mode-LA.png", "mode-P.png", "trns-rgb.png", "still.gif", "still.webp"),
    *("mode-1.png", "cmyk.jpg", "deep.png"),
    *("31x33.png", "63x64.png", "70x42.png", "777x333.png", "448x896.png", "1921x1081.png"),
)
TOLERANCE = 1e-5
"""Of features of size one: the server computes them in a batch of the same picture alone."""
START_SECONDS = 60.0


@dataclass
class Served:
    """What a server answered, and what it told at its end."""

    answers: dict[str, str]
    tower_calls: int
    told: str

    @property
    def counts(self) -> tuple[int, ...]:
        """Lookups, those found in the store, in memory, and computed."""
        line = re.search(
            r"(\d+) lookups?: (\d+) from the store, (\d+) from memory, (\d+) computed", self.told
        )
        assert line, self.told
        return tuple(int(each) for each in line.groups())


@pytest.fixture(scope="module")
def pictures(fixtures: Fixtures, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    large = tmp_path_factory.mktemp("large") / "12-megapixels.jpg"
    noise(4032, 3024).convert("RGB").save(large, quality=80)
    return {name: fixtures.files[name] for name in NAMES} | {large.name: large}


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@contextmanager
def server(model: Path, store: Path, calls: Path, told: Path) -> Iterator[int]:
    """The port of a server that runs meanwhile."""
    port = free_port()
    command = ("tests.parity.counted_server", calls, "serve-mlx-vlm")
    options = ("--store", store, "--model", model, "--", "--port", port)
    with running((*command, *options), port, told) as process:
        yield port
    assert process.returncode in {0, 130}, told.read_text()


@contextmanager
def running(words: Sequence[object], port: int, told: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A module of ours that serves on `port` meanwhile; ends as by a user's Ctrl-C."""
    with told.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, words)],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
        try:
            wait_until_up(process, port, told)
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(START_SECONDS)


def wait_until_up(process: subprocess.Popen[bytes], port: int, told: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends:
        assert process.poll() is None, told.read_text()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    pytest.fail(told.read_text())


def ask(port: int, model: Path, picture: Path) -> str:
    """The server's answer to a question about the picture."""
    encoded = base64.b64encode(picture.read_bytes()).decode("ascii")
    url = {"url": f"data:image/{picture.suffix[1:]};base64,{encoded}"}
    content = [{"type": "text", "text": "what is it"}, {"type": "image_url", "image_url": url}]
    body = {
        "model": str(model),
        "max_tokens": 6,
        "temperature": 0,
        "messages": [{"role": "user", "content": content}],
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode("utf-8"),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  our own server
        found: Any = json.load(answer)
    text: str = found["choices"][0]["message"]["content"]
    return text


def serve_all(model: Path, store: Path, pictures: dict[str, Path], folder: Path) -> Served:
    folder.mkdir()
    calls, told = folder / "calls", folder / "told"
    calls.touch()
    with server(model, store, calls, told) as port:
        answers = {name: ask(port, model, path) for name, path in pictures.items()}
    return Served(answers, calls.stat().st_size, told.read_text())


@pytest.mark.parametrize("family", FAMILIES)
def test_after_a_warm_the_server_never_calls_its_tower(
    family: str, pictures: dict[str, Path], tmp_path: Path
) -> None:
    model = make_model(tmp_path / "model", family)
    asked = len(pictures)
    assert asked == 20

    cold = serve_all(model, tmp_path / "served", pictures, tmp_path / "cold")
    assert cold.tower_calls == asked
    assert cold.counts == (asked, 0, 0, asked)

    options = WarmOptions(target="mlx-vlm")
    sources = [str(path) for path in pictures.values()]
    outcomes = list(warm(sources, store=tmp_path / "warmed", model=model, options=options))
    assert {each.status for each in outcomes} == {Status.STORED}

    warmed = serve_all(model, tmp_path / "warmed", pictures, tmp_path / "warm")
    assert warmed.tower_calls == 0
    assert warmed.counts == (asked, asked, 0, 0)
    assert warmed.answers == cold.answers
    print(f"{family}: {asked} pictures, hit rate 0% cold, 100% after the warm")
    compare_stores(tmp_path / "served", tmp_path / "warmed")


def compare_stores(served: Path, warmed: Path) -> None:
    """What the server itself wrote and what the warm wrote: the same keys, the same features."""
    keys = {path.name.partition(".")[0] for path in served.glob("??/*.safetensors")}
    assert keys == {path.name.partition(".")[0] for path in warmed.glob("??/*.safetensors")}
    theirs, ours = open_store(served), open_store(warmed)
    worst = 0.0
    for key in keys:
        left, right = theirs.get(key), ours.get(key)
        assert left
        assert right
        assert left.tensors["features"].dtype == right.tensors["features"].dtype
        apart = np.abs(left.numpy("features") - right.numpy("features")).max()
        worst = max(worst, float(apart))
    assert worst <= TOLERANCE
    print(f"features of {len(keys)} entries differ by {worst:.1e} at most")


def test_the_server_listens_on_this_machine_alone(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", "qwen2_5_vl")
    told = tmp_path / "told"
    with server(model, tmp_path / "store", tmp_path / "calls", told):
        pass
    assert "http://127.0.0.1:" in told.read_text()


def test_a_port_that_is_taken_ends_with_the_server_s_own_code(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", "qwen2_5_vl")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        command = [
            sys.executable,
            "-m",
            "vcache_cli",
            "serve-mlx-vlm",
            "--store",
            tmp_path / "store",
        ]
        options = ["--model", model, "--", "--port", held.getsockname()[1]]
        done = subprocess.run(
            [*map(str, command), *map(str, options)],
            cwd=ROOT,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
    assert done.returncode == 3, done.stderr
    assert "already in use" in done.stderr
