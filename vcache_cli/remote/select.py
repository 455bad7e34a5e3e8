"""Which entries of a catalogue: what `ls`, `pull` and `prune` choose by. Pure."""

from __future__ import annotations

import operator
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vcache_cli.protocols import Layout
    from vcache_cli.remote.entries import RemoteEntry
    from vcache_cli.store.query import Filter, Sort

__all__ = ["Selection", "by_key", "named_keys", "sorted_entries"]

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """An entry has to fit all that is given."""

    filters: Sequence[Filter] = ()
    keys: frozenset[str] | None = None
    sources_sha256: frozenset[str] | None = None
    """Entries of these sources."""
    now: float | None = None
    """Seconds since 1970, from which ages count."""

    def __call__(self, key: str, entry: RemoteEntry) -> bool:
        """True where it fits."""
        if self.keys is not None and key not in self.keys:
            return False
        if self.sources_sha256 is not None and entry.source_sha256 not in self.sources_sha256:
            return False
        now = time.time() if self.now is None else self.now
        return all(_fits(each, key, entry, now) for each in self.filters)


def by_key(layout: Layout, entries: Iterable[RemoteEntry]) -> dict[str, RemoteEntry]:
    """Entries by their keys, in order; what lies where no entry of the target can is left out."""
    found = {}
    for entry in entries:
        key = layout.key_of(entry.file.path)
        if key is not None and layout.path_of(key) == entry.file.path:
            found[key] = entry
    return dict(sorted(found.items()))


def named_keys(found: dict[str, RemoteEntry], texts: Iterable[str]) -> frozenset[str]:
    """The keys that begin with each of `texts`.

    Raises:
        UsageError: no key begins so, or several do.
    """
    named = set()
    for text in texts:
        fitting = [key for key in found if key.startswith(text)]
        if len(fitting) != 1:
            told = f"{len(fitting)} keys begin so" if fitting else "no entry has it"
            raise UsageError(f"`--key {text}`: {told}", hint="`vcache ls URL` shows them")
        named.add(fitting[0])
    return frozenset(named)


def sorted_entries(found: dict[str, RemoteEntry], sort: Sort | None) -> list[str]:
    """The keys in an order; those that are equal in it by key."""
    keys = sorted(found)
    if sort is None or sort.name == "key":
        return keys[::-1] if sort and sort.descending else keys
    values: dict[str, Callable[[RemoteEntry], Any]] = {
        "size": lambda each: each.file.size_bytes,
        "used": lambda each: each.pushed_seconds,
        "created": lambda each: each.age_from_seconds,
        "tokens": lambda each: each.num_tokens or 0,
        "model": lambda each: each.model or "",
        "source": lambda each: each.source_sha256 or "",
    }
    value = values[sort.name]
    return sorted(keys, key=lambda key: value(found[key]), reverse=sort.descending)


def _fits(wanted: Filter, key: str, entry: RemoteEntry, now: float) -> bool:
    compare = _COMPARE[wanted.operator]
    if wanted.name == "key":
        return compare(key[: len(str(wanted.value))], wanted.value)
    if wanted.name == "source":
        raise UsageError(
            "`source`: manifests hold no paths of sources", hint="`--for SOURCE` goes by content"
        )
    value: Any = {
        "model": entry.model,
        "stage": entry.stage,
        "kind": entry.kind,
        "size": entry.file.size_bytes,
        "tokens": entry.num_tokens,
        "age": now - entry.age_from_seconds,
        "used": now - entry.pushed_seconds,
    }[wanted.name]
    if value is None:
        return wanted.operator == "!="
    return compare(value, wanted.value)
