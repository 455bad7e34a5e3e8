"""Files that no decoder accepts, and checkpoints that no encoder can be built from."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

__all__ = ["PICTURES", "broken_models"]

BOMB_SIDE_PX = 20_000
HEIC = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic" + bytes(64)


def _cut(path: Path, good: Path) -> None:
    data = good.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _html(path: Path, good: Path) -> None:
    path.write_text("<!DOCTYPE html>\n<title>404</title>\n", "utf-8")


def _empty(path: Path, good: Path) -> None:
    path.touch()


def _missing(path: Path, good: Path) -> None:
    assert not path.exists()


def _bomb(path: Path, good: Path) -> None:
    """A PNG of 400 million pixels in 50 KB."""
    packer = zlib.compressobj(9)
    row = bytes(1 + BOMB_SIDE_PX // 8)
    data = b"".join(packer.compress(row) for _ in range(BOMB_SIDE_PX)) + packer.flush()
    header = struct.pack(">IIBBBBB", BOMB_SIDE_PX, BOMB_SIDE_PX, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks))


def _chunk(name: bytes, data: bytes) -> bytes:
    check = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)


def _pipe(path: Path, good: Path) -> None:
    os.mkfifo(path)


def _heic(path: Path, good: Path) -> None:
    path.write_bytes(HEIC)


def _noise(path: Path, good: Path) -> None:
    path.write_bytes(b"\xff\xd8\xff\xe0" + np.random.default_rng(1).bytes(500))


def _zeros(path: Path, good: Path) -> None:
    path.write_bytes(bytes(4096))


def _circle(path: Path, good: Path) -> None:
    path.symlink_to(path.name)


def _below_a_file(path: Path, good: Path) -> None:
    path.parent.rmdir()
    path.parent.touch()


def _animation_cut_in_its_header(path: Path, good: Path) -> None:
    path.write_bytes(b"GIF89a\x10\x00")


Maker = Callable[[Path, Path], None]

PICTURES: dict[str, tuple[str, Maker, str, str]] = {
    "a truncated JPEG": ("cut.jpg", _cut, "decode", "truncated"),
    "HTML named .jpg": ("page.jpg", _html, "digest", "unrecognised"),
    "an empty file": ("empty.png", _empty, "digest", "unrecognised"),
    "a missing file": ("gone.png", _missing, "digest", "not_found"),
    "a decompression bomb": ("bomb.png", _bomb, "decode", "bomb"),
    "a pipe": ("pipe.jpg", _pipe, "digest", "not_a_file"),
    # The plug-in that the tests install opens such files, and this one is a header alone.
    "HEIC named .jpg": ("phone.jpg", _heic, "decode", "corrupt"),
    "noise after a JPEG's first bytes": ("noise.jpg", _noise, "decode", "truncated"),
    "nothing but zeros": ("zeros.webp", _zeros, "digest", "unrecognised"),
    "a link that leads to itself": ("loop.jpg", _circle, "digest", "not_found"),
    "a file below a file": ("file/a.jpg", _below_a_file, "digest", "not_found"),
    "a GIF cut in its header": ("cut.gif", _animation_cut_in_its_header, "decode", "corrupt"),
}
"""What is wrong: name, how to make it, the stage and the kind that are reported."""


def _edit_config(model: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = model / "config.json"
    config = json.loads(path.read_text("utf-8"))
    change(config)
    path.write_text(json.dumps(config), "utf-8")


def _edit_weights(model: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = model / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def _first_bias(tensors: dict[str, Any]) -> str:
    return min(name for name in tensors if "vision" in name and name.endswith("bias"))


def _text_only(model: Path) -> None:
    _edit_config(model, lambda config: config.pop("vision_config"))


def _without_tensor(model: Path) -> None:
    _edit_weights(model, lambda tensors: tensors.pop(_first_bias(tensors)))


def _misshapen_tensor(model: Path) -> None:
    def stretch(tensors: dict[str, Any]) -> None:
        name = _first_bias(tensors)
        tensors[name] = np.zeros(len(tensors[name]) + 1, np.float32)

    _edit_weights(model, stretch)


def _unknown_family(model: Path) -> None:
    def rename(config: dict[str, Any]) -> None:
        config["model_type"] = config["vision_config"]["model_type"] = "kaleidoscope"

    _edit_config(model, rename)


def _no_json(model: Path) -> None:
    (model / "config.json").write_text("{", "utf-8")


def _no_config(model: Path) -> None:
    (model / "config.json").unlink()


def _no_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()


def _cut_weights(model: Path) -> None:
    path = model / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _no_preprocessor(model: Path) -> None:
    (model / "preprocessor_config.json").unlink()


MODELS: dict[str, tuple[Callable[[Path], None], str]] = {
    "no folder": (shutil.rmtree, "expected"),
    "a config without a vision part": (_text_only, "vision"),
    "a missing tensor": (_without_tensor, "bias"),
    "a misshapen tensor": (_misshapen_tensor, "[33]"),
    "an unknown family": (_unknown_family, "kaleidoscope"),
    "a config that is no JSON": (_no_json, "config.json"),
    "no config": (_no_config, "config.json"),
    "no weights": (_no_weights, "safetensors"),
    "weights cut short": (_cut_weights, "model.safetensors"),
    "no preprocessor settings": (_no_preprocessor, "preprocessor_config.json"),
}
"""What is wrong: how to make it of a good one, and a part of what is said about it."""


def broken_models(name: str, *, good: Path, place: Path) -> Path:
    """A copy of the checkpoint `good` at `place` that has this wrong with it."""
    model = Path(shutil.copytree(good, place))
    MODELS[name][0](model)
    return model
