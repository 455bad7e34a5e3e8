"""Several warms and a server in one folder, some of them killed: no part of a file is ever seen."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors import SafetensorError, safe_open

from tests.e2e.command import aged, start
from tests.e2e.omlx_lookup import Engine
from tests.e2e.test_omlx_warm import LEAST, MOST, tiny_model
from tests.patience import PATIENCE_SECONDS

COUNT = 60
SHARD = re.compile("[0-9a-f]")
NAME = re.compile(r"[0-9a-f]{64}\.safetensors")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "model", "qwen2_5_vl")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder, rng = tmp_path / "pictures", np.random.default_rng(1)
    folder.mkdir()
    for number in range(COUNT):
        rgb = rng.integers(0, 256, (60 + number % 9, 90, 3), np.uint8)
        Image.fromarray(rgb).save(folder / f"{number}.png")
    return aged(folder)


def published(store: Path) -> list[Path]:
    """What a server that starts now would open."""
    return list(store.glob("?/*.safetensors"))


@contextmanager
def starting_all_the_time(store: Path) -> Iterator[list[str]]:
    """A server that opens every file there is, again and again; what it could not read."""
    odd: list[str] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.wait(0.001):
            for path in store.glob("?/*"):
                if not SHARD.fullmatch(path.parent.name) or not NAME.fullmatch(path.name):
                    odd.append(str(path))
                try:
                    with safe_open(path, "np") as file:
                        file.get_slice("feature").get_shape()
                except (OSError, SafetensorError) as error:
                    odd.append(f"{path}: {error}")

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield odd
    finally:
        stop.set()
        thread.join(10)


@pytest.mark.slow
def test_no_part_of_a_file_is_seen(tmp_path: Path, model: Path, pictures: Path) -> None:
    store = tmp_path / "vision_features"
    words = ["warm", pictures, "-m", model, "--target", "omlx", "-s", store, "--quiet"]
    with starting_all_the_time(store) as odd:
        for least in (5, 20):
            killed = start(*words)
            while len(published(store)) < least and killed.poll() is None:
                time.sleep(0.005)
            killed.kill()
            killed.communicate(timeout=PATIENCE_SECONDS)
        together = [start(*words) for _ in range(2)]
        for each in together:
            each.communicate(timeout=PATIENCE_SECONDS)
            assert each.returncode == 0
    assert odd == []
    assert len(published(store)) == COUNT
    engine = Engine(store, str(model), LEAST, MOST)
    hits = [engine.ask(path.read_bytes()).hit for path in pictures.iterdir()]
    assert hits == ["images"] * COUNT
