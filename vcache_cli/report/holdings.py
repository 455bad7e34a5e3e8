"""What a store knows of the entries of a run: tokens, sizes, and which are gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.report.fold import packed
from vcache_cli.store.index import open_index

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vcache_cli.store import StoreRoot

__all__ = ["Held", "held_now"]


@dataclass(slots=True)
class Held:
    """Of the entries that a run met and that are in the store now."""

    entries: int = 0
    gone: int = 0
    """Entries that are not there any more."""
    items_gone: int = 0
    """Items whose entries they were."""
    size_bytes: int = 0
    largest_bytes: int = 0
    counted: int = 0
    """Entries that say how many tokens they are."""
    tokens: int = 0
    least_tokens: int = 0
    most_tokens: int = 0

    def as_json(self) -> dict[str, Any]:
        """``held`` and ``tokens`` of ``vcache.report/1``."""
        value: dict[str, Any] = {
            "held": {
                "entries": self.entries,
                "gone": self.gone,
                "bytes": self.size_bytes,
                "largest": self.largest_bytes,
            }
        }
        if self.counted:
            value["tokens"] = {
                "total": self.tokens,
                "entries": self.counted,
                "least": self.least_tokens,
                "most": self.most_tokens,
            }
        return value

    def add(self, size_bytes: int, num_tokens: int | None) -> None:
        """Count one entry."""
        self.entries += 1
        self.size_bytes += size_bytes
        self.largest_bytes = max(self.largest_bytes, size_bytes)
        if num_tokens is None:
            return
        self.least_tokens = min(self.least_tokens, num_tokens) if self.counted else num_tokens
        self.most_tokens = max(self.most_tokens, num_tokens)
        self.tokens += num_tokens
        self.counted += 1


def held_now(root: StoreRoot, keys: Mapping[bytes | str, int]) -> Held:
    """What the store's index says of the entries under `keys`.

    Args:
        root: the store.
        keys: items by key; see `fold.packed`.
    """
    held, gone = Held(), set(keys)
    if keys:
        with open_index(root) as index:
            index.refresh()
            for row in index.rows():
                if (key := packed(row.key)) in keys:
                    gone.discard(key)
                    held.add(row.size_bytes, row.num_tokens)
    held.gone, held.items_gone = len(gone), sum(keys[key] for key in gone)
    return held
