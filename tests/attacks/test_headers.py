"""Files that crash, fool or exhaust some reader of the format: here each is a miss, and found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.store.care import entry, make_store
from vcache_cli.header import LENGTH_BYTES
from vcache_cli.store import DiskStore, StoreRoot
from vcache_cli.store.writer import pack_entry

METADATA = "__metadata__"


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """A store without entries."""
    return make_store(tmp_path / "store")


def table_and_data(root: StoreRoot) -> tuple[dict[str, Any], bytes]:
    """Header and data of a good entry with one tensor, BF16 (4, 8)."""
    raw = b"".join(bytes(part) for part in pack_entry(entry(1), root.layout).parts)
    end = LENGTH_BYTES + int.from_bytes(raw[:LENGTH_BYTES], "little")
    return json.loads(raw[LENGTH_BYTES:end]), raw[end:]


def spell(table: object, data: bytes) -> bytes:
    """A file of that header and data, padded as our own are."""
    body = table if isinstance(table, bytes) else json.dumps(table, separators=(",", ":")).encode()
    body += b" " * (-(LENGTH_BYTES + len(body)) % 64)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body + data


def finding(root: StoreRoot, data: bytes) -> str:
    """The kind of what a get finds in the place of a good entry."""
    wanted = entry(1)
    path = root.path / root.layout.path_of(wanted.key)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    store = DiskStore(root)
    assert store.get(wanted.key) is None
    assert len(store.findings) == 1, store.findings
    return store.findings[0].kind


def test_the_file_that_all_others_are_made_from_is_good(root: StoreRoot) -> None:
    """Else the tests below would pass for any reason."""
    wanted = entry(1)
    path = root.path / root.layout.path_of(wanted.key)
    path.parent.mkdir()
    path.write_bytes(spell(*table_and_data(root)))
    assert DiskStore(root).get(wanted.key) is not None


SPECS: dict[str, dict[str, Any]] = {
    "negative shape": {"shape": [-4, -8]},
    "wrapped side": {"shape": [2**32 + 4, 8]},
    "fractional side": {"shape": [4.5, 8]},
    "whole float side": {"shape": [4.0, 8]},
    "text side": {"shape": ["4", 8]},
    "true side": {"shape": [True, 32]},
    "shape too big": {"shape": [4, 9]},
    "shape too small": {"shape": [4, 7]},
    "astronomic shape": {"shape": [2**40, 2**40]},
    "side of 2^31": {"shape": [2**31]},
    "nine sides": {"shape": [4, 8] + [1] * 7},
    "no list": {"shape": 32},
    "null shape": {"shape": None},
    "fractional offset": {"data_offsets": [0.0, 64]},
    "offset beyond the end": {"data_offsets": [0, 65]},
    "reversed offsets": {"data_offsets": [64, 0]},
    "negative offset": {"data_offsets": [-64, 0]},
    "largest offset": {"data_offsets": [0, 2**64 - 1]},
    "shifted": {"data_offsets": [1, 65]},
    "one offset": {"data_offsets": [64]},
    "no offset": {"data_offsets": []},
    "three offsets": {"data_offsets": [0, 32, 64]},
    "unknown dtype": {"dtype": "F4"},
    "float64": {"dtype": "F64", "shape": [8]},
    "dtype in lower case": {"dtype": "bf16"},
    "dtype no text": {"dtype": 16},
    "unknown field": {"more": 1},
}


@pytest.mark.parametrize("change", SPECS.values(), ids=SPECS)
def test_a_tensor_that_lies_is_refused(root: StoreRoot, change: dict[str, Any]) -> None:
    table, data = table_and_data(root)
    table["features"] |= change
    assert finding(root, spell(table, data)) == "header"


@pytest.mark.parametrize("field", ["dtype", "shape", "data_offsets"])
def test_a_tensor_without_a_field_is_refused(root: StoreRoot, field: str) -> None:
    table, data = table_and_data(root)
    del table["features"][field]
    assert finding(root, spell(table, data)) == "header"


def split(table: dict[str, Any], *spans: tuple[int, int]) -> dict[str, Any]:
    """The table with the one tensor replaced by bytes at `spans`."""
    parts = {
        f"part_{number}": {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
        for number, (begin, end) in enumerate(spans)
    }
    return {METADATA: table[METADATA], **parts}


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 40), (24, 64)],
        [(0, 64), (0, 64)],
        [(0, 24), (40, 64)],
        [(0, 24), (24, 63)],
        [(1, 64)],
        [],
        [(0, 1)] * 65,
    ],
    ids=["overlap", "twice", "hole", "short", "late", "none", "many"],
)
def test_tensors_cover_the_data_exactly_once(root: StoreRoot, spans: list[tuple[int, int]]) -> None:
    """Overlap is a memory bomb, a hole hides another file."""
    table, data = table_and_data(root)
    assert finding(root, spell(split(table, *spans), data)) == "header"


@pytest.mark.parametrize(
    "name", ["", "Features", "a b", "../a", "a\x00b", "x" * 65, "\u00e9", "a\n"]
)
def test_a_name_that_could_fool_someone_is_refused(root: StoreRoot, name: str) -> None:
    table, data = table_and_data(root)
    table[name] = table.pop("features")
    assert finding(root, spell(table, data)) == "header"


@pytest.mark.parametrize(
    "value", [None, [], "text", {"a": 1}, {"a": None}, {"a": {}}, {"a": True}], ids=repr
)
def test_metadata_holds_text_only(root: StoreRoot, value: object) -> None:
    table, data = table_and_data(root)
    table[METADATA] = value
    assert finding(root, spell(table, data)) == "header"


BODIES: dict[str, bytes] = {
    "nothing": b"",
    "list": b"[]",
    "null": b"null",
    "number": b"12",
    "no JSON": b"{oops}",
    "not a number": b'{"a":NaN}',
    "trailing comma": b'{"__metadata__":{},}',
    "two objects": b"{}{}",
    "byte order mark": b"\xef\xbb\xbf{}",
    "spaces before": b"  {}",
    "NULs after": b"{}" + bytes(6),
    "newline after": b"{}\n",
    "no UTF-8": b'{"__metadata__":{"a":"\xff"}}',
    "lone surrogate": b'{"__metadata__":{"a":"\\ud800"}}',
    "deep arrays": b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    "key twice": b'{"__metadata__":{"a":"1","a":"2"}}',
    "key twice, escaped": b'{"__metadata__":{"a":"1","\\u0061":"2"}}',
    "metadata twice": b'{"__metadata__":{},"__metadata__":{}}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_header_that_is_not_plain_json_is_refused(root: StoreRoot, body: bytes) -> None:
    assert finding(root, spell(body, b"")) == "header"


def test_a_tensor_named_twice_is_refused(root: StoreRoot) -> None:
    """Readers disagree on which of the two counts."""
    table, data = table_and_data(root)
    body = json.dumps(table, separators=(",", ":"))
    spec = json.dumps(table["features"], separators=(",", ":"))
    twice = f'{body[:-1]},"features":{spec}}}'
    assert finding(root, spell(twice.encode(), data)) == "header"


@pytest.mark.parametrize(
    "length", [0, 1, 2, 63, 100_000_001, 2**31, 2**32, 2**63, 2**64 - 1], ids=str
)
def test_a_length_that_lies_is_refused(root: StoreRoot, length: int) -> None:
    data = spell(*table_and_data(root))
    assert finding(root, length.to_bytes(8, "little") + data[8:]) == "header"


@pytest.mark.parametrize("kept", [0, 4, 8, 9, 100, -64, -1], ids=str)
def test_a_cut_file_is_refused(root: StoreRoot, kept: int) -> None:
    assert finding(root, spell(*table_and_data(root))[:kept]) == "header"


def test_bytes_after_the_data_are_refused(root: StoreRoot) -> None:
    """They could be another file for another reader."""
    assert finding(root, spell(*table_and_data(root)) + b"PK") == "header"


def test_data_that_is_not_aligned_is_refused(root: StoreRoot) -> None:
    table, data = table_and_data(root)
    body = json.dumps(table, separators=(",", ":")).encode()
    body += b" " * (-(LENGTH_BYTES + len(body)) % 64 + 8)
    raw = len(body).to_bytes(LENGTH_BYTES, "little") + body + data
    assert finding(root, raw) == "header"


def test_a_large_claim_allocates_nothing(root: StoreRoot) -> None:
    """A sparse file of 3 GiB is refused by its stat alone."""
    wanted = entry(1)
    path = root.path / root.layout.path_of(wanted.key)
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(3 * 1024**3)
    store = DiskStore(root)
    assert store.get(wanted.key) is None
    assert store.findings[0].kind == "size"


FIELDS: dict[str, tuple[dict[str, str | None], str]] = {
    "no checksum": ({"vcache.xxh3_128": None}, "checksum"),
    "short checksum": ({"vcache.xxh3_128": "0" * 31}, "checksum"),
    "other checksum": ({"vcache.xxh3_128": "0" * 32}, "checksum"),
    "no format": ({"vcache.format": None}, "checksum"),
}


@pytest.mark.parametrize(("change", "kind"), FIELDS.values(), ids=FIELDS)
def test_metadata_that_was_changed_fails_the_checksum(
    root: StoreRoot, change: dict[str, str | None], kind: str
) -> None:
    table, data = table_and_data(root)
    changed = {**table[METADATA], **change}
    table[METADATA] = {name: text for name, text in changed.items() if text is not None}
    assert finding(root, spell(table, data)) == kind


@pytest.mark.parametrize(
    "key", ["", "a", "../" * 21 + "x", "A" * 64, "0" * 63, "0" * 65, "g" * 64, "0" * 63 + "\n",
            "0" * 63 + "\x00", "/etc/passwd", "\uff10" * 64, " 0" * 32]
)  # fmt: skip
def test_a_key_never_leaves_the_root(root: StoreRoot, key: str) -> None:
    store = DiskStore(root)
    assert store.get(key) is None
    assert not store.contains(key)
    store.touch(key)
    assert [found.kind for found in store.findings] == ["key"]
