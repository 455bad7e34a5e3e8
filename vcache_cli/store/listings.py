"""Shards looked at as a whole: that many entries are there, and used lately, in one look."""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Final, Protocol

from vcache_cli.protocols import ManyPaths
from vcache_cli.store.directory_state import DirectoryState
from vcache_cli.store.index_directories import Names
from vcache_cli.store.memos import SETTLE_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vcache_cli.store.index_entries import Totals
    from vcache_cli.store.meta import StoreRoot

__all__ = ["TOUCH_NS", "Listings", "Uses"]

TOUCH_NS: Final = 3_600 * 10**9
"""Between two touches of an entry."""

_SHARD_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LASTS_NS: Final = 60 * 10**9
"""A listing is believed that long: its entries must not come of age meanwhile."""
_LOOK_NS: Final = 50 * 10**6
"""Between two looks whether listed shards changed. What goes meanwhile could as well go later."""
_ASKED_OFTEN: Final = 16
"""Looks into a shard after which all of it is read."""
_SHARE_ASKED: Final = 64
"""The same, as one in so many of its entries: reading a large shard costs more."""
_MOST_KEYS: Final = 131_072
"""Keys held at once."""


class Uses(Protocol):
    """What the index knows of entries: a hint. Nothing here raises."""

    def totals(self) -> Totals:
        """Sums over all of them."""
        ...

    def used_within(self, shard: str, begin_ns: int, end_ns: int) -> Sequence[str]:
        """Keys of a shard's entries that were used then."""
        ...

    def used_otherwise(self, shard: str, begin_ns: int, end_ns: int) -> Sequence[str]:
        """Keys of its other entries."""
        ...

    def count_in(self, shard: str) -> int:
        """Number of a shard's entries."""
        ...

    def has_names(self, shard: str, state: DirectoryState) -> bool:
        """True where the files of all of these lie in a shard of that state."""
        ...

    def keep_names(self, shard: str, names: Names) -> None:
        """That they do."""
        ...

    def mark_used(self, key: str, mtime_ns: int) -> None:
        """That this is what the entry's file says."""
        ...


@dataclass(frozen=True, slots=True)
class _Shard:
    state: DirectoryState
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
        per_shard = uses.totals().entries // len(root.layout.shards or [""])
        self._often = max(_ASKED_OFTEN, per_shard // _SHARE_ASKED)
        self._looked_ns = 0
        self._asked: Counter[str] = Counter()
        self._shards: dict[str, _Shard] = {}
        self.keys: set[str] = set()
        """Of the shards listed so far; true when `refresh` last looked."""

    def refresh(self) -> None:
        """Give up the shards in which something changed since they were listed."""
        now_ns = time.time_ns()
        if 0 <= now_ns - self._looked_ns < _LOOK_NS:
            return
        self._looked_ns = now_ns
        for name, shard in list(self._shards.items()):
            old = not 0 <= now_ns - shard.listed_ns < _LASTS_NS
            if old or self._state(name) != shard.state:
                self.keys.difference_update(self._shards.pop(name).keys)

    def ask(self, keys: Iterable[str]) -> None:
        """Count a look at each entry, before it is taken; list a shard where there are many."""
        self._asked.update(filter(None, map(self._shard_of, keys)))
        for shard in [each for each, times in self._asked.items() if times >= self._often]:
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
        state = self._state(shard)
        # One that changed just now may change again and keep its mtime.
        if state is None or state.mtime_ns > now_ns - SETTLE_NS:
            return
        if self._uses.has_names(shard, state):
            keys = self._uses.used_within(shard, *_lately(now_ns))
        else:
            keys = self._read(shard, state, now_ns)
        if keys:
            self._shards[shard] = _Shard(state, now_ns, tuple(keys))
            self.keys.update(keys)

    def _read(self, shard: str, state: DirectoryState, now_ns: int) -> Sequence[str]:
        """Keys of entries that were used lately and whose files are in the shard."""
        try:
            folder = os.open(f"{self._base}/{shard}", _SHARD_FLAGS)
        except OSError:
            return ()
        try:
            if DirectoryState.of(os.fstat(folder)) != state:
                return ()
            with os.scandir(folder) as entries:
                files = [each.name for each in entries if each.is_file(follow_symlinks=False)]
        except OSError:
            return ()
        finally:
            os.close(folder)
        places = {f"{shard}/{name}" for name in files}
        lately = self._uses.used_within(shard, *_lately(now_ns))
        try:
            there = [*map(places.__contains__, self._paths_of(lately))]
            rows = self._uses.count_in(shard)
            if all(there) and (rows == len(lately) or self._are_in(places, shard, now_ns)):
                self._uses.keep_names(shard, Names(state, rows))
        except ValueError:  # an index that is not of this store: each entry is looked at
            return ()
        return [*compress(lately, there)]

    def _are_in(self, places: set[str], shard: str, now_ns: int) -> bool:
        """True where the other entries' files are there as well."""
        others = self._uses.used_otherwise(shard, *_lately(now_ns))
        return places.issuperset(self._paths_of(others))

    def _paths_of(self, keys: Sequence[str]) -> Sequence[str]:
        layout = self._layout
        if isinstance(layout, ManyPaths):
            return layout.paths_of(keys)
        return [layout.path_of(key) for key in keys]

    def _state(self, shard: str) -> DirectoryState | None:
        """None where something else lies in its place, or nothing."""
        try:
            facts = os.lstat(f"{self._base}/{shard}")
        except OSError:
            return None
        return DirectoryState.of(facts) if stat.S_ISDIR(facts.st_mode) else None


def _lately(now_ns: int) -> tuple[int, int]:
    """Since when an entry was used that needs no touch while its listing is believed."""
    return now_ns - TOUCH_NS + _LASTS_NS, now_ns
