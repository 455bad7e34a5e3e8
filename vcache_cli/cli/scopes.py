"""Which entries `prune` was asked to remove, and `export` to write."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vcache_cli.buckets import is_url
from vcache_cli.cli.options import parsed
from vcache_cli.errors import UsageError
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vcache_cli.items import MediaItem
    from vcache_cli.store import StoreRoot
    from vcache_cli.store.prune import PruneScope
    from vcache_cli.store.query import Filter

    Remembered = Callable[[MediaItem], tuple[str, bool] | None]

__all__ = ["chosen_keys", "conditions_of", "corpus_digests", "prune_scope", "scope_of"]

_MAX_MEMBER_BYTES = 256 * 1024**2
"""Of an archive: what `warm` reads of one by default."""


def prune_scope(root: StoreRoot, given: Mapping[str, Any]) -> PruneScope:
    """The scope of the parameters by name. Settings play no part: what deletes is said each time.

    Raises:
        UsageError: a value that makes no sense, a key that is not there, an unreadable source.
    """
    return scope_of(given, _keys(root, given["key"]), root)


def scope_of(
    given: Mapping[str, Any], keys: frozenset[str] | None, root: StoreRoot | None = None
) -> PruneScope:
    """The scope of the parameters by name, with the keys that are meant; see `prune_scope`.

    Raises:
        UsageError: a value that makes no sense, an unreadable source.
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
        keys=keys,
        sources_sha256=_pictures(given["source"]),
        keep_sources_sha256=corpus_digests("--not-in", given["not_in"], root),
        incompatible=given["incompatible"],
    )


def chosen_keys(
    root: StoreRoot,
    *,
    model: str | None,
    stage: str | None,
    keys: Sequence[str] | None,
    filters: Sequence[str] | None,
    corpus: Sequence[str] | None = None,
) -> frozenset[str] | None:
    """Keys of the entries that fit all that is given; None where nothing is: all of them.

    Raises:
        UsageError: a value that makes no sense, a key that is not there, an unreadable source.
    """
    from vcache_cli.store.query import list_entries

    conditions = conditions_of(model, stage, filters)
    named = _keys(root, keys)
    sources = corpus_digests("--for", corpus, root)
    if not conditions and sources is None:
        return named
    rows = list_entries(root, filters=conditions).entries
    fitting = frozenset(row.key for row in rows if sources is None or row.source_sha256 in sources)
    return fitting if named is None else fitting & named


def conditions_of(
    model: str | None, stage: str | None, filters: Sequence[str] | None
) -> list[Filter]:
    """What `--model`, `--stage` and `--filter` ask for.

    Raises:
        UsageError: a value that makes no sense.
    """
    from vcache_cli.store.query import Filter, parse_filter

    conditions = [parse_filter(text) for text in filters or ()]
    if model is not None:
        conditions.append(Filter("model", "=", display_path(model)))
    if stage is not None:
        expected = "`features` or `pixels`"
        value = parsed("--stage", stage, expected=expected, parse=_stage)
        conditions.append(Filter("stage", "=", value))
    return conditions


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


def _pictures(paths: Sequence[str] | None) -> frozenset[str] | None:
    """SHA-256 of each file of `--source`; None where it was not given."""
    return frozenset(_named("--source", path) for path in paths) if paths else None


def _named(option: str, path: str) -> str:
    from vcache_cli.items import MediaItem

    return _content(option, MediaItem(path))[0] if is_url(path) else _digest(option, path)


def corpus_digests(
    option: str, specs: Sequence[str] | None, root: StoreRoot | None = None
) -> frozenset[str] | None:
    """SHA-256 of each file of the corpus of `option`; None where it was not given.

    What cannot be read may be what is to be kept, and a corpus without a picture is a mistake:
    both are refused, because everything else would go, or be missing.

    Args:
        option: that names the corpus.
        specs: its value.
        root: a store that was warmed from it: its index may know objects of buckets.
    """
    if not specs:
        return None
    from vcache_cli.digest import digest_json
    from vcache_cli.items import Group
    from vcache_cli.media import LogRules, sources

    found: set[str] = set()
    has_picture = False
    with _memory(root, specs) as remembered:
        for item in sources(specs, rules=LogRules(groups="also")).items():
            told = [remembered(each) or _content(option, each) for each in item.files]
            digests = [digest for digest, _ in told]
            found.update(digests)
            if isinstance(item, Group):
                found.add(digest_json(digests))
            has_picture = has_picture or any(is_picture for _, is_picture in told)
    if not has_picture:
        named = ", ".join(f"`{display_path(spec)}`" for spec in specs)
        raise UsageError(f"`{option}`: no picture in {named}; nothing was {_verb(option)}")
    return frozenset(found)


@contextmanager
def _memory(root: StoreRoot | None, specs: Sequence[str]) -> Iterator[Remembered]:
    """As `_content`, of objects that did not change since a run met them; None of all others."""
    if root is None or not any(is_url(spec) for spec in specs):
        yield lambda _item: None
        return
    from vcache_cli.items import Kind
    from vcache_cli.store.index import open_index

    with open_index(root) as index:

        def remembered(item: MediaItem) -> tuple[str, bool] | None:
            known = index.unchanged(item.absolute_path, item.stat) if item.stat else None
            if known is None or not known.source_sha256 or not is_url(item.path):
                return None
            return known.source_sha256, known.kind is Kind.IMAGE

        yield remembered


def _verb(option: str) -> str:
    return "exported" if option == "--for" else "removed"


def _digest(option: str, path: str) -> str:
    from vcache_cli.store.inspection import digest_file

    reason: str | None = "not a file that can be read"
    try:
        if stat.S_ISREG(os.stat(path).st_mode):  # to open a pipe would wait for its other end
            return digest_file(path)
    except OSError as error:
        reason = error.strerror
    raise UsageError(f"`{option}`: {display_path(path)}: {reason}; nothing was {_verb(option)}")


def _content(option: str, item: MediaItem) -> tuple[str, bool]:
    """The digest of an item of the corpus of `option`, and whether it is a picture.

    Raises:
        UsageError: it cannot be had.
    """
    if not item.part and not item.trouble and not is_url(item.path):
        return _digest(option, item.path), _is_picture(item.path)
    from vcache_cli.digest import digest_bytes
    from vcache_cli.errors import ItemError
    from vcache_cli.items import Kind
    from vcache_cli.media import read_item
    from vcache_cli.media.sniff import sniff

    reason = item.trouble.message if item.trouble and item.trouble.warns else None
    try:
        data = b"" if reason else read_item(item, max_bytes=_MAX_MEMBER_BYTES)
    except ItemError as error:
        reason = error.message
    if reason:
        raise UsageError(f"`{option}`: {item.source}: {reason}; nothing was {_verb(option)}")
    return digest_bytes(data), sniff(data[:64]) is Kind.IMAGE


def _is_picture(path: str) -> bool:
    from vcache_cli.items import Kind
    from vcache_cli.media.read import HEAD_BYTES
    from vcache_cli.media.sniff import sniff

    with open(path, "rb") as file:
        return sniff(file.read(HEAD_BYTES)) is Kind.IMAGE
