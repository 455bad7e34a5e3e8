"""What is no store, or one that we do not understand, is named and left alone."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from tests.store.care import make_store
from vcache_cli.errors import FormatTooNewError, NotAStoreError
from vcache_cli.store import StoreMeta, create_meta, read_meta


def make(path: Path) -> StoreMeta:
    """A native store."""
    return create_meta(path, target="native")


GOOD = {
    "format": 1,
    "store_id": "0" * 32,
    "target": "native",
    "target_options": {},
    "shared": "private",
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"format":"1"}',
        '{"format":true}',
        json.dumps(GOOD | {"format": 0}),
        json.dumps(GOOD | {"target": 1}),
        json.dumps(GOOD | {"target_options": []}),
        json.dumps(GOOD | {"shared": "public"}),
        json.dumps({key: value for key, value in GOOD.items() if key != "store_id"}),
        "[" * 10_000,
        " " * 70_000,
        "\ud800",
    ],
)
def test_a_malformed_description_is_no_store_and_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / ".vcache").mkdir()
    file = tmp_path / ".vcache/store.json"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(NotAStoreError, match=r"expected|should be|unknown"):
        read_meta(tmp_path)
    with pytest.raises(NotAStoreError):
        make(tmp_path)
    assert file.read_text(encoding="utf-8", errors="surrogatepass") == text


def test_a_store_of_a_newer_format_is_neither_read_nor_written(tmp_path: Path) -> None:
    (tmp_path / ".vcache").mkdir()
    (tmp_path / ".vcache/store.json").write_text('{"format":2,"unknown":"future"}')
    for action in (read_meta, make):
        with pytest.raises(FormatTooNewError, match="format 2") as caught:
            action(tmp_path)
        assert caught.value.exit_code == 12


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nothing", "no such folder"),
        ("empty", "without"),
        ("file", "not a dir"),
        ("link", "cannot"),
    ],
)
def test_what_is_no_store_is_named(tmp_path: Path, kind: str, message: str) -> None:
    path = tmp_path / "s"
    if kind == "file":
        path.write_text("x")
    elif kind != "nothing":
        path.mkdir()
    if kind == "link":
        (path / ".vcache").mkdir()
        (path / ".vcache/store.json").symlink_to("/etc/hostname")
    with pytest.raises(NotAStoreError, match=message) as caught:
        read_meta(path)
    assert caught.value.exit_code == 10
    assert caught.value.hint


def test_a_root_crosses_to_a_worker(tmp_path: Path) -> None:
    root = make_store(tmp_path / "s")
    assert pickle.loads(pickle.dumps(root)) == root  # noqa: S301  our own bytes
