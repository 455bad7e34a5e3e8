"""A server on loopback, and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replay.chat_server import Chat, chat_server, three_pictures


@pytest.fixture
def chat() -> Iterator[Chat]:
    """A server that gives one token."""
    with chat_server() as running:
        yield running


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of three pictures."""
    return three_pictures(tmp_path / "photos")
