"""JSON files of a model folder: objects, of bounded size."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

__all__ = ["open_now", "read_object"]

MAX_JSON_BYTES: Final = 64 * 1024**2
"""A weight index of 100,000 tensors takes about 10 MB."""


def open_now(path: str, flags: int) -> int:
    """An opener that never waits for the other end of a pipe that lies where a file should."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def read_object(path: Path) -> dict[str, Any] | None:
    """The object in `path`; None where there is no such file.

    Raises:
        ModelError: not readable, too large, not JSON, or not an object.
    """
    try:
        with open(path, "rb", opener=open_now) as file:
            raw = file.read(MAX_JSON_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) > MAX_JSON_BYTES:
        raise ModelError(f"{path}: expected JSON of at most {MAX_JSON_BYTES} bytes, found more")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path}: expected JSON, found {_shown(raw)}: {error}",
            hint="download the file again; it may be cut short or a Git LFS pointer",
        ) from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def _shown(raw: bytes) -> str:
    return repr(raw[:32].decode("utf-8", "replace")) if raw else "an empty file"
