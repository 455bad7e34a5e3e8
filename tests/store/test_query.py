from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import ON_DISK
from tests.store.care import DAY, NOW, add, entry, make_store
from vcache_cli.errors import UsageError
from vcache_cli.items import Stage
from vcache_cli.store.index import open_index
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.query import (
    Filter,
    Sort,
    find_entries,
    list_entries,
    parse_filter,
    parse_sort,
)

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> StoreRoot:
    root = make_store(tmp_path_factory.mktemp("query") / "store")
    for number in range(12):
        made = entry(
            number,
            model="big" if number % 3 else "tiny",
            stage=Stage.PIXELS if number % 2 else Stage.FEATURES,
            tokens=100 * (number % 4 + 1),
            created=NOW - number * DAY,
        )
        add(root, made, used=NOW - (12 - number) * DAY)
    return root


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("size>1MiB", Filter("size", ">", 1024**2)),
        ("size<=10", Filter("size", "<=", 10)),
        ("tokens != 5", Filter("tokens", "!=", 5)),
        ("age>7d", Filter("age", ">", 7 * DAY)),
        ("used>=12h", Filter("used", ">=", DAY / 2)),
        ("model=a=b", Filter("model", "=", "a=b")),
        ("key=ab12", Filter("key", "=", "ab12")),
    ],
)
def test_a_filter_is_a_name_an_operator_and_a_value(text: str, expected: Filter) -> None:
    assert parse_filter(text) == expected


@pytest.mark.parametrize(
    "text", ["", "size", "colour=red", "size>", "size>ten", "age>7", "model>a", "tokens=x", "=a"]
)
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_filter(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("size", Sort("size")), ("used:desc", Sort("used", descending=True)), ("key:asc", Sort())],
)
def test_an_order_is_a_name_and_a_direction(text: str, expected: Sort) -> None:
    assert parse_sort(text) == expected


@pytest.mark.parametrize("text", ["", "colour", "size:up", "size:", "size:desc:"])
def test_what_is_no_order_is_refused(text: str) -> None:
    if text == "size:":
        assert parse_sort(text) == Sort("size")
        return
    with pytest.raises(UsageError):
        parse_sort(text)


@ON_DISK
@given(
    st.sampled_from(["size", "tokens", "age", "used"]),
    st.sampled_from(sorted(COMPARE)),
    st.integers(0, 13),
)
def test_a_number_filters_as_it_says(root: StoreRoot, name: str, compare: str, step: int) -> None:
    rows = list_entries(root, now=NOW).entries
    value = {"size": rows[step % 12].size_bytes, "tokens": 50 * step}.get(name, step * DAY)
    measures = {
        row.key: {
            "size": row.size_bytes,
            "tokens": row.num_tokens or 0,
            "age": NOW - (row.created_seconds or 0),
            "used": NOW - row.used_ns / 1e9,
        }[name]
        for row in rows
    }
    found = list_entries(root, filters=[Filter(name, compare, value)], now=NOW).entries
    expected = {key for key, measure in measures.items() if COMPARE[compare](measure, value)}
    assert {row.key for row in found} == expected


def test_texts_filter_by_equality_and_filters_add_up(root: StoreRoot) -> None:
    filters = [parse_filter("model=big"), parse_filter("stage!=pixels")]
    rows = list_entries(root, filters=filters).entries
    assert {(row.model, row.stage) for row in rows} == {("big", "features")}
    assert len(rows) == 4


def test_a_key_filters_by_its_beginning(root: StoreRoot) -> None:
    key = entry(0).key
    rows = list_entries(root, filters=[Filter("key", "=", key[:9])]).entries
    assert [row.key for row in rows] == [key]
    assert len(list_entries(root, filters=[Filter("key", "!=", key[:9])]).entries) == 11
    assert list_entries(root, filters=[Filter("key", "=", "%")]).entries == ()


@pytest.mark.parametrize("name", ["size", "used", "created", "key", "tokens"])
@pytest.mark.parametrize("descending", [False, True])
def test_entries_come_in_the_order_asked_for(
    root: StoreRoot,
    name: str,
    descending: bool,  # noqa: FBT001
) -> None:
    rows = list_entries(root, sort=Sort(name, descending)).entries
    field = {
        "size": "size_bytes",
        "used": "used_ns",
        "created": "created_seconds",
        "tokens": "num_tokens",
    }.get(name, name)
    values: list[int] = [getattr(row, field) for row in rows]
    assert values == sorted(values, reverse=descending)
    assert len(values) == 12


def test_a_limit_says_how_many_more_there_are(root: StoreRoot) -> None:
    listing = list_entries(root, limit=5)
    assert (len(listing.entries), listing.more) == (5, 7)
    assert list_entries(root, limit=0).more == 12
    assert listing.as_json()["more"] == 7


def test_an_entry_is_found_by_key_beginning_file_and_source(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    files = [add(root, entry(number)) for number in range(3)]
    picture = str(tmp_path / "a\udcff.jpg")
    with open_index(root, mode="w") as index:
        index.add_source(entry(1).key, picture)
    for text in (entry(1).key, entry(1).key[:12], str(files[1]), picture):
        found = find_entries(root, text)
        assert [row.key for row in found.entries] == [entry(1).key]
        assert found.as_json()["entries"][0]["source"] == str(tmp_path / "a\\xff.jpg")
    assert find_entries(root, "no such thing").entries == ()
    with pytest.raises(UsageError, match="begins 3 keys"):
        find_entries(root, "")


def test_a_size_beyond_what_the_index_holds_is_the_largest_there_is(root: StoreRoot) -> None:
    for text, count in (("size<9999999999999999999", 12), ("size>9999999999999999999TiB", 0)):
        assert len(list_entries(root, filters=[parse_filter(text)]).entries) == count
