"""Shards read as a whole: of many entries one look tells that they are there, and used lately."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Final, Protocol

from vcache_cli.protocols import ManyPaths
from vcache_cli.store.memos import SETTLE_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vcache_cli.store.meta import StoreRoot

__all__ = ["TOUCH_NS", "Listings", "Uses"]

TOUCH_NS: Final = 3_600 * 10**9
"""Between two touches of an entry."""

_SHARD_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LASTS_NS: Final = 60 * 10**9
"""A listing is believed that long: its entries must not come of age meanwhile."""
_ASKED_OFTEN: Final = 16
"""Looks into a shard from which on reading all of it costs less."""
_MOST_KEYS: Final = 131_072
"""Keys held at once."""


class Uses(Protocol):
    """When entries were used, as the index has it: a hint. Nothing here raises."""

    def used_within(self, shard: str, begin_ns: int, end_ns: int) -> Sequence[str]:
        """Keys of a shard's entries that were used then."""
        ...

    def mark_used(self, key: str, mtime_ns: int) -> None:
        """That this is what the entry's file says."""
        ...


@dataclass(frozen=True, slots=True)
class _Shard:
    state: tuple[int, int, int]
    """Mode, inode and mtime: nothing was made or removed in it while they stay."""
    listed_ns: int
    keys: tuple[str, ...]


class Listings:
    """Keys of entries that need neither a look of their own nor a touch; one thread.

    Args:
        root: a store of ours, with real shards.
        uses: what the index knows.
    """

    def __init__(self, root: StoreRoot, uses: Uses) -> None:
        self._base = os.fspath(root.path)
        self._layout = root.layout
        self._uses = uses
        self._asked: Counter[str] = Counter()
        self._shards: dict[str, _Shard] = {}
        self.keys: set[str] = set()
        """Of the shards listed so far; true right after `refresh`."""

    def refresh(self) -> None:
        """Give up the shards in which something changed since they were listed."""
        now_ns = time.time_ns()
        for name, shard in list(self._shards.items()):
            old = not 0 <= now_ns - shard.listed_ns < _LASTS_NS
            if old or self._state(name) != shard.state:
                self.keys.difference_update(self._shards.pop(name).keys)

    def ask(self, keys: Iterable[str]) -> None:
        """Count a look at each entry, before it is taken; list a shard where there are many."""
        self._asked.update(filter(None, map(self._shard_of, keys)))
        for shard in [each for each, times in self._asked.items() if times >= _ASKED_OFTEN]:
            del self._asked[shard]
            if shard not in self._shards and len(self.keys) < _MOST_KEYS:
                self._list(shard)

    def _shard_of(self, key: str) -> str | None:
        try:
            return self._layout.path_of(key).partition("/")[0]
        except ValueError:  # no key of this layout
            return None

    def _list(self, shard: str) -> None:
        now_ns = time.time_ns()
        try:
            folder = os.open(f"{self._base}/{shard}", _SHARD_FLAGS)
        except OSError:
            return
        try:
            state = _state_of(os.fstat(folder))
            # One that changed just now may change again and keep its mtime.
            if state[2] > now_ns - SETTLE_NS:
                return
            with os.scandir(folder) as entries:
                files = [each.name for each in entries if each.is_file(follow_symlinks=False)]
        except OSError:
            return
        finally:
            os.close(folder)
        used = self._uses.used_within(shard, now_ns - TOUCH_NS + _LASTS_NS, now_ns)
        places = {f"{shard}/{name}" for name in files}
        try:
            keys = tuple(compress(used, map(places.__contains__, self._paths_of(used))))
        except ValueError:  # an index that is not of this store: each entry is looked at
            return
        self._shards[shard] = _Shard(state, now_ns, keys)
        self.keys.update(keys)

    def _paths_of(self, keys: Sequence[str]) -> Sequence[str]:
        layout = self._layout
        if isinstance(layout, ManyPaths):
            return layout.paths_of(keys)
        return [layout.path_of(key) for key in keys]

    def _state(self, shard: str) -> tuple[int, int, int] | None:
        try:
            return _state_of(os.lstat(f"{self._base}/{shard}"))
        except OSError:
            return None


def _state_of(facts: os.stat_result) -> tuple[int, int, int]:
    return facts.st_mode, facts.st_ino, facts.st_mtime_ns
