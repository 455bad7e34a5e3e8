"""The index may be anything: commands take longer, servers that read never notice."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.crash.scenes import contents, run_here
from tests.store.care import add, entry, make_store
from vcache_cli.store import DiskStore, StoreRoot

COUNT = 5
Spoil = Callable[[Path], AbstractContextManager[object]]


@contextlib.contextmanager
def _gone(index: Path) -> Iterator[None]:
    index.unlink()
    yield


def _of_version(number: int) -> Spoil:
    @contextlib.contextmanager
    def spoil(index: Path) -> Iterator[None]:
        with contextlib.closing(sqlite3.connect(index)) as connection:
            connection.execute(f"PRAGMA user_version = {number}")
        yield

    return spoil


@contextlib.contextmanager
def _behind(index: Path) -> Iterator[None]:
    """As it was before anything was stored."""
    with contextlib.closing(sqlite3.connect(index)) as connection, connection:
        connection.execute("DELETE FROM entries")
    yield


@contextlib.contextmanager
def _malformed(index: Path) -> Iterator[None]:
    data = index.read_bytes()
    index.write_bytes(data[:4096] + bytes(len(data) - 4096))
    yield


@contextlib.contextmanager
def _stale_log(index: Path) -> Iterator[None]:
    """A write-ahead log of another file beside it, as a disk may bring it back."""
    Path(f"{index}-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(5000))
    yield


@contextlib.contextmanager
def _locked(index: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(index)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


STATES: dict[str, Spoil] = {
    "gone": _gone,
    "older": _of_version(1),
    "newer": _of_version(9_999),
    "behind": _behind,
    "malformed": _malformed,
    "stale log": _stale_log,
    "locked": _locked,
}


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """A store whose index is in order."""
    root = make_store(tmp_path / "store")
    for number in range(COUNT):
        add(root, entry(number))
    assert run_here(["ls", "-s", str(root.path), "-q"]).code == 0
    return root


@pytest.mark.parametrize("state", STATES)
def test_an_index_in_any_state_costs_no_entry(
    state: str, root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcache_cli.store.index_schema._BUSY_SECONDS", 0.1)
    held, reader = contents(root.path), DiskStore(root)
    with STATES[state](root.path / ".vcache/index.sqlite"):
        assert all(reader.get(path[3:67]) for path in held)
        told = json.loads(run_here(["ls", "-s", str(root.path), "--json"]).out)
        assert {each["key"] for each in told["entries"]} == {path[3:67] for path in held}
        assert run_here(["verify", str(root.path), "-q"]).code == 0
        assert all(reader.get(path[3:67]) for path in held)
    assert not reader.findings
    assert contents(root.path) == held
    assert run_here(["stats", "-s", str(root.path), "--scan", "-q"]).code == 0
