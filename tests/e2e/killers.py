"""A decoder that some pictures kill, put in Pillow's place by a startup hook of the command.

A picture whose file ends in one of the marks below dies in its own way; any other is decoded as
ever. Workers are forked by a process that loads this too, so nothing of the command knows of it.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

__all__ = ["WAYS", "install", "killer"]

WAYS = ("segv", "abort", "exit", "loop", "spin", "eat")
_MARK = b"killer:"


def killer(path: Path, picture: Path, way: str) -> Path:
    """Write a picture at `path` that kills whoever decodes it, each other than the last."""
    path.write_bytes(picture.read_bytes() + path.name.encode() + _MARK + way.encode())
    return path


def install() -> None:
    """Decode as before, but die of what says so."""
    from vcache_cli.items import Frames
    from vcache_cli.media import PillowDecoder

    decode = PillowDecoder.decode

    def deadly(self: PillowDecoder, data: bytes) -> Frames:
        _, mark, way = data[-64:].rpartition(_MARK)
        if mark:
            die(way.decode())
        return decode(self, data)

    PillowDecoder.decode = deadly  # type: ignore[method-assign]


def die(way: str) -> None:
    """As native code does: by a signal, or never."""
    if way == "segv":
        ctypes.string_at(0)
    elif way == "abort":
        os.abort()
    elif way == "exit":
        os._exit(0)
    elif way == "loop":
        ctypes.PyDLL(None).sleep(1000)  # holds the interpreter's lock
    eaten = []
    while True:
        if way == "eat":
            eaten.append(bytearray(b"x" * (8 << 20)))
