"""A warm into a bucket that goes wrong: it ends soon, and says what is there and what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.assemble.corpora import corpus_of
from tests.cli.running import Result, running
from tests.patience import PATIENCE_SECONDS
from tests.store.care import entry
from vcache_cli.assemble import WarmOptions, open_remote_store, open_warm
from vcache_cli.assemble.targets import load_target
from vcache_cli.buckets import Bucket
from vcache_cli.errors import AccessError, ReadError, UsageError, VcacheError
from vcache_cli.remote import ObjectWriter, Record, RemoteEntry, open_remote, record, writer
from vcache_cli.remote.names import TAG_NAME, object_name
from vcache_cli.store.archive_parts import ArchivedFile, Origin

OPTIONS = WarmOptions(isolation="thread", workers=1, batch_size=1)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/bucket/caches"


@pytest.fixture
def warm(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    media: Path,
    tiny_siglip: Path,
    url: str,
) -> Callable[..., Result]:
    """The command, over two pictures, into the bucket."""
    monkeypatch.setenv("VCACHE_ISOLATION", "thread")
    sources = (media / "hills.jpg", media / "chart.png")
    vcache = running(capsys)
    return lambda *words: vcache("warm", *sources, "-m", tiny_siglip, "--store", url, *words)


def failing(monkeypatch: pytest.MonkeyPatch, part: str, kind: str, times: int = 10**6) -> list[str]:
    """Writes of paths with `part` fail so often; the paths that were tried."""
    tried: list[str] = []
    write = Bucket.write

    def written(self: Bucket, path: str, data: bytes) -> None:
        if part not in path:
            write(self, path, data)
            return
        tried.append(path)
        if len(tried) <= times:
            raise ReadError("told so", kind=kind)
        write(self, path, data)

    monkeypatch.setattr(Bucket, "write", written)
    return tried


@pytest.fixture
def objects(url: str) -> ObjectWriter:
    def noted(_entry: RemoteEntry) -> None:
        pass

    return ObjectWriter(open_remote(url), load_target("native").layout, noted)


def test_after_the_failure_that_ends_it_no_other_object_is_tried(
    objects: ObjectWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_MOST_FAILURES", 1)
    tried = failing(monkeypatch, "/objects/", "throttled")
    with objects:
        for number in range(5):
            with pytest.raises(AccessError, match="told so"):
                objects.submit(entry(number)).result(PATIENCE_SECONDS)
    assert len(tried) == 1


def slow(monkeypatch: pytest.MonkeyPatch, objects: ObjectWriter) -> None:
    """Each write waits for ever between two tries."""
    remote = objects._remote

    def written(_: Bucket, _path: str, _data: bytes) -> None:
        while True:
            remote.bucket.pause(PATIENCE_SECONDS)

    monkeypatch.setattr(Bucket, "write", written)


def test_what_is_abandoned_waits_for_no_service(
    objects: ObjectWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_MOST_FAILURES", 10**6)
    slow(monkeypatch, objects)
    with objects:
        waiting = [objects.submit(entry(number)) for number in range(writer.UPLOADS + 8)]
        objects.abandon()
    assert all(each.done() for each in waiting)
    assert sum(each.cancelled() for each in waiting) <= 8  # those that were begun have failed


def test_a_run_that_is_abandoned_says_what_is_there(
    url: str, media: Path, tiny_siglip: Path
) -> None:
    with open_warm(
        corpus_of(media / "hills.jpg"), store=url, model=str(tiny_siglip), options=OPTIONS
    ) as run:
        stored = [each.status for each in run]
        run.abandon()
    assert len(open_remote_store(url).entries) == len(stored) == 1


def test_what_no_manifest_names_is_told_and_nobody_is_sent_there(
    warm: Callable[..., Result], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        failing(patch, "/manifests/", "permission")
        run = warm()
    assert run.code == 14
    assert "2 entries stored there and named by no manifest: to be made again" in run.err
    assert "vcache pull" not in run.err
    run = warm()
    assert (run.code, "vcache pull" in run.err) == (0, True)
    assert len(open_remote_store(url).entries) == 2


@pytest.mark.parametrize(
    "fault", [("connection", 1, False), ("connection", 9, True), ("permission", 1, True)]
)
def test_a_part_that_cannot_be_said_once_does_not_end_a_long_run(
    url: str,
    media: Path,
    tiny_siglip: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: tuple[str, int, bool],
) -> None:
    kind, times, ends = fault
    monkeypatch.setattr(record, "PART_SECONDS", 0.0)
    failing(monkeypatch, "/manifests/", kind, times)
    names = ("hills.jpg", "chart.png", "depth.png", "press.jpg", "thumbnail.bmp")
    sources = corpus_of(*(media / name for name in names))
    error = None
    with open_warm(sources, store=url, model=str(tiny_siglip), options=OPTIONS) as run:
        try:
            done = len(list(run))
        except VcacheError as failed:
            error = failed
    assert (error is not None) == ends
    if not ends:
        assert len(open_remote_store(url).entries) == done == 5


def test_the_file_of_the_run_is_named_where_it_is(
    warm: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_MOST_FAILURES", 10**6)
    failing(monkeypatch, "/objects/", "timeout")
    run = warm("--json")
    place = Path(run.document["run_file"])
    assert place.name == f"{run.document['run']}.jsonl"
    assert len(place.read_text().splitlines()) == 3
    text = warm("--retry-errors").out
    (told,) = [line.split()[1] for line in text.splitlines() if line.startswith("run:")]
    assert Path(told).is_file()


def test_memos_that_cannot_be_kept_are_not_the_buckets_fault(
    warm: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run = warm()
    assert (run.code, "set XDG_CACHE_HOME to a folder" in run.err) == (14, True)


def test_a_walk_is_kept_away_from_the_first_object_on(url: str) -> None:
    remote = open_remote(url)
    before = remote.catalogue(must_exist=False)
    told = Record(remote, Origin("native", {}), before, warm_run="", clock=lambda: 0.0)
    told.tell()
    assert not remote.bucket.facts(remote.path(TAG_NAME))
    told.add([RemoteEntry(ArchivedFile("ab/x.safetensors", 1, "0" * 64))])
    told.tell()
    assert remote.bucket.facts(remote.path(TAG_NAME))
    assert not remote.catalogue(must_exist=False).manifests


def test_a_prune_of_what_the_run_has_put_there_itself_is_told(
    warm: Callable[..., Result], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, write = open_remote(url), Record._tell_all

    def pruned(self: Record, whole: dict[str, RemoteEntry]) -> None:
        remote.bucket.remove(remote.path(object_name(next(iter(remote.objects())))))
        write(self, whole)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "_tell_all", pruned)
        run = warm()
    assert (run.code, "1 entry that the run found or stored" in run.err) == (3, True)
    assert warm("--json").document["items"]["stored"] == 1


def test_a_store_in_a_folder_is_no_bucket(tmp_path: Path, media: Path, tiny_siglip: Path) -> None:
    (tmp_path / "store" / ".vcache").mkdir(parents=True)
    sources, url = corpus_of(media / "hills.jpg"), f"file://{tmp_path}/store"
    with pytest.raises(UsageError, match="is a store in a folder"):
        open_warm(sources, store=url, model=str(tiny_siglip), options=OPTIONS)


def test_a_store_among_its_own_sources_is_refused(warm: Callable[..., Result], url: str) -> None:
    run = warm(f"{url}/")
    assert (run.code, f"{url}/vcache" in run.err) == (2, True)
