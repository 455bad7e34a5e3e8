"""Archives, tables and logs in a bucket give what the same folder gives, in few requests."""

from __future__ import annotations

import json
import pickle
import secrets
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from fsspec import filesystem
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import ON_DISK
from tests.media.containers import chat, log, make_parquet, make_tar, make_zip, uri
from vcache_cli.buckets import Bucket, Place, open_bucket
from vcache_cli.errors import ItemError, ReadError
from vcache_cli.items import Group, MediaItem, WarmItem
from vcache_cli.media import LogRules, read_if, read_item, reopened, sources
from vcache_cli.media.object_bytes import object_bytes
from vcache_cli.media.object_parts import part_bytes
from vcache_cli.media.readable import read_most

ONE, TWO, THREE = (b"\x89PNG picture " + bytes([n]) * (100 + n) for n in (1, 2, 255))
MEMBERS = {"a.png": ONE, "deep/b.png": TWO, ".hidden.png": ONE, "note.txt": b"text"}
MIB = 1024 * 1024
_LATER = count(1)


@dataclass(frozen=True)
class Twin:
    """A folder, and a bucket that holds the same."""

    here: Path
    there: Place

    @property
    def bucket(self) -> Bucket:
        return open_bucket(self.there)

    def upload(self) -> None:
        for path in self.here.rglob("*"):
            if path.is_file():
                name = str(path.relative_to(self.here))
                self.bucket.write(self.there.below(name).path, path.read_bytes())

    def put(self, name: str, data: bytes) -> str:
        """URL of a new object."""
        place = self.there.below(name)
        self.bucket.write(place.path, data)
        return place.url

    def put_later(self, name: str, data: bytes) -> None:
        """As `put`, at a time of its own however fast the test is."""
        path = self.there.below(name).path
        self.bucket.write(path, data)
        filesystem("memory").store[f"/{path}"].created += timedelta(seconds=next(_LATER))


@pytest.fixture
def twin(tmp_path: Path) -> Iterator[Twin]:
    here = tmp_path / "corpus"
    here.mkdir()
    made = Twin(here, Place("memory", secrets.token_hex(8)))
    yield made
    for page in made.bucket.everything(made.there.path):
        for each in page:
            made.bucket.remove(each.path)


@dataclass
class Asked:
    """What was read of buckets, in order: first byte and end."""

    spans: list[tuple[str, int, int]]

    @property
    def size_bytes(self) -> int:
        return sum(end - start for _, start, end in self.spans)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    told = Asked([])
    read = Bucket.read

    def counting(bucket: Bucket, path: str, end: int, *, start: int = 0) -> bytes:
        told.spans.append((path, start, end))
        return read(bucket, path, end, start=start)

    monkeypatch.setattr(Bucket, "read", counting)
    return told


def fails(monkeypatch: pytest.MonkeyPatch, name: str, *, after: int) -> None:
    """Of an object only so many pieces can be had."""
    read, left = Bucket.read, [after]

    def breaking(bucket: Bucket, path: str, end: int, *, start: int = 0) -> bytes:
        if path.endswith(name):
            left[0] -= 1
            if left[0] < 0:
                raise ReadError("the connection was lost", kind="connection", hint="again")
        return read(bucket, path, end, start=start)

    monkeypatch.setattr(Bucket, "read", breaking)


ALSO = LogRules(groups="also")


def given_by(*specs: str, rules: LogRules = ALSO) -> list[WarmItem]:
    return list(sources(specs, rules=rules).items())


def told(found: WarmItem, top: str) -> object:
    """All that a run sees of it: name, how it was named, what is read or why nothing is."""
    if isinstance(found, Group):
        return [told(each, top) for each in found.items]
    item: MediaItem = pickle.loads(pickle.dumps(found))  # noqa: S301  as a worker gets it
    name = item.locator.replace(top, "")
    if item.trouble:
        shown = (item.trouble.kind, item.trouble.message, item.trouble.skipped)
        return name, item.explicit, shown
    try:
        return name, item.explicit, item.size_bytes, read_item(item, max_bytes=MIB)
    except ItemError as error:
        return name, item.explicit, error.item_kind


def same(twin: Twin, *names: str) -> list[object]:
    """What both give, which is the same."""
    twin.upload()
    here = [str(twin.here / name) if name else str(twin.here) for name in names]
    there = [twin.there.below(name).url if name else twin.there.url for name in names]
    found = [told(each, str(twin.here)) for each in given_by(*here)]
    assert [told(each, twin.there.url) for each in given_by(*there)] == found
    by_url = [f"file://{each}" for each in here]
    assert [told(each, str(twin.here)) for each in given_by(*by_url)] == found
    return found


def test_a_corpus_gives_what_its_local_copy_gives(twin: Twin) -> None:
    (twin.here / "single.png").write_bytes(THREE)
    (twin.here / "shards").mkdir()
    make_tar(twin.here / "shards" / "0.tar", MEMBERS)
    make_zip(twin.here / "shards" / "1.zip", MEMBERS)
    make_parquet(twin.here / "shards" / "2.parquet", {"a": ONE, "b": TWO, "c": b""})
    with tarfile.open(twin.here / "packed.tar.gz", "w:gz") as packed:
        packed.add(twin.here / "single.png", "single.png")
    log(twin.here / "chat.jsonl", [chat(uri(ONE), "single.png"), chat(uri(TWO)), "no json"])
    found = same(twin, "")
    assert len(found) == 12
    named = same(twin, "chat.jsonl", "packed.tar.gz", "*.jsonl", "shards/0.tar", "shards/*")
    assert [each for each in named if isinstance(each, list)]
    assert "packed_archive" in str(named)


def test_what_only_seems_to_be_a_container_is_told_alike(twin: Twin) -> None:
    for name in ("a.tar", "b.zip", "c.parquet", "d.jsonl", "e.tar.gz"):
        (twin.here / name).write_bytes(b"\x89PNG something else")
        (twin.here / f"empty-{name}").write_bytes(b"")
    assert len(same(twin, "")) == 10
    same(twin, "d.jsonl", "empty-d.jsonl", "a.tar", "missing.tar")


def test_nested_archives_and_excluded_members_are_left_out_alike(twin: Twin) -> None:
    make_tar(twin.here / "a.tar", {"in.zip": b"PK", "b.png": ONE})
    assert "nested_archive" in str(same(twin, "a.tar"))
    place = twin.there.below("a.tar").url
    kept = [each.source for each in sources([place], exclude=("*.zip",)).items()]
    assert kept == [f"{place}::b.png"]


def test_members_are_found_by_the_names_that_runs_give(twin: Twin) -> None:
    for url in (
        twin.put("a.tar", make_tar(twin.here / "a.tar", MEMBERS).read_bytes()),
        twin.put("b.zip", make_zip(twin.here / "b.zip", MEMBERS).read_bytes()),
    ):
        for item in given_by(url):
            assert isinstance(item, MediaItem)
            assert reopened(item.absolute_path).absolute_path == item.absolute_path
            assert reopened(item.source) == item
    assert reopened(f"{twin.there.url}/no.tar::a.png").part is None


def test_a_tar_of_pictures_is_streamed_once(twin: Twin, asked: Asked) -> None:
    members = {f"{number}.png": ONE + bytes(30_000) for number in range(500)}
    data = make_tar(twin.here / "a.tar", members).read_bytes()
    url = twin.put("a.tar", data)
    assert len(given_by(url)) == 500
    assert len(asked.spans) <= 10
    assert len(data) * 0.98 < asked.size_bytes <= len(data)
    assert max(end - start for _, start, end in asked.spans) <= 4 * MIB


@pytest.mark.parametrize("name", ["a.tar", "b.zip", "d.jsonl"])
def test_members_that_are_read_in_turn_are_fetched_together(
    twin: Twin, asked: Asked, name: str
) -> None:
    members = {f"{n:03}.png": ONE + secrets.token_bytes(10_000) for n in range(300)}
    make_tar(twin.here / "a.tar", members)
    make_zip(twin.here / "b.zip", members, packing=0)
    log(twin.here / "d.jsonl", [chat(uri(data)) for data in members.values()])
    items = given_by(twin.put(name, (twin.here / name).read_bytes()))
    asked.spans.clear()
    with ThreadPoolExecutor(4) as pool:
        reading = partial(read_item, max_bytes=MIB)
        read = list(pool.map(reading, [each for each in items if isinstance(each, MediaItem)]))
    assert read == list(members.values())
    assert len(asked.spans) < 100
    asked.spans.clear()
    for item in items[::-1]:  # nobody's order: each by itself
        assert isinstance(item, MediaItem)
        read_item(item, max_bytes=MIB)
    assert asked.size_bytes < 2 * (twin.here / name).stat().st_size


@given(
    reads=st.lists(
        st.tuples(
            st.integers(0, 9 * MIB), st.sampled_from([1, 64, 512, 70_000, MIB, MIB + 1, 5 * MIB])
        ),
        max_size=6,
    )
)
@ON_DISK
def test_pieces_are_what_lies_there(reads: list[tuple[int, int]]) -> None:
    data = bytes(range(256)) * (8 * MIB // 256)
    place = Place("memory", f"{secrets.token_hex(8)}/a")
    bucket = open_bucket(place)
    bucket.write(place.path, data)
    whole = object_bytes(place.url, None)
    for offset, size in reads:
        assert read_most(whole, offset, size) == data[offset : offset + size]
        part = part_bytes(place.url, None, at_once=size)
        assert read_most(part, offset, size) == data[offset : offset + size]
    bucket.remove(place.path)


def test_of_a_tar_of_large_members_only_headers_are_fetched(twin: Twin, asked: Asked) -> None:
    members = {f"{number}.mp4": bytes(3 * MIB) for number in range(3)}
    url = twin.put("a.tar", make_tar(twin.here / "a.tar", members).read_bytes())
    items = given_by(url)
    assert asked.size_bytes <= 4 * 64 * 1024
    asked.spans.clear()
    assert isinstance(items[1], MediaItem)
    assert read_if(items[1], lambda _head: None) is None
    assert asked.size_bytes <= 64 * 1024
    assert read_item(items[1], max_bytes=4 * MIB) == bytes(3 * MIB)


def test_of_a_zip_the_directory_and_what_is_needed_are_fetched(twin: Twin, asked: Asked) -> None:
    members = {f"{number}.png": ONE + bytes([number]) * 20_000 for number in range(200)}
    path = make_zip(twin.here / "a.zip", members, packing=0)
    items = given_by(twin.put("a.zip", path.read_bytes()))
    assert len(items) == 200
    assert len(asked.spans) <= 3
    assert asked.size_bytes < 200 * 1024
    asked.spans.clear()
    for number in (50, 150, 100):
        item = items[number]
        assert isinstance(item, MediaItem)
        assert read_item(item, max_bytes=MIB) == members[f"{number}.png"]
    assert len(asked.spans) == 3
    assert asked.size_bytes < 3 * 21_000


def test_of_a_table_the_footer_and_the_row_groups_in_use_are_fetched(
    twin: Twin, asked: Asked
) -> None:
    members = {f"{n}": ONE + secrets.token_bytes(30_000) for n in range(40)}
    path = make_parquet(twin.here / "a.parquet", members, row_group_size=10)
    items = given_by(twin.put("a.parquet", path.read_bytes()))
    assert len(items) == 40
    assert asked.size_bytes <= 2 * 64 * 1024
    asked.spans.clear()
    for item in items[:10]:
        assert isinstance(item, MediaItem)
        assert read_item(item, max_bytes=MIB) in members.values()
    assert asked.size_bytes < path.stat().st_size // 2


@pytest.mark.parametrize("name", ["a.tar", "b.zip", "c.parquet", "d.jsonl"])
def test_an_object_that_changed_after_it_was_listed_is_told(twin: Twin, name: str) -> None:
    """Of the same size: no byte of the new one is taken for one of the old."""
    make_tar(twin.here / "a.tar", {"x.png": ONE})
    make_zip(twin.here / "b.zip", {"x.png": ONE}, packing=0)
    make_parquet(twin.here / "c.parquet", {"x.png": ONE}, compression="none")
    log(twin.here / "d.jsonl", [chat(uri(ONE))])
    data = (twin.here / name).read_bytes()
    item = given_by(twin.put(name, data))[0]
    assert isinstance(item, MediaItem)
    twin.put_later(name, data)  # the same bytes, yet nobody can know that
    with pytest.raises(ReadError) as changed:
        read_item(item, max_bytes=MIB)
    assert changed.value.item_kind == "changed"
    assert changed.value.hint


@pytest.mark.parametrize("name", ["a.tar", "d.jsonl"])
def test_an_object_that_changes_while_it_is_listed_is_a_failure(
    twin: Twin, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make_tar(twin.here / "a.tar", {f"{n}.png": ONE + bytes(200_000) for n in range(3)})
    log(twin.here / "d.jsonl", [chat(uri(ONE + bytes(200_000))) for _ in range(3)])
    data = (twin.here / name).read_bytes()
    url, read = twin.put(name, data), Bucket.read

    def rewriting(bucket: Bucket, path: str, end: int, *, start: int = 0) -> bytes:
        found = read(bucket, path, end, start=start)
        twin.put_later(name, data)
        return found

    monkeypatch.setattr(Bucket, "read", rewriting)
    last = given_by(url)[-1]
    assert isinstance(last, MediaItem)
    assert last.path == url
    assert last.trouble is not None
    assert (last.trouble.kind, last.trouble.skipped) == ("changed", False)


@pytest.mark.parametrize(("name", "pieces"), [("a.tar", 2), ("b.zip", 1), ("c.parquet", 1)])
def test_a_connection_that_ends_inside_an_archive_fails_it_by_name(
    twin: Twin, monkeypatch: pytest.MonkeyPatch, name: str, pieces: int
) -> None:
    members = {f"{n}.png": ONE + secrets.token_bytes(30_000) for n in range(40)}
    make_tar(twin.here / "a.tar", members)
    make_zip(twin.here / "b.zip", members, packing=0)
    make_parquet(twin.here / "c.parquet", members)
    (twin.here / "z.png").write_bytes(TWO)
    twin.upload()
    fails(monkeypatch, name, after=pieces)
    found = [each for each in given_by(twin.there.url) if isinstance(each, MediaItem)]
    bad = [each for each in found if each.trouble]
    assert [(each.path, each.trouble and each.trouble.kind) for each in bad] == [
        (twin.there.below(name).url, "connection")
    ]
    assert found[-1].path == twin.there.below("z.png").url
    assert len(found) > 2 * len(members)


@pytest.mark.parametrize("name", ["a.tar", "b.zip", "c.parquet", "d.jsonl"])
def test_a_connection_that_ends_inside_a_member_fails_that_one(
    twin: Twin, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make_tar(twin.here / "a.tar", {"x.png": ONE})
    make_zip(twin.here / "b.zip", {"x.png": ONE})
    make_parquet(twin.here / "c.parquet", {"x.png": ONE})
    log(twin.here / "d.jsonl", [chat(uri(ONE))])
    (item,) = given_by(twin.put(name, (twin.here / name).read_bytes()))
    assert isinstance(item, MediaItem)
    with monkeypatch.context() as patch:
        fails(patch, name, after=0)
        with pytest.raises(ReadError, match="connection was lost") as failed:
            read_item(item, max_bytes=MIB)
    assert failed.value.item_kind == "connection"
    assert read_item(item, max_bytes=MIB) == ONE


def test_a_log_names_what_lies_beside_it_and_nothing_else(twin: Twin) -> None:
    inside = twin.put("logs/a.png", ONE)
    outside = twin.put("b.png", TWO)
    told = [
        *("a.png", "./deep/../a.png", inside, "no.png"),
        *("../b.png", outside, "/logs/a.png", f"{twin.there.url}/logs/../b.png", "."),
        *("file:///etc/hostname", "s3://other/a.png", "http://x.org/a.png", "memory://a@b/c"),
    ]
    lines = [json.dumps(chat(each)) for each in told]
    url = twin.put("logs/c.jsonl", "\n".join(lines).encode())
    found = [each for each in given_by(url) if isinstance(each, MediaItem)]
    assert [each.path for each in found[:4]] == [*[inside] * 3, f"{twin.there.url}/logs/no.png"]
    assert [each.stat is not None for each in found[:4]] == [True, True, True, False]
    kinds = [each.trouble.kind if each.trouble else "" for each in found[4:]]
    assert kinds[:6] == ["outside_root"] * 6
    assert kinds[6:] == ["unsupported_url", "http_not_allowed", "outside_root"]


def test_a_media_root_may_be_a_url(twin: Twin) -> None:
    inside = twin.put("pictures/a.png", ONE)
    path = log(twin.here / "c.jsonl", [chat("a.png"), chat("../b.png")])
    rules = LogRules(media_root=f"{twin.there.url}/pictures/")
    first, second = given_by(str(path), rules=rules)
    assert isinstance(first, MediaItem)
    assert (first.path, read_item(first, max_bytes=MIB)) == (inside, ONE)
    assert isinstance(second, MediaItem)
    assert second.trouble is not None


def test_objects_that_cannot_be_asked_for_fail_alone(
    twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = twin.put("c.jsonl", json.dumps(chat("a.png", uri(ONE))).encode())
    facts = Bucket.facts

    def refused(bucket: Bucket, path: str) -> object:
        if path.endswith("a.png"):
            raise ReadError("permission denied", kind="permission", hint="ask")
        return facts(bucket, path)

    monkeypatch.setattr(Bucket, "facts", refused)
    first, second = given_by(url)
    assert isinstance(first, MediaItem)
    assert first.trouble is not None
    assert first.trouble.kind == "permission"
    assert isinstance(second, MediaItem)
    assert read_item(second, max_bytes=MIB) == ONE
