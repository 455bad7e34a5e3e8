"""Thumbnails of files that failed: small, bounded, and never the end of a report."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vcache_cli.report import thumbnails as module
from vcache_cli.report.thumbnails import Thumbnails, thumbnail_of


def picture(form: str = "PNG", size: tuple[int, int] = (300, 200)) -> bytes:
    file = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(file, form)
    return file.getvalue()


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_a_whole_picture_becomes_a_small_one(form: str) -> None:
    found = thumbnail_of(picture(form))
    assert (found.width, found.height, found.partial, found.reason) == (160, 107, False, "")
    assert Image.open(io.BytesIO(found.jpeg)).size == (160, 107)
    assert found.uri.startswith("data:image/jpeg;base64,")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "BMP"])
def test_of_a_file_cut_short_the_first_part_is_shown(form: str) -> None:
    content = picture(form, (600, 400))
    found = thumbnail_of(content[: len(content) // 2])
    assert (found.partial, found.reason) == (True, "")


def test_a_bomb_is_not_decoded() -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    assert thumbnail_of(b"\x89PNG\r\n\x1a\n" + body).reason == "too many pixels"


@settings(max_examples=30)
@given(st.integers(0, 2_000), st.binary(min_size=1, max_size=40))
def test_a_damaged_file_gives_a_picture_or_a_reason(at: int, damage: bytes) -> None:
    content = picture("PNG")
    found = thumbnail_of(content[:at] + damage + content[at + len(damage) :])
    assert bool(found.reason) != bool(found.jpeg)


def test_what_is_no_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    (tmp_path / "folder.png").mkdir()
    made = Thumbnails(str(tmp_path))
    assert made.of("empty.png").reason == "no picture: an empty file"
    assert made.of("folder.png").reason == "no regular file"
    assert made.of("gone.png").reason == "not found here"
    assert made.of("a.tar::gone.png").reason == "inside a file"


def test_what_crashed_a_decoder_is_not_opened_again(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture())
    assert Thumbnails(str(tmp_path)).of("a.png", "crashed").reason == "not opened again: crashed"


def test_there_are_so_many_and_it_takes_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").write_bytes(picture())
    (tmp_path / "b.png").write_bytes(picture())
    ticks = iter(range(0, 1000, 11))
    slow = Thumbnails(str(tmp_path), clock=lambda: next(ticks))
    assert slow.of("a.png").jpeg
    assert slow.of("b.png").reason == "not made: there are many"
    assert slow.of("a.png").jpeg
    monkeypatch.setattr(module, "_MAX_COUNT", 1)
    few = Thumbnails(str(tmp_path))
    assert [bool(few.of(name).jpeg) for name in ("a.png", "b.png")] == [True, False]
