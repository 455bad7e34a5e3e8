"""Messages between two processes of ours: pickled, framed, with descriptors beside them.

What is received is unpickled, so both ends trust each other: a worker guards against decoders
that crash, not against code that means harm.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from typing import Any, Final

__all__ = ["LostError", "receive", "send"]

_HEAD: Final = struct.Struct("<QB")
"""Bytes of the message, and how many descriptors come with it."""
_MAX_BYTES: Final = 1 << 32


class LostError(Exception):
    """The other end is gone."""


def send(channel: socket.socket, message: object, handles: tuple[int, ...] = ()) -> None:
    """Send one message.

    Raises:
        LostError: the other end is gone.
        TypeError, AttributeError, pickle.PicklingError: it cannot be pickled; nothing was sent.
    """
    data = pickle.dumps(message, protocol=5)
    head = _HEAD.pack(len(data), len(handles))
    try:
        if handles:
            socket.send_fds(channel, [head], list(handles))
            channel.sendall(data)
        else:
            channel.sendall(head + data)
    except OSError as error:
        raise LostError from error


def receive(channel: socket.socket) -> tuple[Any, tuple[int, ...]]:
    """The next message, and the descriptors that came with it: they are the caller's to close.

    Raises:
        LostError: the other end is gone.
    """
    try:
        head, handles, _, _ = socket.recv_fds(channel, _HEAD.size, 4)
        for handle in handles:
            os.set_inheritable(handle, False)  # noqa: FBT003  its only argument
        head += _exactly(channel, _HEAD.size - len(head))
        size_bytes, _ = _HEAD.unpack(head)
        if size_bytes > _MAX_BYTES:
            raise LostError(f"a message of {size_bytes} bytes")
        return pickle.loads(_exactly(channel, size_bytes)), tuple(handles)  # noqa: S301  our own
    except OSError as error:
        raise LostError from error


def _exactly(channel: socket.socket, size_bytes: int) -> bytes:
    parts = []
    while size_bytes:
        part = channel.recv(min(size_bytes, 1 << 20))
        if not part:
            raise LostError
        parts.append(part)
        size_bytes -= len(part)
    return b"".join(parts)
