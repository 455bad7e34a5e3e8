"""Several writers at once: durable when they say so, bounded, and each answers for itself."""

from __future__ import annotations

import errno
import os
import stat
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDoneError
from pathlib import Path

import pytest

from tests.patience import until
from tests.store.care import entry, make_store
from tests.store.faults import FaultyFiles
from vcache_cli.entry import Entry
from vcache_cli.errors import InvalidEntryError, StoreFullError
from vcache_cli.store import Budget, DiskStore, EntryWriter, OsFiles, StoreRoot
from vcache_cli.store.writer import Publisher, pack_entry


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """A store without entries."""
    return make_store(tmp_path / "store")


class Gated(OsFiles):
    """Syncs of directories wait for a gate, and are noted."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.synced: list[str] = []
        self._paths: dict[int, str] = {}
        self.open = self._open  # type: ignore[assignment]
        self.fsync = self._fsync  # type: ignore[assignment]

    def _open(self, path: str, flags: int, mode: int = 0o600) -> int:
        fd = os.open(path, flags, mode)
        self._paths[fd] = path
        return fd

    def _fsync(self, fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            self.synced.append(self._paths[fd])
            assert self.gate.wait(30)


def test_all_that_was_submitted_is_there(root: StoreRoot) -> None:
    made = [entry(number) for number in range(40)]
    with DiskStore(root, mode="w") as store, store.writer(threads=4) as writer:
        sizes = [writer.submit(one) for one in made]
    reader = DiskStore(root)
    for one, size in zip(made, sizes, strict=True):
        facts = reader.stat(one.key)
        assert facts is not None
        assert facts.st_size == size.result(0)
        assert reader.get(one.key) is not None
    assert os.listdir(root.path / ".vcache/tmp") == []


def test_a_future_is_done_only_when_the_name_is_durable(root: StoreRoot) -> None:
    files = Gated()
    with DiskStore(root, mode="w", files=files) as store, store.writer(threads=1) as writer:
        done = writer.submit(entry(1))
        with pytest.raises(NotDoneError):
            done.result(0.1)
        files.gate.set()
        assert done.result(30) > 0
    assert files.synced == [str(root.path / entry(1).key[:2]), str(root.path)]


def test_one_sync_of_a_directory_serves_all_who_asked_before_it_began(root: StoreRoot) -> None:
    """Four entries of one shard: while the first is synced, the others ask for one together."""
    files = Gated()
    same_shard = [one for one in map(entry, range(2000)) if one.key.startswith("0a")][:4]
    with DiskStore(root, mode="w", files=files) as store, store.writer(threads=4) as writer:
        futures = [writer.submit(same_shard[0])]
        until(lambda: files.synced)
        futures += [writer.submit(one) for one in same_shard[1:]]
        until(lambda: asked(writer, str(root.path / "0a")) == 3)
        files.gate.set()
        for future in futures:
            future.result(30)
    assert files.synced.count(str(root.path / "0a")) == 2


def test_the_root_is_synced_after_a_shard_that_another_process_made(root: StoreRoot) -> None:
    """That process may not have come to it yet, and the machine may stop."""
    files = Gated()
    files.gate.set()
    with DiskStore(root, mode="w", files=files) as store, store.writer(threads=1) as writer:
        (root.path / entry(1).key[:2]).mkdir()
        writer.submit(entry(1)).result(30)
        writer.submit(entry(1)).result(30)
    assert files.synced.count(str(root.path)) == 1


def asked(writer: EntryWriter, directory: str) -> int:
    """How many wait for the next sync of a directory."""
    following = writer._group._next.get(directory)
    if following is None:
        return 0
    return 1 + len(following._condition._waiters)  # type: ignore[attr-defined]


def test_a_failing_entry_costs_no_other(root: StoreRoot) -> None:
    bad = Entry("no key", entry(1).stage, {}, entry(1).provenance)
    with DiskStore(root, mode="w") as store, store.writer() as writer:
        futures = [writer.submit(one) for one in (entry(1), bad, entry(2))]
    assert isinstance(futures[1].exception(0), InvalidEntryError)
    assert [future.exception(0) for future in (futures[0], futures[2])] == [None, None]


@pytest.mark.parametrize("step", range(18))
def test_a_fault_at_any_step_reaches_the_future(root: StoreRoot, step: int) -> None:
    files = FaultyFiles(step, errno.ENOSPC)
    with DiskStore(root, mode="w", files=files) as store, store.writer(threads=1) as writer:
        error = writer.submit(entry(1)).exception(30)
    if error is not None:
        assert isinstance(error, StoreFullError)
    assert not DiskStore(root).findings
    assert os.listdir(root.path / ".vcache/tmp") == []


def test_the_budget_is_asked_and_settled(root: StoreRoot) -> None:
    size = pack_entry(entry(1), root.layout).size_bytes
    budget = Budget(max_size_bytes=2 * size + 10)
    with DiskStore(root, mode="w") as store, store.writer(1, budget) as writer:
        futures = [writer.submit(entry(number)) for number in (1, 1, 2, 3)]
    errors = [future.exception(0) for future in futures]
    assert errors[:3] == [None, None, None]
    assert isinstance(errors[3], StoreFullError)
    assert (budget.used_bytes, budget.in_flight_bytes) == (2 * size, 0)


def test_a_failed_write_does_not_use_the_budget(root: StoreRoot) -> None:
    budget = Budget(max_size_bytes=10**6)
    files = FaultyFiles(6, errno.EIO)
    with DiskStore(root, mode="w", files=files) as store, store.writer(1, budget) as writer:
        assert isinstance(writer.submit(entry(1)).exception(30), OSError)
    assert (budget.used_bytes, budget.in_flight_bytes) == (0, 0)


def test_submit_waits_while_the_queue_is_full(root: StoreRoot) -> None:
    files = Gated()
    publisher = Publisher(files, root)
    blocked = threading.Event()
    with EntryWriter(publisher, threads=1, max_queued=2) as writer:
        submitted: list[Future[int]] = []

        def submit_three() -> None:
            submitted.extend(writer.submit(entry(number)) for number in range(2))
            blocked.set()
            submitted.append(writer.submit(entry(2)))

        thread = threading.Thread(target=submit_three)
        thread.start()
        assert blocked.wait(30)
        thread.join(0.1)
        assert thread.is_alive()
        files.gate.set()
        thread.join(30)
    assert [future.exception(0) for future in submitted] == [None] * 3


def test_an_entry_larger_than_the_whole_queue_passes_alone(root: StoreRoot) -> None:
    with EntryWriter(Publisher(OsFiles(), root), max_queued_bytes=8) as writer:
        futures = [writer.submit(entry(number)) for number in range(3)]
    assert [future.exception(0) for future in futures] == [None] * 3


def test_a_run_with_many_shards_makes_them_all_with_one_sync_of_the_root(root: StoreRoot) -> None:
    """A sync of the root for each of 256 new shards would cost more than the entries' own."""
    files = Gated()
    files.gate.set()
    made = [entry(number) for number in range(120)]
    with DiskStore(root, mode="w", files=files) as store, store.writer(threads=1) as writer:
        for one in made:
            writer.submit(one)
    assert files.synced.count(str(root.path)) <= 16
    shards = {name for name in os.listdir(root.path) if len(name) == 2}
    assert shards == set(root.layout.shards or ())
    reader = DiskStore(root)
    assert all(reader.get(one.key) is not None for one in made)


def test_a_small_run_makes_only_the_shards_that_it_needs(root: StoreRoot) -> None:
    with DiskStore(root, mode="w") as store, store.writer(threads=4) as writer:
        for number in range(5):
            writer.submit(entry(number))
    assert len([name for name in os.listdir(root.path) if len(name) == 2]) <= 5
