"""The keys that a run stored lately, so that later copies are told from what was there before."""

from __future__ import annotations

__all__ = ["RecentKeys"]


class RecentKeys:
    """A bounded set that forgets its oldest member first; one thread.

    A copy of something older than `capacity` keys is then called present, which is true as well.

    >>> recent = RecentKeys(capacity=2)
    >>> for key in ("a", "b", "c"):
    ...     recent.add(key)
    >>> "a" in recent, "c" in recent
    (False, True)
    """

    def __init__(self, *, capacity: int = 262_144) -> None:
        self._capacity = capacity
        self._keys: dict[str, None] = {}

    def add(self, key: str) -> None:
        """Remember `key` as the newest."""
        self._keys.pop(key, None)
        self._keys[key] = None
        if len(self._keys) > self._capacity:
            del self._keys[next(iter(self._keys))]

    def __contains__(self, key: str) -> bool:
        return key in self._keys
