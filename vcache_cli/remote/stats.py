"""What a remote store holds, in numbers, by its manifests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from vcache_cli.quantity import format_time
from vcache_cli.remote.names import object_name
from vcache_cli.store.stats_sums import AGES_SECONDS
from vcache_cli.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vcache_cli.remote.catalogue import Catalogue, RemoteStore
    from vcache_cli.remote.entries import RemoteEntry

__all__ = ["remote_stats"]

_NO_LIMIT = {"origin": "a bucket has none"}


def remote_stats(
    remote: RemoteStore,
    catalogue: Catalogue,
    entries: Mapping[str, RemoteEntry],
    *,
    scan: bool = False,
) -> dict[str, Any]:
    """The fields of ``vcache.stats/1``.

    Args:
        remote: the store.
        catalogue: what its manifests say.
        entries: by key.
        scan: list the objects, and compare them with the manifests.
    """
    found = list(entries.values())
    state = count(len(catalogue.manifests), "manifest")
    newest = catalogue.manifests[-1].name
    fields: dict[str, Any] = {
        "entries": len(found),
        "bytes": {"logical": _size(found), "allocated": _allocated(catalogue)},
        "by_model": _by_model(found),
        "by_kind": _by_kind(found),
        "by_age": _by_age(found, time.time()),
        "recency": "written",
        "limits": {"max_size": _NO_LIMIT, "min_free": _NO_LIMIT},
        "fs": {"type": remote.place.scheme, "network": remote.place.scheme != "file"},
        "index": {"state": state},
        "last_run": {
            "id": newest.run,
            "started": format_time(newest.pushed_seconds),
            "live": False,
            "complete": True,
        },
    }
    return fields | (_compared(remote, catalogue) if scan else {})


def _compared(remote: RemoteStore, catalogue: Catalogue) -> dict[str, Any]:
    there = remote.objects()
    needed = {each.file.sha256: each.file.size_bytes for each in catalogue.entries.values()}
    missing = [
        name
        for name, size_bytes in needed.items()
        if name not in there or there[name].size_bytes != size_bytes
    ]
    known = {each.file.sha256 for one in catalogue.manifests for each in one.entries}
    orphans = sorted(there.keys() - known)
    return {
        "index": {
            "state": count(len(catalogue.manifests), "manifest"),
            "drift_entries": len(missing),
        },
        "foreign_files": [object_name(name) for name in orphans],
        "unreadable": [
            {"path": object_name(name), "message": "missing, or of another size"}
            for name in sorted(missing)
        ],
    }


def _size(entries: Iterable[RemoteEntry]) -> int:
    return sum(each.file.size_bytes for each in entries)


def _allocated(catalogue: Catalogue) -> int:
    """Every object once, also those that only older pushes need."""
    files = (each.file for manifest in catalogue.manifests for each in manifest.entries)
    return sum({file.sha256: file.size_bytes for file in files}.values())


def _by_model(found: Iterable[RemoteEntry]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[RemoteEntry]] = {}
    for each in found:
        groups.setdefault((each.model or "", each.stage or ""), []).append(each)
    return [
        {
            "model": model or None,
            "stage": stage or None,
            "entries": len(same),
            "bytes": _size(same),
            "oldest": format_time(min(each.age_from_seconds for each in same)),
            "newest_use": format_time(max(each.pushed_seconds for each in same)),
        }
        for (model, stage), same in sorted(groups.items())
    ]


def _by_kind(found: Iterable[RemoteEntry]) -> list[dict[str, Any]]:
    groups: dict[str, list[RemoteEntry]] = {}
    for each in found:
        groups.setdefault(each.kind or "unknown", []).append(each)
    return [
        {"kind": kind, "entries": len(same), "bytes": _size(same)}
        for kind, same in sorted(groups.items())
    ]


def _by_age(found: Iterable[RemoteEntry], now: float) -> list[dict[str, Any]]:
    ages = [(now - each.age_from_seconds, each.file.size_bytes) for each in found]
    return [
        {
            "older_than_seconds": least,
            "entries": sum(age >= least for age, _ in ages),
            "bytes": sum(size for age, size in ages if age >= least),
        }
        for least in AGES_SECONDS
    ]
