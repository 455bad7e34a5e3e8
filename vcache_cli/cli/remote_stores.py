"""What commands about stores say of one in a bucket, from its manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.cli.options import parsed
from vcache_cli.cli.scopes import conditions_of, corpus_digests, scope_of
from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vcache_cli.assemble import RemoteView
    from vcache_cli.remote import RemotePlan

__all__ = ["plan_remote", "remote_keys", "remote_listing", "remote_sums"]


def remote_keys(
    view: RemoteView,
    *,
    run: str | None,
    keys: Sequence[str] | None,
    corpus: Sequence[str] | None,
    **fields: Any,  # noqa: ANN401  as `conditions_of` takes them
) -> list[str]:
    """Keys of the entries that fit all that is given.

    Raises:
        UsageError: a value that makes no sense, a run or a key that is not there, an unreadable
            source.
    """
    from vcache_cli.remote import Selection
    from vcache_cli.remote.select import named_keys

    of_run = view.of_run(run) if run else None
    selection = Selection(
        conditions_of(fields["model"], fields["stage"], fields["filters"]),
        named_keys(view.entries, keys) if keys else None,
        corpus_digests("--for", corpus),
    )
    return [
        key
        for key, entry in view.entries.items()
        if (of_run is None or key in of_run) and selection(key, entry)
    ]


def remote_listing(
    url: str, *, filters: Sequence[str] | None, sort: str | None, limit: int | None
) -> dict[str, Any]:
    """The fields of ``vcache.ls/1``; times of use are those of the latest push.

    Raises:
        VcacheError: it cannot be listed; see `open_remote_store`.
        UsageError: a filter or an order that makes no sense.
    """
    from vcache_cli.assemble import open_remote_store
    from vcache_cli.remote import Selection
    from vcache_cli.remote.select import sorted_entries
    from vcache_cli.store.query import parse_sort

    selection = Selection(conditions_of(None, None, filters))
    order = parse_sort(sort) if sort else None
    view = open_remote_store(url)
    fitting = {key: each for key, each in view.entries.items() if selection(key, each)}
    keys = sorted_entries(fitting, order)[:limit]
    return {
        "store": view.url,
        "entries": [fitting[key].as_json(key) for key in keys],
        "more": len(fitting) - len(keys),
        "total": len(view.entries),
    }


def remote_sums(url: str, *, scan: bool) -> dict[str, Any]:
    """The fields of ``vcache.stats/1``; `scan` compares the manifests with the objects.

    Raises:
        VcacheError: it cannot be read; see `open_remote_store`.
    """
    from vcache_cli.assemble import open_remote_store
    from vcache_cli.remote.stats import remote_stats

    view = open_remote_store(url)
    found = remote_stats(view.remote, view.catalogue, view.entries, scan=scan)
    return {"store": view.url, "target": view.origin.target, **found}


def plan_remote(url: str, given: Mapping[str, Any]) -> RemotePlan:
    """What `vcache prune URL` would remove.

    Raises:
        UsageError: a scope that is empty, makes no sense, or is not one of manifests.
        VcacheError: it cannot be read; see `open_remote_store`.
    """
    from vcache_cli.assemble import open_remote_store
    from vcache_cli.quantity import parse_age
    from vcache_cli.remote import plan_remote_prune
    from vcache_cli.remote.select import named_keys

    if given["incompatible"]:
        raise UsageError("`--incompatible`: manifests name entries only", hint="leave it out")
    view = open_remote_store(url)
    keys = named_keys(view.entries, given["key"]) if given["key"] else None
    an_age = "an age such as `1d`"
    grace = parsed("--grace", given["grace"], expected=an_age, parse=parse_age)
    return plan_remote_prune(
        view.remote,
        scope_of(given, keys),
        layout=view.layout,
        catalogue=view.catalogue,
        **({} if grace is None else {"grace_seconds": grace}),
    )
