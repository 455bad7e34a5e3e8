"""How many bytes a payload counts for: the sum over its leaves, whatever holds them."""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["leaf_bytes"]


class _Open:
    """A container whose members are being added up."""

    __slots__ = ("container", "members", "step", "total")

    def __init__(self, container: object, members: Iterator[tuple[str, Any]], step: str) -> None:
        self.container = container
        self.members = members
        self.step = step
        self.total = 0


def leaf_bytes(payload: object, *, name: str = "payload") -> int:
    """Bytes of the leaves of nested dicts, lists, tuples and dataclasses.

    A leaf counts for its `nbytes` where it has one, else for `sys.getsizeof`; what is reached
    twice counts twice. Containers count nothing, so both sides of a wire find the same size.

    Args:
        payload: of any depth.
        name: what messages call it.

    Raises:
        TypeError: a member has no size.
        ValueError: a member is negative in size, or contains itself.

    >>> leaf_bytes({"pixel_values": memoryview(b"12345678"), "more": [memoryview(b"12")]})
    10
    """
    members = _members(payload)
    if members is None:
        return _own_bytes(payload, name)
    walk, finished = [_Open(payload, members, name)], dict[int, tuple[object, int]]()
    entered = {id(payload)}
    while True:
        top = walk[-1]
        inner = _next_container(walk, finished)
        if inner is None:
            finished[id(top.container)] = (top.container, top.total)  # held: ids stay unique
            walk.pop()
            if not walk:
                return top.total
            walk[-1].total += top.total
        elif id(inner.container) in entered:
            raise ValueError(f"`{_path(walk)}{inner.step}` contains itself")
        else:
            entered.add(id(inner.container))
            walk.append(inner)


def _next_container(walk: list[_Open], finished: dict[int, tuple[object, int]]) -> _Open | None:
    """Add up members of the last of `walk` up to one that must be entered; None at its end."""
    top = walk[-1]
    for step, member in top.members:
        members = _members(member)
        if members is None:
            top.total += _own_bytes(member, _path(walk) + step)
        elif id(member) in finished:  # shared by many: counted each time, walked once
            top.total += finished[id(member)][1]
        else:
            return _Open(member, members, step)
    return None


def _members(value: Any) -> Iterator[tuple[str, Any]] | None:  # noqa: ANN401  any payload
    """What `value` holds, each with how it is reached; None for a leaf."""
    if isinstance(value, type) or getattr(value, "nbytes", None) is not None:
        return None
    if isinstance(value, Mapping):
        return ((f"[{key!r}]", value[key]) for key in value)
    if isinstance(value, (list, tuple)):
        return ((f"[{index}]", member) for index, member in enumerate(value))
    if dataclasses.is_dataclass(value):
        return ((f".{part.name}", getattr(value, part.name)) for part in dataclasses.fields(value))
    return None


def _own_bytes(leaf: object, name: str) -> int:
    own = None if isinstance(leaf, type) else getattr(leaf, "nbytes", None)
    try:
        size_bytes = sys.getsizeof(leaf) if own is None else operator.index(own)
    except TypeError as error:
        raise TypeError(f"`{name}` ({type(leaf).__name__}) has no size: {error}") from error
    if size_bytes < 0:
        raise ValueError(f"`{name}` ({type(leaf).__name__}) has a size of {size_bytes} bytes")
    return size_bytes


def _path(walk: list[_Open]) -> str:
    return "".join(part.step for part in walk)
