"""A warm straight into a bucket leaves what a warm here and a push of it would."""

from __future__ import annotations

import json
import pickle
import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vcache_cli as vcache
from samples.make_tiny_qwen import make_checkpoint
from tests.assemble.corpora import copied, corpus_of
from tests.targets import ec_files
from vcache_cli.assemble import (
    WarmOptions,
    open_remote_store,
    open_root,
    open_warm,
    pull_entries,
)
from vcache_cli.assemble.bucket_share import BucketShare
from vcache_cli.buckets import Bucket
from vcache_cli.digest import digest_bytes
from vcache_cli.errors import (
    AccessError,
    NotAStoreError,
    PartialFailureError,
    ReadError,
    RefusedError,
    UsageError,
    VcacheError,
)
from vcache_cli.outcome import Outcome, Status
from vcache_cli.remote import (
    Chosen,
    Holdings,
    Record,
    RemoteEntry,
    open_remote,
    push_store,
    record,
    writer,
)
from vcache_cli.store.archive_parts import ArchivedFile
from vcache_cli.store.query import list_entries

OPTIONS = WarmOptions(isolation="thread", workers=1, batch_size=2)
NAMES = ("thumbnail.bmp", "chart.png", "hills.jpg", "depth.png", "press.jpg")


@pytest.fixture
def corpus(media: Path, tmp_path: Path) -> Path:
    """Five pictures, two of them twice."""
    folder = copied(tmp_path / "corpus", [media / name for name in NAMES])
    for name in NAMES[:2]:
        (folder / f"copy-{name}").write_bytes((media / name).read_bytes())
    return folder


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setattr("vcache_cli.store.memos.SETTLE_NS", -1)


@pytest.fixture
def url() -> str:
    return f"memory://{secrets.token_hex(8)}/caches"


Warm = Callable[..., tuple[Counter[Status], str]]


@pytest.fixture
def warm(corpus: Path, tiny_siglip: Path) -> Warm:
    """Warm the corpus: what became of its items, and the run's id."""

    def warmed(store: Path | str, **options: Any) -> tuple[Counter[Status], str]:  # noqa: ANN401
        chosen = WarmOptions(**{"isolation": "thread", "workers": 1, "batch_size": 2, **options})
        found: list[Outcome] = []
        run = open_warm(corpus_of(corpus), store=store, model=str(tiny_siglip), options=chosen)
        with run:
            found.extend(run)
        return Counter(each.status for each in found), run.summary().as_json()["run"]

    return warmed


def names(url: str, below: str = "") -> list[str]:
    """Of all objects of the store, or of those in a folder of it."""
    remote = open_remote(url)
    pages = remote.bucket.everything(remote.place.path)
    found = [each.path.removeprefix(f"{remote.place.path}/") for page in pages for each in page]
    return sorted(name for name in found if name.startswith(below))


def contents(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.glob("*/*.safetensors")}


def pulled(url: str, store: Path, run: str | None = None) -> dict[str, bytes]:
    view = open_remote_store(url)
    keys = view.of_run(run) if run else view.entries
    assert pull_entries(view, keys, store=store, options=OPTIONS).error is None
    return contents(store)


def refusing(
    monkeypatch: pytest.MonkeyPatch, kind: str, *, after: int = 0, last: int = 10**6
) -> None:
    """Writes of entries fail, from the one after so many to the last."""
    number, write = iter(range(10**6)), Bucket.write

    def written(self: Bucket, path: str, data: bytes) -> None:
        if "/objects/" in path and after <= next(number) <= last:
            raise ReadError("told so", kind=kind)
        write(self, path, data)

    monkeypatch.setattr(Bucket, "write", written)


def test_a_bucket_gets_what_a_folder_would(url: str, warm: Warm, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    found, run = warm(url)
    assert found == warm(here)[0] == {Status.STORED: 5, Status.COPY: 2}
    assert pulled(url, there) == contents(here)
    assert pulled(url, tmp_path / "of run", run) == contents(here)
    root = open_root(here)
    chosen = Chosen({row.key: row for row in list_entries(root).entries})
    pushed = push_store(root, open_remote(url), chosen)
    assert pushed.counts == {"present": 5}


def test_a_second_run_finds_all_and_writes_nothing(
    url: str, warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = warm(url)
    before = names(url)
    monkeypatch.setattr(Bucket, "write", None)
    monkeypatch.setattr("vcache_cli.pipeline.prepare.read_if", None)  # nor is a picture opened
    assert warm(url)[0] == {Status.PRESENT: 7}
    assert names(url) == before
    assert open_remote_store(url).of_run(first)


def test_another_machine_finds_all_by_content(
    url: str, warm: Warm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    warm(url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Bucket, "write", None)
    assert warm(url)[0] == {Status.PRESENT: 7}


def test_a_run_over_more_names_what_it_found_as_well(
    url: str, warm: Warm, corpus: Path, media: Path, tmp_path: Path
) -> None:
    _, first = warm(url)
    copied(corpus / "more", [media / "fruit-faded.png"])
    found, second = warm(url)
    assert (found[Status.STORED], found[Status.PRESENT]) == (1, 7)
    assert len(pulled(url, tmp_path / "first", first)) == 5
    assert len(pulled(url, tmp_path / "second", second)) == 6
    assert len(pulled(url, tmp_path / "last", "last")) == 6


def killed(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """From that part on, or from its end, the driver says nothing any more."""
    number, part = iter(range(10**6)), Record._tell_part

    def ended(self: Record) -> None:
        if not self.ended:
            self.ended = True
            raise KeyboardInterrupt

    def told(self: Record) -> None:
        if next(number) >= after:
            ended(self)
        with self._lock:  # one entry, however many are there by now: else it might have said all
            (path, first), *others = self._new.items()
            self._new = {path: first}
        part(self)
        self.add(entry for _, entry in others)

    monkeypatch.setattr(record, "PART_SECONDS", 0.0)
    monkeypatch.setattr(Record, "_tell_part", told)
    monkeypatch.setattr(Record, "finish", ended)


def test_what_a_killed_driver_had_said_is_not_done_again(
    url: str, warm: Warm, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        killed(patch, after=1)
        with pytest.raises(KeyboardInterrupt):
            warm(url)
    said = open_remote_store(url).entries
    assert 0 < len(said) <= 5
    found, run = warm(url)
    assert found[Status.STORED] == 5 - len(said)
    warm(tmp_path / "here")
    assert pulled(url, tmp_path / "copy", run) == contents(tmp_path / "here")


def test_parts_are_said_as_they_come_and_one_manifest_stands_for_them_at_the_end(
    url: str, warm: Warm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(record, "PART_SECONDS", 0.0)
    parts = []
    write = Record._write_manifest

    def written(self: Record, entries: Any) -> object:  # noqa: ANN401  passed on
        name = write(self, entries)
        parts.append(len(names(url, "manifests/")))
        return name

    monkeypatch.setattr(Record, "_write_manifest", written)
    _, run = warm(url)
    assert parts == list(range(1, len(parts) + 1))
    assert len(parts) >= 2
    assert len(names(url, "manifests/")) == 1
    assert len(pulled(url, tmp_path / "copy", run)) == 5


def test_a_run_too_large_for_one_manifest_has_several(
    url: str, warm: Warm, corpus: Path, media: Path, tmp_path: Path
) -> None:
    warm(url)
    copied(corpus / "more", [media / "fruit-faded.png"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "MOST_ENTRIES", 2)
        _, run = warm(url)
    assert len(names(url, "manifests/")) == 1 + 1 + 3  # what is new, and five that were found
    assert len(pulled(url, tmp_path / "copy", run)) == 6
    before = names(url)
    assert warm(url)[0] == {Status.PRESENT: 8}
    assert names(url) == before


@pytest.mark.parametrize(
    ("kind", "error"), [("permission", AccessError), ("not_found", NotAStoreError)]
)
def test_a_bucket_that_takes_no_more_ends_the_run_and_keeps_what_it_has(
    url: str, warm: Warm, tmp_path: Path, kind: str, error: type[VcacheError]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        refusing(patch, kind, after=2)
        with pytest.raises(error, match="told so"):
            warm(url)
    assert len(pulled(url, tmp_path / "half")) == 2
    assert warm(url)[0][Status.STORED] == 3
    assert len(pulled(url, tmp_path / "whole")) == 5


def test_an_object_that_cannot_be_written_fails_its_item_alone(url: str, warm: Warm) -> None:
    with pytest.MonkeyPatch.context() as patch:
        refusing(patch, "timeout", after=1, last=1)
        found, _ = warm(url)
    assert 0 < found[Status.FAILED] <= 2  # a copy may share its fate
    assert len(open_remote_store(url).entries) >= 4
    found, _ = warm(url)  # transient: tried again without being asked
    assert not found[Status.FAILED]
    assert len(open_remote_store(url).entries) == 5


def test_a_service_that_is_gone_ends_the_run_before_all_is_encoded_in_vain(
    url: str, warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, "connection")
    monkeypatch.setattr(writer, "_MOST_FAILURES", 2)
    with pytest.raises(AccessError, match="told so"):
        warm(url)
    assert not names(url)


def test_what_a_prune_removed_meanwhile_is_told(
    url: str, warm: Warm, corpus: Path, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm(url)
    copied(corpus / "more", [media / "fruit-faded.png"])
    remote, look = open_remote(url), Record._look_again

    def pruned(self: Record, whole: dict[str, RemoteEntry]) -> None:
        remote.bucket.remove(remote.path(names(url, "objects/")[0]))
        remote.bucket.remove(remote.path(names(url, "objects/")[0]))
        look(self, whole)

    monkeypatch.setattr(Record, "_look_again", pruned)
    with pytest.raises(PartialFailureError, match="removed by a prune"):
        warm(url)
    monkeypatch.setattr(Record, "_look_again", look)
    assert warm(url)[0][Status.STORED] == 2


def test_limits_of_a_folder_are_refused_before_anything_is_asked(warm: Warm) -> None:
    for options in ({"max_size_bytes": 10**9}, {"min_free_bytes": 1}, {"on_full": "prune"}):
        with pytest.raises(UsageError):
            warm("memory://never-asked/x", **options)


def test_a_store_of_another_kind_is_refused(url: str, warm: Warm, tmp_path: Path) -> None:
    ec_files.put(tmp_path / "store", ec_files.digest_id(0))
    root = open_root(tmp_path / "store")
    push_store(root, open_remote(url), Chosen({}))
    with pytest.raises(RefusedError, match="is a store of target `vllm-ec`, not `native`"):
        warm(url)


def test_an_omlx_entry_of_another_recipe_is_made_anew(
    url: str, corpus: Path, tmp_path: Path
) -> None:
    """Its key leaves weights and settings out."""
    model = make_checkpoint(tmp_path / "qwen", family="qwen2_5_vl")
    settings = model / "preprocessor_config.json"
    options = WarmOptions(
        target="omlx",
        profile="omlx",
        backend="numpy",
        isolation="thread",
        workers=1,
        target_options={"model_name": "/m/a"},
    )

    def warmed() -> Counter[Status]:
        with open_warm(corpus_of(corpus), store=url, model=str(model), options=options) as run:
            return Counter(each.status for each in run)

    def set_pixels(most: int) -> None:
        known = json.loads(settings.read_text())
        settings.write_text(json.dumps({**known, "max_pixels": most}))

    set_pixels(12_544)
    assert warmed()[Status.STORED] == 5
    before = pulled(url, tmp_path / "first")
    assert warmed() == {Status.PRESENT: 7}
    set_pixels(6_272)
    assert warmed()[Status.STORED] == 5
    assert pulled(url, tmp_path / "second").keys() == before.keys()
    assert warmed() == {Status.PRESENT: 7}


def test_the_library_takes_a_url_as_well(url: str, corpus: Path, tiny_siglip: Path) -> None:
    found = vcache.warm(corpus, store=url, model=tiny_siglip, options=OPTIONS)
    assert Counter(each.status for each in found) == {Status.STORED: 5, Status.COPY: 2}
    assert len(open_remote_store(url).entries) == 5


@pytest.fixture
def share(url: str, warm: Warm) -> BucketShare:
    """Of a store that was warmed."""
    warm(url)
    return BucketShare(url, Holdings.of(open_remote_store(url).entries.values()))


def test_presence_crosses_processes_in_48_bytes_of_an_entry(url: str, share: BucketShare) -> None:
    view = open_remote_store(url)
    present = pickle.loads(pickle.dumps(share.found(view.layout)))  # noqa: S301  our own
    assert all(present(key) for key in view.entries)
    assert not present("0" * 64)
    assert len(share.holdings.packed) == 48 * len(view.entries)


def test_an_empty_store_holds_nothing() -> None:
    assert Holdings.of([]).digest("ab/x.safetensors") is None


@given(st.sets(st.text(max_size=8), max_size=40), st.text(max_size=8))
def test_holdings_know_the_digest_of_each_path_and_no_other(paths: set[str], other: str) -> None:
    digests = {path: digest_bytes(f"of {path}".encode("utf-8", "replace")) for path in paths}
    files = [ArchivedFile(path, 1, digest) for path, digest in digests.items()]
    holdings = Holdings.of(RemoteEntry(each) for each in files)
    assert len(holdings) == len(paths)
    for path in {*paths, other}:
        assert holdings.digest(path) == digests.get(path)
