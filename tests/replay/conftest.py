"""A server on loopback, and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replay.chat_server import Chat, chat_server


@pytest.fixture
def chat() -> Iterator[Chat]:
    """A server that gives one token."""
    with chat_server() as running:
        yield running


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of three pictures, as far as their first bytes tell."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + name.encode())
    return folder
