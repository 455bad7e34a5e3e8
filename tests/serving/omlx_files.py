"""oMLX's files, written and read by its published rules alone: json, struct and hashlib."""

from __future__ import annotations

import hashlib
import json
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["file_of", "read_file", "rules_met", "write_file"]

NAMES = {"float32": "F32", "float16": "F16", "int64": "I64", "uint8": "U8", "int8": "I8"}
SIZES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "I8": 1, "U64": 8, "BOOL": 1}


def file_of(root: Path, image_hash: str, model_name: str) -> Path:
    """Where the server looks."""
    digest = hashlib.sha256(f"{model_name}:{image_hash}".encode()).hexdigest()
    return root / digest[0] / f"{digest}.safetensors"


def write_file(
    root: Path,
    image_hash: str,
    model_name: str,
    features: np.ndarray[Any, Any] | list[np.ndarray[Any, Any]],
    **more: str,
) -> Path:
    """As the server writes: header padded to 8 bytes, data in the order of the names."""
    if isinstance(features, list):
        arrays = {f"feature_{number}": array for number, array in enumerate(features)}
    else:
        arrays = {"feature": features}
    header: dict[str, Any] = {}
    data, position = b"", 0
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        shape = {"dtype": NAMES[array.dtype.name], "shape": list(array.shape)}
        header[name] = {**shape, "data_offsets": [position, position + len(raw)]}
        position += len(raw)
        data += raw
    header["__metadata__"] = {
        "image_hash": image_hash,
        "model_name": model_name,
        "num_tensors": str(len(arrays)),
        "created_at": str(time.time()),
        **more,
    }
    body = json.dumps(header, separators=(",", ":")).encode()
    body += b" " * (-len(body) % 8)
    path = file_of(root, image_hash, model_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(body)) + body + data)
    return path


def read_file(path: Path) -> tuple[dict[str, str], dict[str, tuple[str, tuple[int, ...], bytes]]]:
    """Metadata, and (dtype, shape, bytes) by name."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    metadata = header.pop("__metadata__")
    start = 8 + length
    return metadata, {
        name: (each["dtype"], tuple(each["shape"]), raw[slice(*(start + o for o in spots))])
        for name, each in header.items()
        if (spots := each["data_offsets"])
    }


def rules_met(root: Path, path: Path) -> None:
    """Everything that the server asks of a file before it takes it."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    assert (8 + length) % 8 == 0
    metadata, tensors = read_file(path)
    assert all(isinstance(value, str) for value in metadata.values())
    assert metadata["image_hash"]
    assert path == file_of(root, metadata["image_hash"], metadata["model_name"])
    count = int(metadata["num_tensors"])
    assert set(tensors) in ({"feature"}, {f"feature_{number}" for number in range(count)})
    assert len(tensors) == count
    assert abs(float(metadata["created_at"]) - time.time()) < 3600
    if "grid_thw" in metadata:
        grid = json.loads(metadata["grid_thw"])
        assert len(grid) == 3
        assert all(type(side) is int for side in grid)
    for dtype, shape, data in tensors.values():
        assert len(data) == SIZES[dtype] * int(np.prod(shape, dtype=np.int64))
    assert sum(len(data) for _, _, data in tensors.values()) == len(raw) - 8 - length
