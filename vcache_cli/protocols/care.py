"""Sockets of looking after a server's store: what the server itself makes of the files in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["Examiner", "ServerFinding", "ServerView", "StoredFile"]


@dataclass(frozen=True, slots=True, eq=False)
class StoredFile:
    """One regular file below a store's root, entry or not, as listing and header show it."""

    path: str
    """Below the root (`surrogateescape`), ``/`` between parts."""
    size_bytes: int
    mtime_ns: int = 0
    metadata: Mapping[str, str] | None = None
    """As its header has it; None where the header was not read, or cannot be."""
    tensors: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    """Dtype and shape by name, where the header was read."""
    error: str | None = None
    """Why the header cannot be read; None where it was, or nobody tried."""


class ServerFinding(NamedTuple):
    """Something that the server will not do well with a file. Never damage."""

    path: str
    """Below the root."""
    kind: str
    """A kind of ``vcache.verify/1``."""
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ServerView:
    """What a server makes of its store when it starts the next time."""

    findings: tuple[ServerFinding, ...] = ()
    indexed: tuple[StoredFile, ...] = ()
    """What it will know, in the order in which it will remove it."""
    unindexed: tuple[StoredFile, ...] = ()
    """Features that it will never find and never remove."""
    capacity_bytes: int | None = None
    """Its own bound on the store; None where it has none."""
    capacity_note: str = ""
    """What a person has to know of that bound."""
    evicts_next: int = 0
    """How many of `indexed`, from the front, its next write removes."""


@runtime_checkable
class Examiner(Protocol):
    """A layout that knows what its server does with files. A capability of `Layout`. No I/O."""

    def examine(
        self, files: Iterable[StoredFile], *, is_folder: Callable[[str], bool], now: float
    ) -> ServerView:
        """The server's view of `files`, which come in the order of its own listing.

        Args:
            files: every regular file below the root but vcache's own.
            is_folder: True where a path is a folder on this machine.
            now: seconds since 1970.
        """
        ...

    def describe(self, file: StoredFile) -> Mapping[str, Any]:
        """What a person wants to know of one file, in the server's words, as JSON values."""
        ...

    def keys_of(self, image_hash: str, models: Iterable[str]) -> Mapping[str, str]:
        """Keys under which the server may look an image up for one of its models, and why so.

        Empty where `image_hash` is no hash of the server's kind.
        """
        ...
