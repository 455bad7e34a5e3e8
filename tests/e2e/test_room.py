"""A full disk, a full budget, a disk that cannot be written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.e2e.command import entries, many, vcache
from tests.e2e.isolation import on_a_read_only_disk, on_a_small_disk


def test_a_full_disk_keeps_what_is_finished(media: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    corpus, disk = many(tmp_path / "corpus", media / "thumbnail.bmp", 150), tmp_path / "disk"
    launcher = on_a_small_disk(disk, "800k")
    args = ("warm", corpus, "-m", tiny_siglip, "--json", "--min-free", "0")
    run = vcache(*args, "-s", disk / "store", launcher=launcher)
    assert run.code == run.document["error"]["code"] == 13
    assert run.document["error"]["kind"] == "store_full"
    assert run.document["error"]["hint"]
    assert run.document["interrupted"]
    store = tmp_path / "disk.after/store"
    assert 10 < len(entries(store)) == run.items["stored"] < 150
    assert not [path for path in (store / ".vcache/tmp").iterdir() if path.is_file()]
    assert vcache("verify", store, "--level", "data", "-q").code == 0
    last = vcache(*args, "-s", store)  # with room again, it goes on
    assert last.code == 0
    assert last.items["present"] == run.items["stored"]


def test_an_entry_that_no_budget_holds_is_exit_13(
    media: Path, tiny_siglip: Path, store: Path
) -> None:
    args = ("warm", media, "-m", tiny_siglip, "-s", store, "--json")
    run = vcache(*args, "--min-free", "900TiB")
    assert run.code == run.document["error"]["code"] == 13
    assert run.items["stored"] == 0
    assert entries(store) == {}
    few = vcache(*args, "--max-size", "20KiB")
    assert few.code == 13
    assert few.items["stored"] == len(entries(store)) == 3
    assert sum(path.stat().st_size for path in entries(store).values()) <= 20 * 1024


def test_a_full_store_is_pruned_when_asked(
    corpus: Path, media: Path, tiny_siglip: Path, warmed: Path, tmp_path: Path
) -> None:
    then = time.time() - 7200
    old = entries(warmed)
    for path in old.values():
        os.utime(path, (then, then))
    cap = sum(path.stat().st_size for path in old.values())
    fresh = many(tmp_path / "fresh", media / "thumbnail.bmp", 8)
    args = ("warm", fresh, "-m", tiny_siglip, "-s", warmed, "--max-size", cap, "--json")
    assert vcache(*args).code == 13
    run = vcache(*args, "--on-full", "prune")
    assert run.code == 0
    assert run.items["stored"] == 8
    held = entries(warmed)
    assert sum(path.stat().st_size for path in held.values()) <= cap
    assert len(held.keys() - old.keys()) >= 8
    assert vcache("check", fresh, "-m", tiny_siglip, "-s", warmed).code == 0
    assert vcache("verify", warmed, "-q").code == 0


def test_a_read_only_store_is_read_and_not_warmed(
    corpus: Path, media: Path, tiny_siglip: Path, warmed: Path
) -> None:
    launcher = on_a_read_only_disk(warmed)
    args = ("-m", tiny_siglip, "-s", warmed, "--json")
    held = len(entries(warmed))
    refused = vcache("warm", media, *args, launcher=launcher)
    assert refused.code == refused.document["error"]["code"] == 14
    assert str(warmed) in refused.document["error"]["message"]
    assert vcache("check", corpus, *args, launcher=launcher).document["warm"] == held
    assert vcache("stats", warmed, "--json", launcher=launcher).document["entries"] == held
    listed = vcache("ls", warmed, "--limit", 1000, "--json", launcher=launcher).document
    assert len(listed["entries"]) == held
    verified = vcache("verify", warmed, "--level", "data", "--json", launcher=launcher)
    assert (verified.code, verified.document["ok"]) == (0, held)
    key = next(iter(entries(warmed)))
    inspected = vcache("inspect", key, "-s", warmed, "--json", launcher=launcher)
    assert inspected.document["checksum"]["ok"]
    prune = vcache("prune", warmed, "--older-than", "0s", "--yes", "--json", launcher=launcher)
    assert prune.code == 14
    assert len(entries(warmed)) == held


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_store_without_permission_is_exit_14(
    media: Path, tiny_siglip: Path, warmed: Path
) -> None:
    warmed.chmod(0o500)
    (warmed / ".vcache").chmod(0o500)
    refused = vcache("warm", media, "-m", tiny_siglip, "-s", warmed, "--json")
    assert refused.code == 14
    assert vcache("stats", warmed).code == 0
