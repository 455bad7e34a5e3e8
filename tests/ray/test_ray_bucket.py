"""A cluster whose nodes share no disk: entries go into a bucket, whatever is lost meanwhile."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.ray.conftest import started
from tests.ray.counted import CountedWork, encoded
from tests.ray.ground import Ground, RayNode, entries, kill_workers
from tests.remote.hasty import start_hasty
from vcache_cli import WarmOptions
from vcache_cli.assemble import open_remote_store, open_warm
from vcache_cli.media import sources
from vcache_cli.remote import open_remote

pytestmark = [pytest.mark.needs_ray, pytest.mark.slow, pytest.mark.processes]


def words(ground: Ground, url: str) -> list[str]:
    found = ground.words()
    found[found.index("--store") + 1] = url
    return found


def objects(url: str) -> dict[str, int]:
    """Name, and when it was written, of all that lies there."""
    remote = open_remote(url)
    pages = remote.bucket.everything(remote.place.path)
    return {each.path: each.mtime_ns for page in pages for each in page}


def pulled(ground: Ground, url: str, *more: str) -> dict[str, bytes]:
    assert ground.vcache("pull", url, "--store", ground.store, *more).code == 0
    return entries(ground.store)


def test_two_nodes_fill_a_bucket_as_one_machine_fills_a_folder(
    ground: Ground, second_node: RayNode, url: str
) -> None:
    first = ground.vcache(*words(ground, url), "--json")
    assert first.code == 0, first.err
    assert first.document["items"]["stored"] == ground.total
    assert pulled(ground, url, "--run", first.document["run"]) == entries(ground.local)
    assert ground.vcache("verify", "--store", ground.store).code == 0
    before = objects(url)
    again = ground.vcache(*words(ground, url), "--json").document
    assert (again["items"]["present"], again["bytes"]["read"]) == (ground.total, 0)
    assert objects(url) == before


def test_a_machine_without_memos_finds_all_by_content(
    ground: Ground, second_node: RayNode, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ground.vcache(*words(ground, url)).code == 0
    before = objects(url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(ground.folder / "another"))
    again = ground.vcache(*words(ground, url), "--json").document
    assert again["items"]["present"] == ground.total
    assert again["bytes"]["read"] > 0
    assert objects(url) == before


def test_a_node_that_is_killed_costs_a_second_try_of_what_it_had(
    ground: Ground, second_node: RayNode, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcache_cli.assemble.cluster.ShardWork", CountedWork)
    options = WarmOptions(engine="ray", ray_address=ground.cluster.address, batch_size=4)
    corpus, seen, killed = sources([str(ground.pictures)]), [], False
    with open_warm(corpus, store=url, model=str(ground.model), options=options) as run:
        state = run._root.path
        for outcome in run:
            seen.append(outcome.item.source)
            if not killed and len(seen) >= ground.total // 3 and _both_work(state):
                killed = True
                kill_workers(second_node)
                ground.cluster.remove_node(second_node, allow_graceful=False)
        fields = run.summary().as_json()
    assert killed
    assert sorted(seen) == sorted(map(str, ground.pictures.iterdir()))
    assert fields["items"]["stored"] == ground.total
    assert {each["kind"] for each in fields["warnings"]} == {"worker_lost"}
    assert pulled(ground, url) == entries(ground.local)
    twice = sum(number - 1 for number in Counter(key for key, _ in encoded(state)).values())
    sys.stdout.write(f"\n{ground.total} items, a node killed: {twice} encoded twice\n")
    assert twice <= 64  # two shards


def _both_work(state: Path) -> bool:
    """Whether two processes have encoded a few batches each."""
    done = Counter(process for _, process in encoded(state))
    return len(done) == 2 and min(done.values()) >= 12


def test_a_driver_that_is_killed_goes_on_with_what_it_had_said(
    ground: Ground, second_node: RayNode, url: str
) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    with start_hasty(words(ground, url)) as driver:
        while not any("/manifests/" in path for path in objects(url)):
            assert driver.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        driver.send_signal(signal.SIGKILL)
    said = len(open_remote_store(url).entries)
    ended = ground.vcache(*words(ground, url), "--json")
    assert ended.code == 0, ended.err
    items = ended.document["items"]
    sys.stdout.write(f"\ndriver killed: {said} said, {items['stored']} left to do\n")
    assert items["present"] >= said >= 1  # the last manifest may still have been on its way
    assert items["present"] + items["stored"] == ground.total
    assert pulled(ground, url, "--run", ended.document["run"]) == entries(ground.local)


def test_a_node_without_the_extra_is_named_with_what_to_install(
    ground: Ground, url: str, service: dict[str, str]
) -> None:
    broken = ground.folder / "broken" / "s3fs.py"
    broken.parent.mkdir()
    broken.write_text("raise ImportError('no such package')\n")
    add_node: Any = vars(type(ground.cluster))["add_node"]
    options = {"num_cpus": 2, "object_store_memory": 100 * 1024**2}
    node = started(lambda: add_node(ground.cluster, **options), service, first=broken.parent)
    try:
        ended = ground.vcache(*words(ground, url), "--encoder-resources", "CPU=2")
    finally:
        ground.cluster.remove_node(node)
    assert ended.code == 15
    assert "node " in ended.err
    assert "s3fs" in ended.err
    assert "vcache-cli[remote]" in ended.err
    assert not ended.out
