"""What `prune` was asked to remove, as a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.cli.options import parsed
from vcache_cli.errors import UsageError
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vcache_cli.store import StoreRoot
    from vcache_cli.store.prune import PruneScope

__all__ = ["prune_scope"]


def prune_scope(root: StoreRoot, given: Mapping[str, Any]) -> PruneScope:
    """The scope of the parameters by name. Settings play no part: what deletes is said each time.

    Raises:
        UsageError: a value that makes no sense, a key that is not there, an unreadable source.
    """
    from vcache_cli.quantity import parse_age, parse_size
    from vcache_cli.store.prune import PruneScope

    an_age = "an age such as `7d`"
    older, unused = given["older_than"], given["unused_for"]
    a_size = "a size such as `10GiB`"
    return PruneScope(
        max_size_bytes=parsed("--max-size", given["max_size"], expected=a_size, parse=parse_size),
        older_than_seconds=parsed("--older-than", older, expected=an_age, parse=parse_age),
        unused_for_seconds=parsed("--unused-for", unused, expected=an_age, parse=parse_age),
        model=given["model"],
        stage=parsed("--stage", given["stage"], expected="`features` or `pixels`", parse=_stage),
        keys=_keys(root, given["key"]),
        sources_sha256=_digests(given["source"]),
        keep_sources_sha256=_corpus_digests(given["not_in"]),
        incompatible=given["incompatible"],
    )


def _stage(text: str) -> str:
    from vcache_cli.items import Stage

    return Stage(text).value


def _keys(root: StoreRoot, texts: Sequence[str] | None) -> frozenset[str] | None:
    from vcache_cli.store.query import find_entries

    if not texts:
        return None
    found: set[str] = set()
    for text in texts:
        rows = find_entries(root, text).entries
        if not rows:
            raise UsageError(f"`--key`: no entry `{text}` in {root.path}")
        found |= {row.key for row in rows}
    return frozenset(found)


def _corpus_digests(specs: Sequence[str] | None) -> frozenset[str] | None:
    if not specs:
        return None
    from vcache_cli.media import sources

    return _digests(item.path for item in sources(specs).items())


def _digests(paths: Iterable[str] | None) -> frozenset[str] | None:
    """SHA-256 of each file. One that cannot be read may be what is to be kept: none is left out."""
    from vcache_cli.store.inspection import digest_file

    if paths is None:
        return None
    found: set[str] = set()
    for path in paths:
        try:
            found.add(digest_file(path))
        except OSError as error:
            raise UsageError(f"{display_path(path)}: {error.strerror}") from error
    return frozenset(found) or None
