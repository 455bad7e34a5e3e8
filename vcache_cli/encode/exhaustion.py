"""Backends say in their own ways that memory ran out; here it becomes MemoryError."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

__all__ = ["as_memory_error"]

_SIGNS: Final = ("out of memory", "alloc", "not enough memory")
"""In what MLX and torch say, in small letters, when they cannot have more memory."""


@contextmanager
def as_memory_error() -> Iterator[None]:
    """Let a backend's refusal to allocate pass as what it is.

    Raises:
        MemoryError: in place of a RuntimeError that tells of memory.
    """
    try:
        yield
    except RuntimeError as error:
        if any(sign in str(error).lower() for sign in _SIGNS):
            raise MemoryError(str(error)) from error
        raise
