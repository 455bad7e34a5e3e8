"""Payloads of arrays, made safe to share: read-only, and charged what they keep in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["freeze"]

_MAX_DEPTH: Final = 100
_PLAIN: Final = frozenset({bool, bytes, complex, float, int, str, type(None)})


def freeze(payload: object, *, name: str = "payload") -> int:
    """Make every array in `payload` read-only, and what it is a view of; bytes retained.

    Arrays are looked for in tuples, lists, the values of mappings, the fields of dataclasses and
    the elements of object arrays. A view is charged the whole buffer that it keeps alive, and a
    buffer is charged once. Nothing is frozen where an error is raised.

    Args:
        payload: anything; what is none of these holds no array.
        name: what errors call it.

    Raises:
        TypeError: an array of another framework, which cannot be made read-only.
        ValueError: an array over memory that others can still write, a payload that contains
            itself, or one nested more than 100 deep.

    >>> batch = np.zeros((4, 10), np.uint8)
    >>> freeze({"first": batch[0], "second": batch[1]})
    40
    >>> batch.flags.writeable
    False
    """
    walk = _Walk()
    walk.visit(name, payload)
    for member, array in walk.arrays:
        _make_read_only(member, array)
    return sum(walk.retained_bytes.values())


@dataclass(slots=True)
class _Walk:
    """What is in a payload. Changes nothing."""

    arrays: list[tuple[str, NDArray[Any]]] = field(default_factory=list)
    """Each array and each array below it, with the member that leads there."""
    retained_bytes: dict[int, int] = field(default_factory=dict)
    """Bytes of each buffer, by its identity."""
    _seen: dict[int, object] = field(default_factory=dict)
    """Held, so that no other object takes over an identity."""
    _path: list[int] = field(default_factory=list)

    def visit(self, name: str, value: object) -> None:
        """Look at `value` and at everything below it."""
        if type(value) in _PLAIN or id(value) in self._seen:
            return
        if isinstance(value, np.ndarray):
            self._add_array(name, value)
        elif _is_foreign_array(value):
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise TypeError(f"`{name}` is a {kind}, which cannot be made read-only; use numpy")
        if id(value) in self._path:
            raise ValueError(f"`{name}` contains itself")
        if len(self._path) == _MAX_DEPTH:
            raise ValueError(f"`{name}` lies more than {_MAX_DEPTH} deep")
        self._path.append(id(value))
        for child_name, child in _members(name, value):
            self.visit(child_name, child)
        self._seen[self._path.pop()] = value

    def _add_array(self, name: str, array: NDArray[Any]) -> None:
        root: object = array
        while (below := _below(root)) is not None:
            if isinstance(root, np.ndarray):
                self.arrays.append((name, root))
            root = below
        if isinstance(root, np.ndarray):
            self.arrays.append((name, root))
            self.retained_bytes[id(root)] = root.nbytes
        else:
            self.retained_bytes[id(root)] = _foreign_bytes(name, root, array)


def _members(name: str, value: object) -> Iterator[tuple[str, object]]:
    """The parts of a container, by the names under which people reach them."""
    if isinstance(value, Mapping):
        yield from ((f"{name}[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, tuple | list):
        yield from ((f"{name}[{index}]", part) for index, part in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            yield f"{name}.{each.name}", getattr(value, each.name, None)
    elif isinstance(value, np.ndarray) and value.dtype == object:
        yield from ((f"{name}.flat[{index}]", part) for index, part in enumerate(value.flat))


def _below(value: object) -> object | None:
    """What `value` is a view of; None at the root."""
    if isinstance(value, memoryview):
        below: object | None = value.obj
        return below
    # Also numpy's own go-betweens, such as that of a sliding window.
    return getattr(value, "base", None)


def _foreign_bytes(name: str, root: object, array: NDArray[Any]) -> int:
    """Bytes of memory that is no array's.

    Raises:
        ValueError: whoever holds it can still write to it.
    """
    try:
        with memoryview(root) as view:  # type: ignore[arg-type]  # that is the question
            if view.readonly:
                return view.nbytes
    except (TypeError, BufferError):  # no buffer: nobody knows more than the array
        return array.nbytes
    kind = type(root).__name__
    raise ValueError(f"`{name}` lies in the memory of a `{kind}`, which stays writable; use a copy")


def _is_foreign_array(value: object) -> bool:
    if isinstance(value, np.generic):
        return False  # a scalar, which nobody can change
    return hasattr(value, "__dlpack__")


def _make_read_only(name: str, array: NDArray[Any]) -> None:
    try:
        array.setflags(write=False)
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"`{name}` cannot be made read-only: {error}") from error
