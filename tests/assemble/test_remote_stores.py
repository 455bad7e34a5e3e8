"""Stores in buckets, without a service: what is believed of them, and what survives."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.store.archives import filled
from tests.store.care import add, entry
from tests.targets import ec_files
from vcache_cli.assemble import WarmOptions, open_remote_store, open_root, pull_entries
from vcache_cli.digest import canonical_json, digest_bytes
from vcache_cli.errors import (
    FormatTooNewError,
    NotAStoreError,
    RefusedError,
    UsageError,
    VcacheError,
)
from vcache_cli.remote import Chosen, RemoteStore, open_remote, plan_remote_prune, push_store
from vcache_cli.remote.manifest import manifest_of
from vcache_cli.remote.names import ManifestName, object_digest, object_name
from vcache_cli.remote.prune_choice import ORPHAN_SECONDS
from vcache_cli.remote.select import sorted_entries
from vcache_cli.store import StoreRoot
from vcache_cli.store.intake import IntakeResult
from vcache_cli.store.prune_scope import PruneScope
from vcache_cli.store.query import list_entries, parse_sort

OPTIONS = WarmOptions()


@pytest.fixture
def url() -> str:
    return f"memory://{secrets.token_hex(8)}/caches"


def push(root: StoreRoot, url: str, *numbers: int) -> str:
    """The run of a push of all entries, or of some."""
    rows = {row.key: row for row in list_entries(root).entries}
    wanted = frozenset(entry(number).key for number in numbers) if numbers else None
    return push_store(root, open_remote(url), Chosen(rows, wanted)).run


def pull(url: str, store: Path) -> IntakeResult:
    view = open_remote_store(url)
    return pull_entries(view, view.entries, store=store, options=OPTIONS)


def manifest_path(remote: RemoteStore) -> str:
    """Of the only manifest."""
    (found,) = remote.bucket.everything(remote.path("manifests"))
    return found[0].path


def names(remote: RemoteStore) -> list[str]:
    found = [each for page in remote.bucket.everything(remote.place.path) for each in page]
    return sorted(each.path.removeprefix(f"{remote.place.path}/") for each in found)


def resealed(lines: list[dict[str, Any]]) -> bytes:
    """A manifest whose end fits what is before it."""
    body = b"".join(canonical_json(line) + b"\n" for line in lines)
    return body + canonical_json({"end": True, "sha256": hashlib.sha256(body).hexdigest()}) + b"\n"


def first_entry(**fields: object) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda lines: [lines[0], {**lines[1], **fields}, *lines[2:]]


def head(**fields: object) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda lines: [{**lines[0], **fields}, *lines[1:]]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (first_entry(path="../../etc/passwd"), RefusedError),
        (first_entry(path="/etc/passwd"), RefusedError),
        (first_entry(path=".vcache/store.json"), RefusedError),
        (first_entry(path="aa/x.safetensors"), RefusedError),
        (first_entry(bytes=2**62), RefusedError),
        (first_entry(bytes=-1), RefusedError),
        (first_entry(sha256="../" + "a" * 61), RefusedError),
        (first_entry(sha256="A" * 64), RefusedError),
        (first_entry(model="m" * 600), RefusedError),
        (first_entry(tokens="many"), RefusedError),
        (first_entry(extra=1), RefusedError),
        (first_entry(source_sha256="x"), RefusedError),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], RefusedError),
        (lambda lines: [lines[0], lines[1], *lines[1:]], RefusedError),
        (lambda lines: lines[:-1], RefusedError),
        (lambda lines: lines[1:], RefusedError),
        (head(run="20260101T000000Z-00000000"), RefusedError),
        (head(target_options=[]), RefusedError),
        (head(target_options={"a": "b" * 20_000}), RefusedError),
        (head(target="n" * 80), RefusedError),
        (head(target="nobody-has-it"), UsageError),
        (head(format=2), FormatTooNewError),
        (head(store_format=99), FormatTooNewError),
        (head(format=True), RefusedError),
    ],
    ids=range(24),
)
def test_a_manifest_made_to_harm_is_refused(
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    error: type[VcacheError],
    url: str,
    tmp_path: Path,
) -> None:
    push(filled(tmp_path / "store", range(3)), url)
    remote = open_remote(url)
    path = manifest_path(remote)
    lines = [json.loads(line) for line in remote.bucket.read(path, 10**6).splitlines()[:-1]]
    remote.bucket.write(path, resealed(change(lines)))
    with pytest.raises(error):
        pull(url, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_manifest_that_was_cut_or_changed_is_refused(url: str, tmp_path: Path) -> None:
    push(filled(tmp_path / "store", range(2)), url)
    remote = open_remote(url)
    data = remote.bucket.read(manifest_path(remote), 10**6)
    name = ManifestName.parse(manifest_path(remote).removeprefix(f"{remote.place.path}/"))
    assert name is not None
    assert manifest_of(data, name).encoded() == data
    for at in range(0, len(data), 7):
        for changed in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            with pytest.raises((RefusedError, FormatTooNewError)):
                manifest_of(changed, name)


def test_bytes_that_are_no_entry_are_not_stored_although_their_digest_fits(
    url: str, tmp_path: Path
) -> None:
    """Whoever writes the bucket can make digests fit: the entry is checked as an import's is."""
    push(filled(tmp_path / "store", range(2)), url)
    remote = open_remote(url)
    path, bad = manifest_path(remote), b"\x08\0\0\0\0\0\0\0no entry"
    lines = [json.loads(line) for line in remote.bucket.read(path, 10**6).splitlines()[:-1]]
    lines[1] |= {"sha256": digest_bytes(bad), "bytes": len(bad)}
    lines[2]["sha256"], lines[2]["bytes"] = lines[1]["sha256"], lines[1]["bytes"]
    remote.bucket.write(path, resealed(lines))
    remote.bucket.write(remote.path(object_name(digest_bytes(bad))), bad)
    result = pull(url, tmp_path / "copy")
    assert result.remarks.failed == {"header": 2}
    assert list((tmp_path / "copy").glob("??/*")) == []


def test_names_of_strangers_are_ignored(url: str, tmp_path: Path) -> None:
    push(filled(tmp_path / "store", range(2)), url)
    remote = open_remote(url)
    for name in ("manifests/notes.txt", "objects/zz/x", "other", f"objects/ab/{'c' * 64}"):
        remote.bucket.write(remote.path(name), b"?")
    assert len(remote.objects()) == 2
    assert pull(url, tmp_path / "copy").counts["stored"] == 2
    assert object_digest(f"objects/cc/{'c' * 64}") == "c" * 64


def test_an_entry_of_other_bytes_is_kept_on_either_side(url: str, tmp_path: Path) -> None:
    """Two machines that made one entry at different times do not replace each other's."""
    push(filled(tmp_path / "one", [1, 2]), url)
    other = filled(tmp_path / "two", [3])
    origin = replace(entry(1).provenance, created="2020-01-01T00:00:00Z")
    add(other, replace(entry(1), provenance=origin))
    rows = {row.key: row for row in list_entries(other).entries}
    result = push_store(other, open_remote(url), Chosen(rows))
    assert result.counts == {"kept": 1, "pushed": 1}
    pulled = pull(url, other.path)
    assert pulled.counts == {"kept": 1, "stored": 1, "present": 1}
    assert len(open_remote(url).objects()) == 3


def test_a_servers_own_store_goes_and_comes_as_it_is(url: str, tmp_path: Path) -> None:
    for number in range(3):
        ec_files.put(tmp_path / "store", ec_files.digest_id(number))
    root = open_root(tmp_path / "store")
    assert root.meta.target == "vllm-ec"
    push(root, url)
    assert pull(url, tmp_path / "copy").counts == {"stored": 3}
    for path in (tmp_path / "store").glob(f"*/{ec_files.FILE}"):
        copy = tmp_path / "copy" / path.parent.name / ec_files.FILE
        assert copy.read_bytes() == path.read_bytes()
    with pytest.raises(RefusedError):
        push(filled(tmp_path / "native"), url)
    with pytest.raises(RefusedError):
        pull(url, tmp_path / "native")


def test_there_is_no_store_where_nothing_was_pushed(url: str, tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="no manifest"):
        open_remote_store(url)
    with pytest.raises(UsageError):
        open_remote("http://host/x")


def test_an_empty_push_writes_nothing(url: str, tmp_path: Path) -> None:
    assert push(filled(tmp_path / "store", []), url) == ""
    assert names(open_remote(url)) == []


def prune(url: str, *, grace_seconds: float = ORPHAN_SECONDS, **scope: Any) -> list[str]:  # noqa: ANN401  fields of any type
    view = open_remote_store(url)
    plan = plan_remote_prune(
        view.remote,
        PruneScope(**scope),
        layout=view.layout,
        catalogue=view.catalogue,
        grace_seconds=grace_seconds,
    )
    foreseen = [each.key for each in plan.doomed]
    assert [each.key for each in plan.execute().removed] == foreseen
    return foreseen


def test_a_prune_keeps_the_runs_and_leaves_no_object_behind(url: str, tmp_path: Path) -> None:
    root = filled(tmp_path / "store", range(4))
    first, second = push(root, url), push(root, url, 1, 2)
    assert prune(url, keys=frozenset({entry(1).key})) == [entry(1).key]
    view = open_remote_store(url)
    assert view.of_run(first) == {entry(number).key for number in (0, 2, 3)}
    assert view.of_run(second) == {entry(2).key}
    found = names(view.remote)
    assert len([each for each in found if each.startswith("manifests/")]) == 2
    assert len([each for each in found if each.startswith("objects/")]) == 3
    left = {entry(number).key for number in (0, 2, 3)}
    assert set(prune(url, max_size_bytes=0)) == left
    assert names(view.remote) == ["CACHEDIR.TAG"]


def test_two_prunes_at_once_both_count(url: str, tmp_path: Path) -> None:
    push(filled(tmp_path / "store", range(4)), url)
    views = [open_remote_store(url) for _ in range(2)]
    for number, view in enumerate(views):
        scope = PruneScope(keys=frozenset({entry(number).key}))
        plan_remote_prune(
            view.remote, scope, layout=view.layout, catalogue=view.catalogue
        ).execute()
    left = open_remote_store(url)
    assert set(left.entries) == {entry(2).key, entry(3).key}
    assert len(left.catalogue.tied) == 1
    assert prune(url, keys=frozenset({entry(2).key})) == [entry(2).key]
    assert open_remote_store(url).catalogue.tied == {}
    assert pull(url, tmp_path / "copy").counts == {"stored": 1}


def test_a_prune_that_was_killed_is_done_to_the_end_by_the_next(url: str, tmp_path: Path) -> None:
    push(filled(tmp_path / "store", range(3)), url)
    view = open_remote_store(url)
    manifest = view.catalogue.manifests[0]
    anew = replace(manifest, name=manifest.name.next(), entries=manifest.entries[1:])
    view.remote.bucket.write(view.remote.path(anew.name.name), anew.encoded())
    assert len(open_remote_store(url).entries) == 2
    gone = object_name(manifest.entries[0].file.sha256)
    assert prune(url, model="nobody") == []
    assert gone in names(view.remote)
    assert prune(url, model="nobody", grace_seconds=0.0) == [gone]
    assert len([each for each in names(view.remote) if "manifests" in each]) == 1


def test_what_a_killed_push_to_a_folder_was_writing_is_an_orphan(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    push(filled(tmp_path / "store", range(2)), f"file://{folder}")
    whole = names(open_remote(f"file://{folder}"))
    left = [f"{whole[1]}.0123abcd.part", f"{whole[-1]}.89abcdef.part"]
    for name in (*left, "mine.0123abcd.part"):
        (folder / name).write_bytes(b"half")
    assert prune(f"file://{folder}", model="nobody") == []
    assert sorted(prune(f"file://{folder}", model="nobody", grace_seconds=0.0)) == sorted(left)
    assert names(open_remote(f"file://{folder}")) == sorted([*whole, "mine.0123abcd.part"])


def test_a_push_that_relied_on_what_a_prune_removes_is_told(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither has seen the other's last deed: whoever looks last tells of it."""
    root = filled(tmp_path / "store", range(2))
    push(root, url)
    view = open_remote_store(url)
    scope = PruneScope(keys=frozenset({entry(0).key}))
    plan = plan_remote_prune(view.remote, scope, layout=view.layout, catalogue=view.catalogue)
    remove = type(plan)._removed

    def after_a_push(self: Any, digest: str) -> str | None:  # noqa: ANN401  as the method
        view.remote.bucket.write(view.remote.path(other.name.name), other.encoded())
        return remove(self, digest)

    first = view.catalogue.manifests[0]
    other = replace(first, name=ManifestName.new())
    monkeypatch.setattr(type(plan), "_removed", after_a_push)
    result = plan.execute()
    assert [why for _, why in result.failed] == [
        "a push relied on it meanwhile: push again from where it came"
    ]
    assert pull(url, tmp_path / "copy").remarks.failed == {"missing": 1}
    again = push_store(root, open_remote(url), Chosen({}))
    assert again.counts == {"pushed": 1, "present": 1}
    assert pull(url, tmp_path / "copy").counts == {"stored": 1, "present": 1}


def test_entries_come_in_every_order(url: str, tmp_path: Path) -> None:
    root = filled(tmp_path / "store", range(3))
    add(root, entry(9, model="other", tokens=7))
    push(root, url)
    found = open_remote_store(url).entries
    for text in ("key", "size", "used", "created:desc", "tokens:desc", "model", "source"):
        keys = sorted_entries(found, parse_sort(text))
        assert sorted(keys) == sorted(found)
    assert sorted_entries(found, parse_sort("model"))[0] == entry(9, model="other", tokens=7).key
