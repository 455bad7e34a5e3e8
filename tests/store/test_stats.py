from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.store.care import DAY, NOW, add, entry, make_store
from vcache_cli.items import Stage
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.runs import RunLog
from vcache_cli.store.stats import Limit, store_stats


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return make_store(tmp_path / "store")


def test_entries_are_counted_by_model_kind_and_age(root: StoreRoot) -> None:
    ages = (0, 2, 10, 40, 400)
    paths = [
        add(root, entry(number, model="ab"[number % 2], created=NOW - age * DAY), used=NOW - number)
        for number, age in enumerate(ages)
    ]
    add(root, entry(9, model="a", stage=Stage.PIXELS))
    size = paths[0].stat().st_size
    stats = store_stats(root, now=NOW)
    first = stats.as_json()["by_model"][0]
    assert first == {
        "model": "a",
        "stage": "features",
        "entries": 3,
        "bytes": 3 * size,
        "oldest": "2022-10-10T22:13:20Z",
        "newest_use": "2023-11-14T22:13:20Z",
    }
    assert [group.entries for group in stats.by_model] == [3, 1, 2]
    assert [(line[0] // int(DAY), line[1]) for line in stats.by_age] == [
        (0, 6), (1, 5), (7, 3), (30, 2), (90, 1), (365, 1),
    ]  # fmt: skip
    assert stats.by_kind == {"image": (6, stats.bytes.logical)}


def test_the_document_has_every_field(root: StoreRoot) -> None:
    with RunLog(root) as log:
        log.finish({"items": {"total": 0}})
    limits = {"max_size": Limit(10, "--max-size"), "min_free": Limit(None, "default")}
    document = store_stats(root, limits=limits, scan=True).as_json()
    assert document["limits"] == {
        "max_size": {"value": 10, "origin": "--max-size"},
        "min_free": {"origin": "default"},
    }
    assert document["last_run"]["items"] == {"total": 0}
    assert document["index"]["drift_entries"] == 0
    assert document["fs"]["free"] > 0
    assert document["entries"] == 0
    assert document["target"] == "native"


def test_an_empty_store_has_no_groups(root: StoreRoot) -> None:
    stats = store_stats(root)
    assert (stats.by_model, stats.by_kind, stats.last_run) == ((), {}, None)


def test_drift_is_told_once_and_then_gone(root: StoreRoot) -> None:
    paths = [add(root, entry(number)) for number in range(4)]
    shards = {path.parent for path in paths}
    for directory in [root.path, *shards]:
        os.utime(directory, (NOW, NOW))
    store_stats(root)
    paths[0].chmod(0o644)
    with paths[0].open("ab") as file:
        file.write(b"in place, which leaves the directory as it was")
    assert store_stats(root, scan=True).drift_entries == 1
    assert store_stats(root, scan=True).drift_entries == 0
    assert store_stats(root).bytes == store_stats(root, scan=True).bytes


def test_a_use_that_the_index_did_not_see_is_no_drift(root: StoreRoot) -> None:
    path = add(root, entry(1))
    for directory in (root.path, path.parent):
        os.utime(directory, (NOW, NOW))
    store_stats(root)
    os.utime(path, (NOW + 60, NOW + 60))
    stats = store_stats(root, scan=True)
    assert stats.drift_entries == 0
    assert stats.by_model[0].newest_use_seconds in {NOW - DAY, NOW + 60}
    assert store_stats(root).by_model[0].newest_use_seconds == NOW + 60
