"""A warm on a cluster of two nodes ends as one on this machine does, whatever is lost meanwhile."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.ray.counted import CountedWork, DeadlyWork, encoded
from tests.ray.ground import Ground, RayNode, entries, kill_workers
from vcache_cli import WarmOptions
from vcache_cli.assemble import WarmRun, open_warm
from vcache_cli.assemble.cluster import ShardWork
from vcache_cli.assemble.cluster_pass import ClusterPass
from vcache_cli.media import sources
from vcache_cli.version import __version__

pytestmark = [pytest.mark.needs_ray, pytest.mark.slow, pytest.mark.processes]


def test_two_nodes_write_the_bytes_that_one_machine_writes(
    ground: Ground, second_node: RayNode
) -> None:
    first = ground.warm("--json")
    assert first.code == 0, first.err
    assert first.document["items"]["stored"] == ground.total
    assert entries(ground.store) == entries(ground.local)
    again = ground.warm("--json").document
    assert again["items"]["present"] == ground.total
    assert again["bytes"]["read"] == 0
    assert ground.vcache("verify", "--store", ground.store, "--json").code == 0


def test_copies_in_several_shards_are_told_as_on_one_machine(
    ground: Ground, second_node: RayNode, media: Path
) -> None:
    corpus = ground.folder / "corpus"
    corpus.mkdir()
    data = [(media / name).read_bytes() for name in ("thumbnail.bmp", "chart.png", "hills.jpg")]
    for number in range(96):
        (corpus / f"{number:03d}").write_bytes(data[number % 3])
    items = ground.vcache(*ground.words(corpus), "--json").document["items"]
    assert (items["stored"], items["copy"], items["total"]) == (3, 93, 96)
    assert len(entries(ground.store)) == 3


@pytest.mark.parametrize("what", ["node", "worker"])
def test_what_is_killed_costs_a_second_try_of_what_it_had(
    ground: Ground, second_node: RayNode, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr("vcache_cli.assemble.cluster.ShardWork", CountedWork)
    address = ground.cluster.address
    options = WarmOptions(engine="ray", ray_address=address, batch_size=4)
    corpus, store, seen, killed_after = sources([str(ground.pictures)]), ground.store, [], 0
    with open_warm(corpus, store=store, model=str(ground.model), options=options) as run:
        for outcome in run:
            seen.append(outcome.item.source)
            if not killed_after and len(seen) >= ground.total // 3 and _both_work(store):
                killed_after = len(seen)
                kill_workers(second_node)
                if what == "node":
                    ground.cluster.remove_node(second_node, allow_graceful=False)
        fields = run.summary().as_json()
        retried = _retried(run)
    assert [each["kind"] for each in fields["warnings"]] == ["worker_lost"] * retried
    assert sorted(seen) == sorted(map(str, ground.pictures.iterdir()))
    assert fields["items"]["stored"] == ground.total
    assert entries(store) == entries(ground.local)
    twice = sum(number - 1 for number in Counter(key for key, _ in encoded(store)).values())
    sys.stdout.write(
        f"\n{ground.total} items, a {what} killed after {killed_after}:"
        f" {retried} handed out again, {twice} encoded twice\n"
    )
    assert 0 < retried <= 64  # two shards
    assert twice <= retried  # encoded, but not written, or not told of


def _both_work(store: Path) -> bool:
    """Whether two processes have encoded a few batches each."""
    done = Counter(process for _, process in encoded(store))
    return len(done) == 2 and min(done.values()) >= 12


def _retried(run: WarmRun) -> int:
    assert isinstance(run._pass, ClusterPass)
    return run._pass._session.retried


def test_a_driver_that_is_killed_goes_on_where_it_was(ground: Ground, second_node: RayNode) -> None:
    words, until = ground.words(), time.monotonic() + PATIENCE_SECONDS
    with subprocess.Popen([sys.executable, "-m", "vcache_cli", *words]) as driver:
        while len(entries(ground.store)) < ground.total // 6:
            assert driver.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        driver.send_signal(signal.SIGKILL)
    ended = ground.warm("--json")
    assert ended.code == 0, ended.err
    items = ended.document["items"]
    sys.stdout.write(f"\ndriver killed: {items['present']} there, {items['stored']} left to do\n")
    assert items["present"] >= ground.total // 6
    assert items["present"] + items["stored"] + items["copy"] == items["total"] == ground.total
    assert entries(ground.store) == entries(ground.local)


def test_items_that_fail_are_told_as_on_one_machine(ground: Ground, samples: Path) -> None:
    corpus = (samples / "media", samples / "bad")
    here = ground.vcache(
        *("warm", *corpus, "--model", ground.model, "--store", ground.folder / "here", "--json")
    )
    there = ground.vcache(*ground.words(*corpus), "--json")
    assert there.code == here.code == 3
    assert there.document["items"] == here.document["items"]
    assert there.document["skips"] == here.document["skips"]


def test_an_item_that_ends_every_worker_fails_alone(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcache_cli.assemble.cluster.ShardWork", DeadlyWork)
    corpus = ground.folder / "corpus"
    corpus.mkdir()
    for picture in sorted(ground.pictures.iterdir())[:8]:
        (corpus / picture.name).symlink_to(picture)
    ended = ground.vcache(*ground.words(corpus), "--json")
    assert ended.code == 3
    assert (ended.document["items"]["stored"], ended.document["items"]["failed"]) == (7, 1)
    failed = ended.document["failures"][0]
    assert "0005" in failed["source"]
    assert failed["kind"] == "crashed"


def test_a_node_of_another_version_is_named_with_both(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcache_cli.engines.ray_cluster.__version__", "99.1")
    ended = ground.warm()
    assert ended.code == 15
    assert f"vcache {__version__} " in ended.err
    assert "vcache 99.1 " in ended.err
    assert not ended.out


def test_a_node_that_would_make_other_entries_refuses(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = WarmRun._work

    def other(run: WarmRun) -> ShardWork:
        work = made(run)
        return replace(work, recipe=replace(work.recipe, family_revision=99))

    monkeypatch.setattr(WarmRun, "_work", other)
    ended = ground.warm()
    assert ended.code == 15
    assert "family_revision" in ended.err


def test_where_no_cluster_answers_that_is_said_soon(ground: Ground) -> None:
    begun = time.monotonic()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = ground.warm("--ray-address", address)
    assert ended.code == 15
    assert address in ended.err
    assert "`ray start`" in ended.err
    assert time.monotonic() - begun < PATIENCE_SECONDS
    assert not ended.out


def test_more_than_a_node_has_is_refused(ground: Ground) -> None:
    ended = ground.warm("--encoder-resources", "CPU=4096")
    assert ended.code == 15
    assert "--encoder-resources" in ended.err
