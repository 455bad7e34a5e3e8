"""The driver's and the worker's side of a run in parts, without a cluster between them."""

from __future__ import annotations

import os
import pickle
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.assemble.corpora import copied, corpus_of
from vcache_cli.assemble import WarmOptions, WarmRun, open_remote_store, open_root, open_warm
from vcache_cli.assemble.cluster import ShardWork
from vcache_cli.assemble.cluster_pass import ClusterPass, Firsts
from vcache_cli.assemble.shard_flow import BucketFlow, ShardFlow, Told
from vcache_cli.assemble.stores import open_budget
from vcache_cli.assemble.targets import load_target
from vcache_cli.errors import AccessError, ModelError, NotAStoreError, ReadError, StoreFullError
from vcache_cli.items import MediaItem
from vcache_cli.outcome import Status
from vcache_cli.protocols import Loss
from vcache_cli.remote.names import object_name


@pytest.fixture
def corpus(media: Path, tmp_path: Path) -> Path:
    """Nine files of three contents."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    names = [media / name for name in ("thumbnail.bmp", "chart.png", "hills.jpg")]
    for each in "abc":
        copied(folder / each, names)
    return folder


@pytest.fixture
def work(tiny_siglip: Path, tmp_path: Path) -> ShardWork:
    """On a store that a run has just made."""
    return work_on(tmp_path / "store", tiny_siglip)


def work_on(store: Path, model: Path) -> ShardWork:
    options = WarmOptions(engine="ray", isolation="thread", workers=1)
    run = open_warm(corpus_of(), store=store, model=str(model), options=options)
    run._log = type("Log", (), {"path": store / ".vcache/store.json"})()
    return run._work()


def items(corpus: Path) -> list[MediaItem]:
    return [each for each in corpus_of(corpus).items() if isinstance(each, MediaItem)]


@dataclass
class Loopback:
    """A session whose workers are flows in this process; each has every second shard."""

    work: ShardWork
    flows: Sequence[ShardFlow | BucketFlow]
    error: None = None
    _waiting: list[MediaItem] = field(default_factory=list)
    stopped: bool = False
    looks: int = 0
    """Calls that asked for what is there."""

    @property
    def full(self) -> bool:
        return len(self._waiting) >= 6

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def submit(self, value: MediaItem) -> bool:
        self._waiting.append(value)
        return len(self._waiting) % 3 == 0

    def stop(self) -> None:
        self.stopped = True
        self._waiting.clear()

    def take(self, *, wait: bool) -> list[Told]:
        if not wait:
            self.looks += 1
            return []
        found: list[Told] = []
        for number, flow in enumerate(self.flows):
            found += flow.run(self._waiting[number :: len(self.flows)])
        self._waiting.clear()
        return found


@pytest.fixture
def two_workers(work: ShardWork) -> Iterator[Loopback]:
    with work.opened() as one, work.opened() as other:
        yield Loopback(work, (one, other))


def test_copies_in_parts_of_several_workers_are_counted_as_in_one_run(
    corpus: Path, two_workers: Loopback
) -> None:
    found = list(ClusterPass(cast("Any", two_workers), lanes={}).run(items(corpus)))
    assert Counter(each.status for each in found) == {Status.STORED: 3, Status.COPY: 6}
    assert len({each.item.path for each in found}) == 9


def test_workers_are_looked_at_when_there_is_something_to_hand_out(
    corpus: Path, two_workers: Loopback
) -> None:
    """A look costs more than an item, and the more, the more workers there are."""
    list(ClusterPass(cast("Any", two_workers), lanes={}).run(items(corpus)))
    assert two_workers.looks == 9 // 3


def test_what_was_there_before_the_run_is_present(
    corpus: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    options = WarmOptions(isolation="thread")
    with open_warm(corpus_of(corpus), store=store, model=str(tiny_siglip), options=options) as run:
        list(run)
    long_ago = time.time() - 7200
    for path in store.glob("??/*"):
        os.utime(path, (long_ago, long_ago))
    with work_on_now(store, tiny_siglip).opened() as flow:
        assert {each.outcome.status for each in flow.run(items(corpus))} == {Status.PRESENT}
    assert all(path.stat().st_mtime > long_ago + 3600 for path in store.glob("??/*"))


def work_on_now(store: Path, model: Path) -> ShardWork:
    return replace(work_on(store, model), since_ns=time.time_ns())


def test_what_a_lost_worker_stored_is_told_once_as_stored(corpus: Path, work: ShardWork) -> None:
    with work.opened() as lost:
        list(lost.run(items(corpus)[:3]))  # and nobody hears of it
    with work.opened() as other:
        again = [work.again(each).outcome for each in other.run(items(corpus)[:3])]
    firsts = Firsts()
    assert [firsts.settle(each).status for each in again] == [Status.STORED] * 3
    assert [firsts.settle(each).status for each in again] == [Status.COPY] * 3
    assert {notice.kind for each in again for notice in each.notices} == {"worker_lost"}


def test_what_took_several_workers_with_it_fails_and_is_not_remembered(
    corpus: Path, work: ShardWork
) -> None:
    outcome = work.lost(items(corpus)[0], Loss("crashed", "they were lost", 0.0), None).outcome
    assert outcome.status is Status.FAILED
    assert outcome.failure
    assert (outcome.failure.kind, outcome.failure.transient) == ("crashed", True)


def test_the_work_crosses_machines_without_objects(work: ShardWork) -> None:
    data = pickle.dumps(work)
    assert pickle.loads(data) == work  # noqa: S301  our own
    assert len(data) < 8192


def test_another_recipe_is_refused(work: ShardWork) -> None:
    other = replace(work, recipe=replace(work.recipe, profile_revision=99))
    with pytest.raises(ModelError, match="profile_revision"), other.opened():
        pass


def test_another_store_under_the_same_path_is_refused(work: ShardWork, tmp_path: Path) -> None:
    for other in (replace(work, store_id="other"), replace(work, store=str(tmp_path / "none"))):
        with pytest.raises(NotAStoreError, match="not the same store"), other.opened():
            pass


def test_the_room_is_divided_among_the_workers(work: ShardWork) -> None:
    root, options = open_root(work.store), WarmOptions(max_size_bytes=1000)
    budget = open_budget(root, options, load_target("native"), shares=4)
    assert budget
    budget.reserve(250)
    with pytest.raises(StoreFullError):
        budget.reserve(1)


def test_a_run_that_gives_up_takes_no_more(corpus: Path, two_workers: Loopback) -> None:
    made = ClusterPass(cast("Any", two_workers), lanes={})
    for _ in made.run(items(corpus)):
        made.give_up(ModelError("enough"))
    assert two_workers.stopped
    assert made.error
    assert made.error.message == "enough"


def test_lanes_of_a_run_here_are_its_own(tiny_siglip: Path, tmp_path: Path, media: Path) -> None:
    options = WarmOptions(isolation="thread", workers=3)
    run: WarmRun = open_warm(
        corpus_of(media), store=tmp_path / "store", model=str(tiny_siglip), options=options
    )
    with run:
        assert run.lanes["prepare"] == 3


@pytest.fixture
def url() -> str:
    return f"memory://{secrets.token_hex(8)}/caches"


@contextmanager
def bucket_run(corpus: Path, url: str, model: Path, workers: int = 2) -> Iterator[WarmRun]:
    """A run on workers in this process; none of them may work where there are none."""
    options = WarmOptions(engine="ray", isolation="thread", workers=1)

    @contextmanager
    def here(work: ShardWork, **more: Any) -> Iterator[ClusterPass]:  # noqa: ANN401  passed on
        with ExitStack() as held:
            data = pickle.dumps(work)  # as it crosses machines
            crew = [pickle.loads(data) for _ in range(workers)]  # noqa: S301  our own
            flows = [held.enter_context(each.opened()) for each in crew]
            yield ClusterPass(cast("Any", Loopback(work, flows)), lanes={}, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vcache_cli.assemble.bucket_run.open_cluster", here)
        with open_warm(corpus_of(corpus), store=url, model=str(model), options=options) as run:
            yield run


def test_workers_write_to_a_bucket_and_the_driver_says_so(
    corpus: Path, url: str, tiny_siglip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    with bucket_run(corpus, url, tiny_siglip) as run:
        assert Counter(each.status for each in run) == {Status.STORED: 3, Status.COPY: 6}
        named = run.summary().as_json()["run"]
    here, options = tmp_path / "here", WarmOptions(isolation="thread")
    with open_warm(corpus_of(corpus), store=here, model=str(tiny_siglip), options=options) as run:
        list(run)
    view = open_remote_store(url)
    assert view.of_run(named) == view.entries.keys()
    for path in here.glob("??/*"):
        entry = view.entries[path.stem].file
        data = view.remote.bucket.read(view.remote.path(object_name(entry.sha256)), 10**9)
        assert data == path.read_bytes()


def test_the_driver_of_a_bucket_remembers_for_its_workers(
    corpus: Path, url: str, tiny_siglip: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("vcache_cli.store.memos.SETTLE_NS", -1)
    with bucket_run(corpus, url, tiny_siglip) as run:
        list(run)
    monkeypatch.setattr("vcache_cli.buckets.Bucket.write", None)
    with bucket_run(corpus, url, tiny_siglip, workers=0) as run:
        assert Counter(each.status for each in run) == {Status.PRESENT: 9}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    with bucket_run(corpus, url, tiny_siglip) as run:
        assert Counter(each.status for each in run) == {Status.PRESENT: 9}


def test_what_ends_a_worker_of_a_bucket_names_its_node(
    corpus: Path, url: str, tiny_siglip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_bucket: object, _path: str, _data: bytes) -> None:
        raise ReadError("permission denied", kind="permission", hint="ask for it")

    with bucket_run(corpus, url, tiny_siglip) as run:
        monkeypatch.setattr("vcache_cli.buckets.Bucket.write", refused)
        with pytest.raises(AccessError, match=f"node {os.uname().nodename}: {url}: permission"):
            list(run)


def test_a_node_without_the_extra_is_named_with_what_to_install(
    corpus: Path, url: str, tiny_siglip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_url: str) -> None:
        raise ModelError("`s3://` needs the package s3fs", hint="pip install 'vcache-cli[remote]'")

    monkeypatch.setattr("vcache_cli.assemble.cluster.open_remote", missing)
    with (
        pytest.raises(ModelError, match=f"node {os.uname().nodename}: .* s3fs") as raised,
        bucket_run(corpus, url, tiny_siglip),
    ):
        pass
    assert "vcache-cli[remote]" in raised.value.hint
