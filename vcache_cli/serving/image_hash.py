"""The identity of the images of a request: their content, in their order, never cut."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from typing import Final

from vcache_cli.digest import digest_bytes

__all__ = [
    "combined_hash",
    "compute_image_hash",
    "compute_images_hash",
    "hash_text",
    "image_hashes",
]

_NO_FILE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


def compute_image_hash(image_path: str | os.PathLike[str]) -> str:
    """SHA-256 of the content of an existing file, else of the string itself; 64 hex.

    A URL, base64 data or any other string that names no regular file is hashed as it is spelt.

    Raises:
        OSError: a file is there and cannot be read.
        TypeError: no string or path.
    """
    path = os.fspath(image_path) if isinstance(image_path, (str, os.PathLike)) else None
    if not isinstance(path, str):
        raise TypeError(f"`image_path` is a string or a path, got {type(image_path).__name__}")
    return _file_hash(path) or hash_text(path)


def compute_images_hash(images: Sequence[str | os.PathLike[str]]) -> str:
    """One hash for several images, in their order; ``no_images`` for none.

    Raises:
        OSError, TypeError: see `compute_image_hash`.
    """
    return combined_hash(image_hashes(images)) if images else "no_images"


def image_hashes(images: Sequence[str | os.PathLike[str]]) -> list[str]:
    """`compute_image_hash` of each.

    Raises:
        OSError, TypeError: see `compute_image_hash`; a single string is no list.
    """
    if isinstance(images, (str, bytes)):
        raise TypeError("`images` is a list of strings or paths, got a single one")
    return [compute_image_hash(image) for image in images]


def combined_hash(hashes: Sequence[str]) -> str:
    """One hash for several, order kept; none of two different lists is the same."""
    return digest_bytes("\n".join(hashes).encode("ascii"))


def hash_text(text: str) -> str:
    """SHA-256 of any string, also of one that is no valid Unicode; 64 hex."""
    return digest_bytes(text.encode("utf-8", "surrogatepass"))


def _file_hash(path: str) -> str | None:
    """SHA-256 of a regular file; None where `path` names none."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except ValueError:  # NUL, or characters that no file name has
        return None
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        error.filename = path  # a failed read does not say whose
        raise
