"""What oMLX's engine asks its vision store, written from its published rules alone.

Pillow, PyAV, json, struct and hashlib; nothing of vcache. A request's pictures come encoded, are
decoded and hashed as the server does it, and are looked up in the index that a start makes.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import av
from PIL import Image, ImageOps

from tests.e2e.omlx_store import Server

__all__ = [
    "Answer",
    "Engine",
    "clip_indices",
    "clip_pictures",
    "decode",
    "image_hash",
    "patch_grid",
]

MAX_SIDE = 2048
MAX_FRAMES = 16
ITEM_BYTES = {"BF16": 2, "F16": 2, "F32": 4}


def decode(data: bytes, max_side: int = MAX_SIDE) -> Image.Image:
    """A picture as the server sees it."""
    image: Image.Image
    with Image.open(BytesIO(data)) as opened:
        image = opened
        if max_side and max(opened.size) > max_side:
            scale = max_side / max(opened.size)
            width, height = (max(1, math.floor(side * scale)) for side in opened.size)
            opened.draft(None, (width, height))
            if opened.mode == "1":
                image = opened.convert("L")
            elif opened.mode not in {"L", "RGB"}:
                image = opened.convert("RGB")
            image.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
        return ImageOps.exif_transpose(image).convert("RGB")


def clip_indices(length: int, most: int = MAX_FRAMES) -> list[int]:
    """Which frames of a clip the server makes pictures of, for a model that takes no clips."""
    count = min(length, most)
    if count == 1:
        return [0]
    return [round(at * (length - 1) / (count - 1)) for at in range(count)]


def clip_pictures(data: bytes, most: int = MAX_FRAMES) -> list[Image.Image]:
    """Those frames, as large as they are: no limit and no orientation of pictures applies."""
    with av.open(BytesIO(data), "r") as clip:
        frames = [frame.to_image() for frame in clip.decode(video=0)]
    return [frames[at] for at in clip_indices(len(frames), most)]


def image_hash(images: list[Image.Image]) -> str:
    """Of all pictures of a request, in order."""
    sha256 = hashlib.sha256()
    for image in images:
        sha256.update(f"{image.size[0]}x{image.size[1]}".encode("ascii"))
        sha256.update(image.tobytes())
    return sha256.hexdigest()


def patch_grid(
    image: Image.Image, *, least: int, most: int, patch: int = 14
) -> tuple[int, int, int]:
    """Qwen's patches, merged two by two, of an image between `least` and `most` pixels."""
    (width, height), unit = image.size, 2 * patch
    high, wide = round(height / unit) * unit, round(width / unit) * unit
    if high * wide > most:
        beta = math.sqrt(height * width / most)
        high = max(unit, math.floor(height / beta / unit) * unit)
        wide = max(unit, math.floor(width / beta / unit) * unit)
    elif high * wide < least:
        beta = math.sqrt(least / (height * width))
        high, wide = (math.ceil(side * beta / unit) * unit for side in (height, width))
    return 1, high // patch, wide // patch


@dataclass(frozen=True)
class Answer:
    """How the engine went on."""

    hit: str
    """``images``: of each picture one entry; ``request``: one of all; ``none``."""
    skips_processor: bool = False
    rows: int = 0


@dataclass
class Engine:
    """A loaded model; its index is of the moment it was loaded in."""

    root: Path
    model_name: str
    least: int
    most: int
    max_side: int = MAX_SIDE
    patch: int = 14
    """Side of the model's patches, pixels."""

    def __post_init__(self) -> None:
        self.server = Server(self.root)

    def ask(self, *pictures: bytes) -> Answer:
        """A request with these pictures: does the vision tower run?"""
        return self.answer([decode(data, self.max_side) for data in pictures])

    def answer(self, images: list[Image.Image]) -> Answer:
        """The same of pictures that are decoded."""
        limits = {"least": self.least, "most": self.most, "patch": self.patch}
        grids = [patch_grid(image, **limits) for image in images]
        wanted = sum(t * h * w // 4 for t, h, w in grids)
        found = [self._features(image_hash([image])) for image in images]
        entries = [each for each in found if each is not None]
        if len(entries) == len(images):
            widths = {shape[1:] for shape, _ in entries}
            rows = sum(_tokens(shape) for shape, _ in entries)
            told = [_grid(metadata) for _, metadata in entries]
            if len(widths) == 1 and rows == wanted:
                return Answer("images", told == grids, rows)
        whole = self._features(image_hash(images))
        if whole is not None and _tokens(whole[0]) == wanted:
            return Answer("request", rows=wanted)
        return Answer("none")

    def _features(self, hashed: str) -> tuple[tuple[int, ...], dict[str, str]] | None:
        data = self.server.get(self.model_name, hashed)
        if data is None:
            return None
        (length,) = struct.unpack("<Q", data[:8])
        header: dict[str, Any] = json.loads(data[8 : 8 + length])
        metadata: dict[str, str] = header.pop("__metadata__")
        if metadata["num_tensors"] != "1" or list(header) != ["feature"]:
            return None
        spec = header["feature"]
        begin, end = spec["data_offsets"]
        if end - begin != math.prod(spec["shape"]) * ITEM_BYTES[spec["dtype"]]:
            return None
        return tuple(spec["shape"]), metadata


def _tokens(shape: tuple[int, ...]) -> int:
    """The product of all sides but the last."""
    return math.prod(shape[:-1])


def _grid(metadata: dict[str, str]) -> tuple[int, ...] | None:
    value = json.loads(metadata.get("grid_thw", "null"))
    return tuple(value) if isinstance(value, list) and len(value) == 3 else None
