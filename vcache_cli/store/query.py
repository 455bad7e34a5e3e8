"""Which entries, in which order: filters and sorting as text, as values, and as SQL of ours."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import UsageError
from vcache_cli.items import display_path
from vcache_cli.quantity import parse_age, parse_size
from vcache_cli.store.index import open_index
from vcache_cli.store.index_values import Packed, pack_key, unpack_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from vcache_cli.store.index import Index
    from vcache_cli.store.meta import StoreRoot
    from vcache_cli.store.rows import EntryRow

__all__ = [
    "Filter",
    "Listing",
    "Sort",
    "find_entries",
    "list_entries",
    "parse_filter",
    "parse_sort",
]

_FILTER: Final = re.compile(r"\s*([a-z_]+)\s*(<=|>=|!=|<|>|=)\s*(.*?)\s*", re.DOTALL)
_TEXT_COLUMNS: Final = {"model": "model", "stage": "stage", "kind": "kind"}
_AGE_COLUMNS: Final = {"age": "created * 1000000000", "used": "used"}
_TEXT_NAMES: Final = frozenset({*_TEXT_COLUMNS, "key", "source"})
_FILTER_NAMES: Final = "age, key, kind, model, size, source, stage, tokens, used"
_SORT_COLUMNS: Final = {
    "size": "bytes",
    "used": "used",
    "created": "created",
    "key": "entries.key",
    "tokens": "ifnull(tokens, 0)",
    "model": "model",
    "source": "(SELECT min(path) FROM sources WHERE sources.key = entries.key)",
}
_MAX_INTEGER: Final = 2**63 - 1
"""What SQLite can compare with."""
_FLIPPED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition on entries."""

    name: str
    """Age, key, kind, model, size, source, stage, tokens or used, in lower case."""
    operator: str
    value: str | float
    """Bytes of a size, tokens, seconds since creation or last use; a text otherwise."""


@dataclass(frozen=True, slots=True)
class Sort:
    """An order; entries that are equal in it are in the order of their keys."""

    name: str = "key"
    """``size``, ``used``, ``created``, ``key``, ``tokens``, ``model`` or ``source``."""
    descending: bool = False
    """For ``used`` and ``created``: latest first."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Some entries of a store."""

    entries: tuple[EntryRow, ...]
    more: int
    """Entries that fit the filters beyond those listed."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Printable path of a source, by key, where a run on this machine saw one."""
    total: int = 0
    """Entries of the store, whether they fit or not."""

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.ls/1``."""
        return {
            "entries": [row.as_json(self.sources.get(row.key)) for row in self.entries],
            "more": self.more,
        }


def parse_filter(text: str) -> Filter:
    """A condition such as ``size>1MiB``, ``model=tiny``, ``age>=7d``, ``used<12h``, ``key=ab12``.

    ``key`` compares with the beginning of the key; ``age`` and ``used`` say how long ago;
    ``source`` is a glob of a path or of its end, as ``*`` goes over folders too.

    Raises:
        UsageError: no such condition, or a value of the wrong kind.

    >>> parse_filter("size > 1MiB")
    Filter(name='size', operator='>', value=1048576)
    """
    found = _FILTER.fullmatch(text)
    if found is None or found[1] not in _FILTER_NAMES.split(", "):
        raise UsageError(
            f"`{text}` is no filter",
            hint=f"write NAME, one of = != < <= > >=, and a value; names: {_FILTER_NAMES}",
        )
    name, operator, value = found[1], found[2], found[3]
    if not value:
        raise UsageError(f"filter `{text}` has no value")
    if name in _TEXT_NAMES:
        if operator not in {"=", "!="}:
            raise UsageError(f"`{name}` is a text: `=` or `!=`, not `{operator}`")
        return Filter(name, operator, display_path(value))
    return Filter(name, operator, _number(name, value))


def _number(name: str, value: str) -> float:
    if name == "size":
        return min(parse_size(value), _MAX_INTEGER)
    if name in _AGE_COLUMNS:
        return parse_age(value)
    if not re.fullmatch(r"\d{1,15}", value, re.ASCII):
        raise UsageError(f"`{value}` is not a number of tokens")
    return int(value)


def parse_sort(text: str) -> Sort:
    """An order such as ``used:desc`` or ``size``; ascending where it does not say.

    Raises:
        UsageError: no such order.

    >>> parse_sort("used:desc")
    Sort(name='used', descending=True)
    """
    name, _, direction = text.partition(":")
    if name not in _SORT_COLUMNS or direction not in {"", "asc", "desc"}:
        raise UsageError(
            f"`{text}` is no order",
            hint=f"write one of {', '.join(sorted(_SORT_COLUMNS))}, and `:asc` or `:desc`",
        )
    return Sort(name, direction == "desc")


def list_entries(
    root: StoreRoot,
    *,
    filters: Sequence[Filter] = (),
    sort: Sort | None = None,
    limit: int | None = None,
    now: float | None = None,
) -> Listing:
    """The entries that fit all filters.

    Args:
        root: the store; one that is read-only is listed as well.
        filters: none means every entry.
        sort: by key where not given.
        limit: at most so many; None means all.
        now: seconds since 1970, from which ages count.
    """
    where, parameters = where_clause(filters, time.time() if now is None else now)
    order = _order_clause(sort or Sort())
    with open_index(root) as index:
        index.refresh()
        rows = tuple(
            index.rows(f"{where} {order} LIMIT ?", [*parameters, -1 if limit is None else limit])
        )
        joined = "entries JOIN labels ON labels.id = label"
        found = index.query(f"SELECT count(*) FROM {joined} {where}", parameters, types=(int,))  # noqa: S608
        fitting = found[0][0] if found else len(rows)
        more, stored = fitting - len(rows), index.totals().entries
        return Listing(rows, more, _sources(index, rows), stored)


def where_clause(filters: Sequence[Filter], now: float) -> tuple[str, list[object]]:
    """SQL made of our own names and question marks, and the values for them."""
    conditions: list[str] = []
    parameters: list[object] = []
    for each in filters:
        condition, values = _condition(each, now)
        conditions.append(condition)
        parameters += values
    return (f"WHERE {' AND '.join(conditions)}" if conditions else ""), parameters


def _condition(each: Filter, now: float) -> tuple[str, list[object]]:
    if each.name == "key":
        return _key_condition(str(each.value), "" if each.operator == "=" else "NOT ")
    if each.name == "source":
        return _source_condition(str(each.value), "" if each.operator == "=" else "NOT ")
    if each.name in _TEXT_COLUMNS:
        operator = "IS" if each.operator == "=" else "IS NOT"
        return f"{_TEXT_COLUMNS[each.name]} {operator} ?", [each.value]
    if each.name in _AGE_COLUMNS:  # longer ago is an earlier moment
        moment_ns = int((now - float(each.value)) * 1e9)
        return f"{_AGE_COLUMNS[each.name]} {_FLIPPED[each.operator]} ?", [moment_ns]
    column = {"size": "bytes", "tokens": "tokens"}[each.name]
    return f"{column} {each.operator} ?", [each.value]


def _key_condition(prefix: str, negation: str) -> tuple[str, list[object]]:
    # Keys of 32 bytes compare with what the prefix's hexadecimal digits begin; text as text.
    text = "substr(CASE typeof(entries.key) WHEN 'blob' THEN lower(hex(entries.key))"
    return f"{negation}{text} ELSE entries.key END, 1, ?) = ?", [len(prefix), prefix]


def _source_condition(glob: str, negation: str) -> tuple[str, list[object]]:
    # Paths are bytes there: as text they compare with what the user wrote.
    text = "SELECT 1 FROM sources WHERE sources.key = entries.key AND CAST(path AS TEXT) GLOB ?"
    return f"{negation}EXISTS ({text})", [glob if glob[0] in "/*" else f"*/{glob}"]


def _order_clause(sort: Sort) -> str:
    direction = "DESC" if sort.descending else "ASC"
    return f"ORDER BY {_SORT_COLUMNS[sort.name]} {direction}, entries.key"


def _sources(index: Index, rows: Sequence[EntryRow]) -> dict[str, str]:
    paths = ((row.key, index.sources(row.key)) for row in rows)
    return {key: display_path(found[0]) for key, found in paths if found}


def find_entries(root: StoreRoot, text: str) -> Listing:
    """Entries that `text` names: a key or its beginning, a file of the store, or a source's path.

    Args:
        root: the store.
        text: where several entries have it as a source, all of them are found.

    Raises:
        UsageError: `text` begins the keys of several entries.
    """
    with open_index(root) as index:
        index.refresh()
        keys = _named(root, index, text)
        rows = tuple(row for key in keys for row in _rows_of(index, key))
        return Listing(rows, 0, _sources(index, rows))


def _rows_of(index: Index, key: str) -> list[EntryRow]:
    packed: Packed = pack_key(key)
    return list(index.rows("WHERE entries.key = ?", (packed,)))


def _named(root: StoreRoot, index: Index, text: str) -> list[str]:
    absolute = os.path.abspath(text)
    relative = os.path.relpath(absolute, os.path.abspath(root.path))
    key = root.layout.key_of(relative)
    if key is not None and _rows_of(index, key):
        return [key]
    printable = display_path(text)  # what an index can be asked
    if _rows_of(index, printable):
        return [printable]
    if keys := index.keys_of(absolute) or _keys_of_member(index, absolute):
        return keys
    condition, values = _key_condition(printable, "")
    found = [row.key for row in index.rows(f"WHERE {condition} ORDER BY entries.key", values)]
    if len(found) > 1:
        shown = ", ".join(key[:16] for key in found[:3])
        raise UsageError(
            f"`{printable}` begins {len(found)} keys: {shown} ...", hint="give more of it"
        )
    return found


def _keys_of_member(index: Index, place: str) -> list[str]:
    """Keys of the members of a container that people see as `place`, wherever they lie in it."""
    begin = os.fsencode(f"{place}#")
    after = begin[:-1] + b"$"  # the next character
    sql = "SELECT path, key FROM sources WHERE path >= ? AND path < ? ORDER BY path"
    rows = index.query(sql, (begin, after), types=(bytes, bytes | str))
    return [unpack_key(key) for path, key in rows if path[len(begin) :].isdigit()]
