"""Which names are entries, as a layout says it."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Naming", "NoEntries", "entry_key"]


class Naming(Protocol):
    """The part of a layout that says which names are entries."""

    @property
    def shards(self) -> tuple[str, ...] | None:
        """Names of the directories that hold entries; None where any may."""
        ...

    def path_of(self, key: str) -> str:
        """Path of the entry below the root."""
        ...

    def key_of(self, path: str) -> str | None:
        """The key whose entry lies at `path`; None for a foreign file."""
        ...


class NoEntries:
    """Naming of places where no entry can be."""

    shards = ()

    def path_of(self, key: str) -> str:
        """The name itself."""
        return key

    def key_of(self, path: str) -> str | None:
        """None."""
        return None


def entry_key(relative: str, naming: Naming) -> str | None:
    """The key of the entry that belongs at `relative`; only its one canonical place counts."""
    key = naming.key_of(relative)
    if key is None or naming.path_of(key) != relative:
        return None
    return key if key.isascii() or _is_unicode(key) else None


def _is_unicode(text: str) -> bool:
    """False for names with undecodable bytes, which no index and no JSON can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
