from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from vcache_cli.assemble import create_root, open_root, open_store, warm
from vcache_cli.errors import NotAStoreError, UsageError
from vcache_cli.store.scan import scan_store


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in folder.rglob("*")
    }


def test_entries_outlive_the_loss_of_all_that_is_vcache_s_own(
    tmp_path: Path, media: Path, tiny_siglip: Path
) -> None:
    store = tmp_path / "store"
    outcomes = list(warm([str(media / "hills.jpg")], store=store, model=tiny_siglip))
    shutil.rmtree(store / ".vcache")
    before = snapshot(store)
    root = open_root(store)
    assert (root.meta.target, root.meta.store_id) == ("native", "")
    with open_store(store) as opened:
        assert outcomes[0].key
        assert opened.get(outcomes[0].key) is not None
    assert len(scan_store(root).entries) == 1
    assert snapshot(store) == before
    again = list(warm([str(media / "hills.jpg")], store=store, model=tiny_siglip))
    assert [outcome.status.value for outcome in again] == ["present"]
    assert open_root(store).meta.store_id


@pytest.mark.parametrize("target", ["omlx", "vllm-ec"])
def test_what_is_left_of_a_store_is_not_taken_over_for_another_target(
    tmp_path: Path, media: Path, tiny_siglip: Path, target: str
) -> None:
    store = tmp_path / "store"
    list(warm([str(media / "hills.jpg")], store=store, model=tiny_siglip))
    shutil.rmtree(store / ".vcache")
    before = snapshot(store)
    with pytest.raises(UsageError, match="looks like a store of target `native`"):
        create_root(store, target=target)
    assert snapshot(store) == before
    assert create_root(store, target="native").meta.store_id


def test_a_damaged_store_json_is_no_reason_to_guess(tmp_path: Path) -> None:
    create_root(tmp_path / "store", target="native")
    document = tmp_path / "store" / ".vcache" / "store.json"
    document.chmod(0o600)
    document.write_bytes(b"{}")
    with pytest.raises(NotAStoreError, match="format number"):
        open_root(tmp_path / "store")


def test_an_empty_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        open_root(tmp_path)


def test_a_url_that_lost_a_slash_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="one slash") as caught:
        create_root(Path("s3://bucket/caches"), target="native")
    assert "write s3://bucket/caches" in str(caught.value.hint)
    assert not [*tmp_path.iterdir()]
    assert create_root(tmp_path / "s3:" / "bucket", target="native").path.is_dir()
