"""The faults of the cache that this one replaces, right here, and what goes beyond it."""

from __future__ import annotations

import errno
import logging
import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.serving.feature_case import (
    MODEL,
    entries,
    features,
    held_back,
    image,
    temps,
    with_files,
)
from tests.serving.omlx_files import file_of, rules_met, write_file
from tests.store.faults import FaultyFiles
from vcache_cli.errors import RefusedError, UsageError
from vcache_cli.serving import VisionFeatureSSDCache
from vcache_cli.store import create_meta


def file_bytes(tmp_path: Path) -> int:
    """Bytes of the file of one entry."""
    with VisionFeatureSSDCache(tmp_path / "probe") as cache:
        cache.put(image(0), MODEL, features(0))
    (path,) = entries(tmp_path / "probe")
    return path.stat().st_size


def on_disk(root: Path) -> int:
    """Bytes of all entries, as the directory says."""
    return sum(path.stat().st_size for path in entries(root))


def held_numbers(root: Path, count: int) -> list[int]:
    """Which of the first images are there."""
    return [number for number in range(count) if file_of(root, image(number), MODEL).exists()]


# --- faults, right here ----------------------------------------------------------------------


def test_fault_no_write_is_dropped_when_the_queue_is_full(tmp_path: Path) -> None:
    with VisionFeatureSSDCache(tmp_path, max_memory_entries=0) as cache:
        for number in range(100):
            cache.put(image(number), MODEL, features(number))
        assert cache.flush()
        assert cache.stats["saves"] == len(entries(tmp_path)) == 100
        assert cache.drops == 0


def test_fault_no_write_is_dropped_at_close(tmp_path: Path) -> None:
    cache = VisionFeatureSSDCache(tmp_path)
    gate = held_back(cache)
    for number in range(32):
        cache.put(image(number), MODEL, features(number))
    closing = threading.Thread(target=cache.close)
    closing.start()
    gate.opened.set()
    closing.join(30)
    assert held_numbers(tmp_path, 32) == list(range(32))


def test_fault_a_leftover_temp_file_is_no_entry(tmp_path: Path) -> None:
    good = write_file(tmp_path, image(1), MODEL, features(1))
    for name in (".x.tmp", "x.tmp.safetensors", f"{good.stem}_tmp.safetensors"):
        (good.parent / name).write_bytes(good.read_bytes()[:-5])
    with VisionFeatureSSDCache(tmp_path, max_size_bytes=good.stat().st_size) as cache:
        assert cache.size_bytes == good.stat().st_size
        cache.put(image(2), MODEL, features(2)[:1])
        cache.flush()
        assert not good.exists()
    assert len(list(good.parent.iterdir())) == 3 + (
        file_of(tmp_path, image(2), MODEL).parent == good.parent
    )


def test_fault_each_write_has_a_temp_name_of_its_own(tmp_path: Path) -> None:
    caches = [VisionFeatureSSDCache(tmp_path) for _ in range(2)]
    gates = [held_back(cache) for cache in caches]
    for cache, gate in zip(caches, gates, strict=True):
        cache.put(image(1), MODEL, features(1))
        assert gate.reached.wait(10)
    assert len(temps(tmp_path)) == 2
    for gate in gates:
        gate.opened.set()
    for cache in caches:
        cache.close()
    np.testing.assert_array_equal(VisionFeatureSSDCache(tmp_path).get(image(1), MODEL), features(1))


@pytest.mark.parametrize("at", range(9))
def test_fault_a_failed_write_leaves_the_good_file(tmp_path: Path, at: int) -> None:
    cache = VisionFeatureSSDCache(tmp_path, max_memory_entries=0)
    cache.put(image(1), MODEL, features(1))
    cache.flush()
    with_files(cache, FaultyFiles(at, errno.EIO))
    cache.put(image(1), MODEL, features(2))
    cache.flush()
    found = cache.get(image(1), MODEL)
    stats = cache.stats
    cache.close()
    assert found is not None
    assert found[0, 0] in {10_000.0, 20_000.0}
    assert (stats["saves"], stats["errors"]) in {(1, 1), (2, 0)}
    assert temps(tmp_path) == []


def test_fault_eviction_after_a_restart_goes_by_recency(tmp_path: Path) -> None:
    size = file_bytes(tmp_path)
    root = tmp_path / "store"
    with VisionFeatureSSDCache(root) as cache:
        for number in range(6):
            cache.put(image(number), MODEL, features(number))
        cache.flush()
        cache.get(image(0), MODEL)
        cache.get(image(2), MODEL)
    with VisionFeatureSSDCache(root, max_size_bytes=6 * size) as cache:
        cache.get(image(3), MODEL)
        for number in range(6, 9):
            cache.put(image(number), MODEL, features(number))
        cache.flush()
        assert cache.evictions == 3
        assert cache.size_bytes == on_disk(root) == 6 * size
    assert held_numbers(root, 9) == [0, 2, 3, 6, 7, 8]


def test_fault_an_entry_whose_write_waits_leaves_no_orphan(tmp_path: Path) -> None:
    """Far more is put than fits; what is there afterwards is counted, and within the limit."""
    size = file_bytes(tmp_path)
    root = tmp_path / "store"
    cache = VisionFeatureSSDCache(root, max_size_bytes=3 * size)
    gate = held_back(cache)
    for number in range(20):
        cache.put(image(number), MODEL, features(number))
    gate.opened.set()
    cache.flush()
    assert cache.size_bytes == on_disk(root) == 3 * size
    assert held_numbers(root, 20) == [17, 18, 19]
    cache.close()


def test_fault_a_wrong_entry_is_overwritten(tmp_path: Path) -> None:
    write_file(tmp_path, image(1), MODEL, features(2)[:3])
    with VisionFeatureSSDCache(tmp_path) as cache:
        assert len(cache.get(image(1), MODEL)) == 3
        cache.put(image(1), MODEL, features(1))
        np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))
    with VisionFeatureSSDCache(tmp_path) as cache:
        np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))


def test_fault_start_up_reads_no_file(tmp_path: Path) -> None:
    """Files that cannot be opened, let alone read, do not matter before they are asked for."""
    for number in range(20):
        path = write_file(tmp_path, image(number), MODEL, features(number))
        if number % 2:
            path.unlink()
            os.mkfifo(path)
    with VisionFeatureSSDCache(tmp_path) as cache:
        assert cache.size_bytes == sum(
            path.stat().st_size for path in entries(tmp_path) if path.is_file()
        )
        assert cache.stats["errors"] == 0


def test_fault_no_entry_in_memory_is_allowed(tmp_path: Path) -> None:
    with VisionFeatureSSDCache(tmp_path, max_memory_entries=0) as cache:
        cache.put(image(1), MODEL, features(1))
        cache.flush()
        for _ in range(2):
            np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))
        assert cache.stats["ssd_loads"] == 2
    memory = VisionFeatureSSDCache(None, max_memory_entries=0)
    memory.put(image(1), MODEL, features(1))
    assert memory.get(image(1), MODEL) is None


def test_fault_counters_are_exact_from_many_threads(tmp_path: Path) -> None:
    cache = VisionFeatureSSDCache(tmp_path, max_memory_entries=4)
    rounds, threads = 25, 16

    def work(number: int) -> None:
        for _ in range(rounds):
            cache.put(image(number), MODEL, features(number))
            found = cache.get(image(number), MODEL)
            np.testing.assert_array_equal(found, features(number))
            assert cache.get(image(number + 1000), MODEL) is None

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    cache.flush()
    stats = cache.stats
    assert stats["hits"] == stats["misses"] == stats["saves"] == rounds * threads
    assert stats["errors"] == 0
    assert cache.size_bytes == on_disk(tmp_path)
    cache.close()


def test_fault_counters_are_exact_where_threads_share_keys_and_room_is_short(
    tmp_path: Path,
) -> None:
    limit_bytes = 12 * file_bytes(tmp_path)
    root = tmp_path / "store"
    cache = VisionFeatureSSDCache(root, limit_bytes, 3)
    rounds, threads = 40, 16
    wrong: list[int] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(rounds):
            number = chance.randrange(20)
            cache.put(image(number), MODEL, features(number))
            number = chance.randrange(20)
            found = cache.get(image(number), MODEL)
            if found is not None and not np.array_equal(found, features(number)):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    cache.flush()
    stats = cache.stats
    assert wrong == []
    assert stats["hits"] + stats["misses"] == stats["saves"] == rounds * threads
    assert stats["errors"] == cache.drops == 0
    assert cache.evictions > 0
    assert cache.size_bytes == on_disk(root) <= limit_bytes
    assert cache.memory_bytes <= 3 * features(0).nbytes
    cache.close()


def test_fault_temps_of_killed_writers_are_swept_after_an_hour(tmp_path: Path) -> None:
    with VisionFeatureSSDCache(tmp_path) as cache:
        cache.put(image(1), MODEL, features(1))
    for name, age in (("dead", 4000.0), ("alive", 60.0)):
        (tmp_path / ".vcache" / "tmp" / name).write_bytes(b"half")
        past = time.time() - age
        os.utime(tmp_path / ".vcache" / "tmp" / name, (past, past))
    with VisionFeatureSSDCache(tmp_path) as cache:
        cache.put(image(2), MODEL, features(2))
        cache.flush()
        assert [path.name for path in temps(tmp_path)] == ["alive"]
        assert cache.size_bytes == on_disk(tmp_path)


def test_fault_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    with VisionFeatureSSDCache(tmp_path) as cache:
        cache.put(image(1), MODEL, features(1)[:1])
    (path,) = entries(tmp_path)
    path.chmod(0o600)
    good = path.read_bytes()
    with VisionFeatureSSDCache(tmp_path, max_memory_entries=0) as cache:
        for position in range(0, len(good), 3):
            path.write_bytes(good[:position] + bytes([good[position] ^ 4]) + good[position + 1 :])
            assert cache.get(image(1), MODEL) is None
        path.write_bytes(good)
        np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1)[:1])


def test_fault_two_caches_over_one_directory_count_together(tmp_path: Path) -> None:
    size = file_bytes(tmp_path)
    root = tmp_path / "store"
    with (
        VisionFeatureSSDCache(root, max_size_bytes=5 * size) as one,
        VisionFeatureSSDCache(root, max_size_bytes=5 * size) as two,
    ):
        for number in range(12):
            cache = one if number % 2 else two
            cache.put(image(number), MODEL, features(number))
            cache.flush()
            assert one.size_bytes == two.size_bytes == on_disk(root) <= 5 * size
    assert held_numbers(root, 12) == [7, 8, 9, 10, 11]


# --- beyond ----------------------------------------------------------------------------------


def test_beyond_flush_waits_for_what_was_put(tmp_path: Path) -> None:
    cache = VisionFeatureSSDCache(tmp_path)
    gate = held_back(cache)
    cache.put(image(1), MODEL, features(1))
    assert not cache.flush(timeout_seconds=0.05)
    gate.opened.set()
    assert cache.flush(timeout_seconds=10)
    assert held_numbers(tmp_path, 2) == [1]
    cache.close()


def test_beyond_a_full_queue_makes_a_put_wait(tmp_path: Path) -> None:
    cache = VisionFeatureSSDCache(tmp_path)
    gate = held_back(cache)
    for number in range(32):
        cache.put(image(number), MODEL, features(number))
    late = threading.Thread(target=cache.put, args=(image(32), MODEL, features(32)))
    late.start()
    late.join(0.1)
    assert late.is_alive()
    gate.opened.set()
    late.join(10)
    assert not late.is_alive()
    cache.close()
    assert held_numbers(tmp_path, 40) == list(range(33))


def test_beyond_a_full_queue_may_drop_and_counts_it(tmp_path: Path) -> None:
    cache = VisionFeatureSSDCache(tmp_path, max_memory_entries=100, on_full="drop")
    gate = held_back(cache)
    for number in range(40):
        cache.put(image(number), MODEL, features(number))
    assert cache.drops == 8
    np.testing.assert_array_equal(cache.get(image(39), MODEL), features(39))
    gate.opened.set()
    cache.close()
    assert cache.stats["saves"] == 32
    assert held_numbers(tmp_path, 40) == list(range(32))


def test_beyond_files_warmed_meanwhile_are_found_without_a_restart(tmp_path: Path) -> None:
    with VisionFeatureSSDCache(tmp_path) as cache:
        assert cache.get(image(1), MODEL) is None
        write_file(tmp_path, image(1), MODEL, features(1))
        np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))
        assert cache.size_bytes == on_disk(tmp_path)


def test_beyond_a_put_during_a_slow_read_is_never_undone(tmp_path: Path) -> None:
    """The reader comes back with the old features after the new ones were put."""
    with VisionFeatureSSDCache(tmp_path) as cache:
        cache.put(image(1), MODEL, features(1))
    with VisionFeatureSSDCache(tmp_path) as cache:
        assert cache._files is not None
        load = cache._files.load

        def slow(model_name: str, image_hash: str) -> object:
            entry = load(model_name, image_hash)
            cache.put(image_hash, model_name, features(2))
            return entry

        cache._files.load = slow  # type: ignore[method-assign,assignment]
        np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))
        np.testing.assert_array_equal(cache.get(image(1), MODEL), features(2))


def test_beyond_a_cache_that_is_forgotten_still_writes(tmp_path: Path) -> None:
    cache = VisionFeatureSSDCache(tmp_path)
    gate = held_back(cache)
    cache.put(image(1), MODEL, features(1))
    del cache
    gate.opened.set()
    deadline = time.monotonic() + 10
    while not entries(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_beyond_an_entry_larger_than_the_directory_leaves_the_older_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    size = file_bytes(tmp_path)
    root = tmp_path / "store"
    with VisionFeatureSSDCache(root, max_size_bytes=size) as cache:
        cache.put(image(1), MODEL, features(1))
        cache.put(image(1), MODEL, features(2, rows=100))
        cache.flush()
        assert cache.stats["errors"] == 1
        assert cache.evictions == 0
    assert "at most" in caplog.text
    with VisionFeatureSSDCache(root) as cache:
        np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))


def test_beyond_an_unused_hour_shows_on_the_disk_at_the_next_use(tmp_path: Path) -> None:
    with VisionFeatureSSDCache(tmp_path) as cache:
        for number in range(2):
            cache.put(image(number), MODEL, features(number))
    past = time.time() - 7200
    for path in entries(tmp_path):
        os.utime(path, (past, past))
    with VisionFeatureSSDCache(tmp_path) as cache:
        cache.get(image(0), MODEL)
        assert file_of(tmp_path, image(0), MODEL).stat().st_mtime > past + 3600
    assert file_of(tmp_path, image(1), MODEL).stat().st_mtime < past + 1


def test_beyond_a_time_in_the_future_is_brought_back_and_evicted_in_turn(tmp_path: Path) -> None:
    size = file_bytes(tmp_path)
    root = tmp_path / "store"
    with VisionFeatureSSDCache(root) as cache:
        cache.put(image(0), MODEL, features(0))
    future = time.time() + 1e6
    os.utime(entries(root)[0], (future, future))
    with VisionFeatureSSDCache(root, max_size_bytes=2 * size) as cache:
        for number in (1, 2):
            cache.put(image(number), MODEL, features(number))
        cache.flush()
    assert held_numbers(root, 3) == [1, 2]


# --- whose directory it is -------------------------------------------------------------------


def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(RefusedError, match="can be written by others"):
        VisionFeatureSSDCache(tmp_path)
    tmp_path.chmod(0o700)


def test_a_store_of_another_target_is_refused(tmp_path: Path) -> None:
    create_meta(tmp_path / "native", target="native")
    with pytest.raises(UsageError, match="`native`, not `omlx`"):
        VisionFeatureSSDCache(tmp_path / "native")


def test_reading_changes_nothing_in_the_servers_directory(tmp_path: Path) -> None:
    write_file(tmp_path, image(1), MODEL, features(1))
    with VisionFeatureSSDCache(tmp_path) as cache:
        assert cache.get(image(1), MODEL) is not None
        assert cache.get(image(2), MODEL) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        file_of(tmp_path, image(1), MODEL).parent.name
    ]


# --- a full disk -----------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "vcache-test", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)  # noqa: S607  as the mount above


def test_a_full_disk_is_a_warning_and_the_cache_goes_on(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = 4096  # 256 KiB each
    with caplog.at_level(logging.WARNING), VisionFeatureSSDCache(small_disk) as cache:
        for number in range(12):
            cache.put(image(number), MODEL, features(number, rows))
        cache.flush()
        stats = cache.stats
        assert stats["saves"] + stats["errors"] == 12
        assert stats["saves"] >= 6
        assert stats["errors"] >= 4
        assert len(caplog.records) == 1
        assert "No space left" in caplog.text
        for number in range(12):  # memory has them all
            np.testing.assert_array_equal(cache.get(image(number), MODEL), features(number, rows))
        for path in entries(small_disk):
            rules_met(small_disk, path)
        assert temps(small_disk) == []
        entries(small_disk)[0].unlink()
        cache.put(image(99), MODEL, features(99, rows))
        cache.flush()
        assert cache.stats["saves"] == stats["saves"] + 1
