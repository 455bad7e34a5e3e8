"""A thumbnail whose decoder crashes or hangs costs itself, never the report."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from vcache_cli.engines import processes
from vcache_cli.engines.launching import StartError
from vcache_cli.report.drawn_apart import drawn_apart
from vcache_cli.report.thumbnails import Thumbnail, Thumbnails, thumbnail_of

if TYPE_CHECKING:
    import pytest


def draw(content: bytes) -> Thumbnail:
    """As the real one, but for bytes that crash it."""
    if content == b"crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    return thumbnail_of(content)


def picture() -> bytes:
    file = io.BytesIO()
    Image.linear_gradient("L").save(file, "PNG")
    return file.getvalue()


def test_a_decoder_that_crashes_costs_its_own_picture(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"crash")
    (tmp_path / "good.png").write_bytes(picture())
    with drawn_apart(draw) as apart:
        made = Thumbnails(str(tmp_path), apart)
        assert made.of("bad.png") == Thumbnail("it crashed its decoder")
        assert made.of("good.png") == thumbnail_of(picture())


def test_where_no_process_starts_the_page_has_no_pictures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> object:
        raise StartError("no memory")

    monkeypatch.setattr(processes, "NurseryLauncher", refused)
    monkeypatch.setattr(processes, "LoneLauncher", refused)
    with drawn_apart() as apart:
        assert apart(picture()).reason == "no process to decode it in"
