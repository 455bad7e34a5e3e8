"""`replay` against the installed server of mlx-vlm: after it, users' first requests are hits.

The model is one whose class fills the server's own cache in memory, with a tower large enough to
show in the time of a first token.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.parity.test_mlx_vlm_serve import ask, free_port, running
from tests.parity.tiny_models import make_model
from vcache_cli.cli.app import run

pytestmark = pytest.mark.parity
pytest.importorskip("mlx_vlm")

FAMILY = "qwen3_5"
TOWER = {"depth": 6, "hidden_size": 256, "intermediate_size": 512, "num_heads": 4}
PICTURES = 12
"""Less than the 20 requests that mlx-vlm keeps."""


@dataclass
class Served:
    """A server that runs, and what it wrote down so far."""

    port: int
    calls: Path
    lookups: Path

    def counts(self) -> tuple[int, Counter[str]]:
        """Calls of the tower; lookups, hits (``h``) and misses (``m``)."""
        return self.calls.stat().st_size, Counter(self.lookups.read_text())


@contextmanager
def serving(model: Path, folder: Path) -> Iterator[Served]:
    port, told = free_port(), folder / "told"
    served = Served(port, folder / "calls", folder / "lookups")
    served.calls.touch()
    served.lookups.touch()
    command = ("tests.parity.counted_mlx_vlm", served.calls, served.lookups)
    options = ("--model", model, "--host", "127.0.0.1", "--port", port)
    with running((*command, *options), port, told):
        yield served


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "model", FAMILY, vision=TOWER)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    drawn = np.random.default_rng(5)
    paths = [
        folder / f"{number:02}.{'png' if number % 2 else 'jpeg'}" for number in range(PICTURES)
    ]
    for path in paths:
        Image.fromarray(drawn.integers(0, 256, (224, 224, 3), np.uint8)).save(path)
    return paths


def replay(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    capsys.readouterr()
    code = run(["replay", *map(str, words), "--json", "--quiet"])
    told = capsys.readouterr()
    assert code == 0, told.err + told.out
    document: dict[str, Any] = json.loads(told.out)
    return document


def test_after_a_replay_the_server_s_own_cache_hits(
    model: Path, pictures: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = (*pictures, "--model", model, "-j", "1", "--state", tmp_path / "state")
    with serving(model, tmp_path) as served:
        at = ("--server", f"http://127.0.0.1:{served.port}")
        ask(served.port, model, pictures[0])  # what is compiled or loaded at first
        calls, lookups = served.counts()
        assert (calls, lookups) == (1, {"m": 1})

        document = replay(capsys, *line[1:], *at, "--measure", PICTURES)
        after, found = served.counts()
        sent = PICTURES - 1
        assert document["items"]["sent"] == sent
        assert (after - calls, found - lookups) == (sent, {"m": sent, "h": sent})
        first = document["first_token"]["sample"]

        for each in pictures[1:]:
            ask(served.port, model, each)
        assert served.counts() == (after, found + Counter(h=sent))

        again = replay(capsys, *line, *at)
        assert (again["items"]["sent"], again["items"]["present"]) == (1, sent)
    cold, warm = (first[name]["median_seconds"] * 1000 for name in ("cold", "warm"))
    with capsys.disabled():
        print(f"\n{FAMILY}: {sent} pictures; before the replay 0 hits, {sent} calls of the tower")
        print(f"after it, {sent} users' requests: {sent} hits, 0 calls of the tower")
        print(f"first token, median: {cold:.0f} ms cold, {warm:.0f} ms warm")
    assert warm < cold


def test_a_request_of_a_log_hits_whole(
    model: Path, pictures: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [{"type": "image_url", "image_url": {"url": str(each)}} for each in pictures[:2]]
    text = [{"type": "text", "text": "which is larger"}]
    request = {"messages": [{"role": "user", "content": [*text, *parts]}]}
    log = pictures[0].parent / "requests.jsonl"
    log.write_text(json.dumps(request) + "\n")
    with serving(model, tmp_path) as served:
        at = ("--server", f"http://127.0.0.1:{served.port}", "--state", tmp_path / "state")
        document = replay(capsys, log, *at, "--model", model, "--measure", "1")
        assert document["items"]["sent"] == document["items"]["total"] == 1
        assert served.counts() == (1, {"m": 1, "h": 1})
