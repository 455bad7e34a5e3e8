"""Who can write to a store can forge its checksums."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.care import make_store
from vcache_cli.errors import AccessError, RefusedError
from vcache_cli.store import StoreRoot, check_trust


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """A private store of ours."""
    return make_store(tmp_path / "store")


@pytest.mark.parametrize(
    ("shared", "mode", "refused"),
    [
        ("private", 0o700, False),
        ("private", 0o755, False),
        ("private", 0o775, True),
        ("private", 0o1777, True),
        ("group", 0o2770, False),
        ("group", 0o2777, True),
    ],
)
def test_a_root_that_others_may_write_to_is_refused(
    root: StoreRoot, shared: str, mode: int, *, refused: bool
) -> None:
    root = replace(root, meta=replace(root.meta, shared=shared))
    root.path.chmod(mode)
    if not refused:
        check_trust(root)
        return
    with pytest.raises(RefusedError, match="written by others") as caught:
        check_trust(root)
    assert caught.value.exit_code == 16
    assert "chmod" in caught.value.hint


def test_a_parent_that_others_may_write_to_is_no_matter(root: StoreRoot) -> None:
    """Such as /tmp: what someone else puts in our place belongs to them."""
    root.path.parent.chmod(0o777)
    check_trust(root)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_store_of_someone_else_is_refused_unless_trusted(
    root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(root.path, 12345, -1)
    check_trust(root)  # root may do all anyway
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RefusedError, match="uid 12345"):
        check_trust(root)
    check_trust(root, trusted_uids=frozenset({12345}))
    check_trust(replace(root, meta=replace(root.meta, shared="group")))
    os.chown(root.path, 0, -1)
    check_trust(root)


def test_a_root_that_is_gone_cannot_be_trusted(root: StoreRoot) -> None:
    root.path.rename(root.path.with_name("moved"))
    with pytest.raises(AccessError):
        check_trust(root)
