"""oMLX's naming rules: keys, tensors, grids, and the image hashes of models that wrap them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "IMAGE_MODES",
    "image_hash",
    "omlx_grid",
    "omlx_key",
    "omlx_tensor_names",
    "omlx_wrapped_hash",
]

IMAGE_MODES: Final[Mapping[str, tuple[int, int]]] = {"gundam": (1024, 640), "base": (1024, 1024)}
"""Unlimited-OCR's modes: base size and image size, pixels. The first is that of a request that
says nothing; only this family wraps its hashes."""


def image_hash(pictures: Iterable[NDArray[np.uint8]]) -> str:
    """The hash of a request's pictures, in order: of each its size, then its pixels.

    Args:
        pictures: (H, W, 3) uint8 each, decoded by the server's own rule.
    """
    sha256 = hashlib.sha256()
    for rgb in pictures:
        sha256.update(b"%dx%d" % (rgb.shape[1], rgb.shape[0]))
        sha256.update(rgb.tobytes() if not rgb.flags.c_contiguous else rgb.data)
    return sha256.hexdigest()


def omlx_key(model_name: str, image_hash: str) -> str:
    """The key of an image's features for a model: SHA-256 of ``<model_name>:<image_hash>``.

    Raises:
        ValueError: one of them is no Unicode text.

    >>> omlx_key("/models/qwen", "ab" * 32)[:16]
    '037b7c97c8bbb499'
    """
    return hashlib.sha256(f"{model_name}:{image_hash}".encode()).hexdigest()


def omlx_tensor_names(count: int | None) -> tuple[str, ...]:
    """Names of the tensors of a list of `count` arrays; of a single array where None.

    >>> omlx_tensor_names(None), omlx_tensor_names(2)
    (('feature',), ('feature_0', 'feature_1'))
    """
    if count is None:
        return ("feature",)
    return tuple(f"feature_{number}" for number in range(count))


def omlx_grid(metadata: Mapping[str, str]) -> tuple[int, int, int] | None:
    """``grid_thw``: the patch grid before merging; None where it is not exactly three integers."""
    try:
        value = json.loads(metadata.get("grid_thw", ""))
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and [type(side) for side in value] == [int, int, int]:
        return value[0], value[1], value[2]
    return None


def omlx_wrapped_hash(image_hash: str, mode: str) -> str:
    """The image hash that Unlimited-OCR's keys have instead of the plain one.

    Nothing leads back from it: only who knows the plain hash can tell the mode.

    Raises:
        KeyError: no such mode.

    >>> omlx_wrapped_hash("ab" * 32, "base")[:16]
    '3c3e001744fa4301'
    """
    base_size, image_size = IMAGE_MODES[mode]
    text = f"imgmode:{mode}:{base_size}:{image_size}:{image_hash}"
    return hashlib.sha256(text.encode()).hexdigest()
