"""Objects as items: by the rules of folders, and by those of prefixes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcache_cli.buckets import Bucket, Place, open_bucket, parse_place
from vcache_cli.errors import AccessError, NothingToDoError, ReadError, UsageError
from vcache_cli.items import MediaItem
from vcache_cli.media import objects, read_if, read_item, sources
from vcache_cli.media.clip_source import open_source


@pytest.fixture
def top() -> Iterator[str]:
    """A bucket in memory: URL of its folder `photos`, beside which lies `photos2`."""
    place = Place("memory", secrets.token_hex(8))
    bucket = open_bucket(place)
    for name in (
        *("photos/b.jpg", "photos/a.png", "photos/.hidden.jpg", "photos/.git/x.jpg"),
        *("photos/deep/c.jpg", "photos/deep/er/d.jpg", "photos/note.txt"),
        *("photos2/e.jpg", "photos/[f].jpg"),
    ):
        bucket.write(place.below(name).path, name.encode())
    yield place.below("photos").url
    for page in bucket.everything(place.path):
        for each in page:
            bucket.remove(each.path)


def found(*specs: str, exclude: tuple[str, ...] = ()) -> list[str]:
    """What the sources give, below the bucket's folder."""
    items = sources(specs, exclude=exclude).items()
    return [item.source.partition("/photos")[2] for item in items]


def test_a_folder_gives_what_lies_below_it_and_no_other_prefix(top: str) -> None:
    wanted = ["/[f].jpg", "/a.png", "/b.jpg", "/note.txt", "/deep/c.jpg", "/deep/er/d.jpg"]
    assert found(top) == found(f"{top}/") == wanted


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("/*.jpg", ["/[f].jpg", "/b.jpg"]),
        ("/**/*.jpg", ["/[f].jpg", "/b.jpg", "/deep/c.jpg", "/deep/er/d.jpg"]),
        ("/**/er/*", ["/deep/er/d.jpg"]),
        ("/d*", ["/deep/c.jpg", "/deep/er/d.jpg"]),
        ("/deep/*/d.jpg", ["/deep/er/d.jpg"]),
        ("*/e.jpg", ["2/e.jpg"]),
        ("/[f].jpg", ["/[f].jpg"]),
        ("/b.jpg", ["/b.jpg"]),
    ],
)
def test_a_glob_matches_as_in_folders(top: str, glob: str, names: list[str]) -> None:
    assert found(top + glob) == names


def test_what_matches_nothing_is_told(top: str) -> None:
    with pytest.raises(NothingToDoError, match="no object matches"):
        found(f"{top}/*.gif")
    with pytest.raises(UsageError, match="cannot be a glob"):
        found("memory://b*/a")
    assert found(f"{top}/missing.jpg") == ["/missing.jpg"]


def test_exclude_and_stores_leave_objects_out(top: str) -> None:
    place = Place("memory", top.removeprefix("memory://"))
    tag = b"Signature: 8a477f597d28d172789f06886806bc55\n"
    open_bucket(place).write(place.below("deep/er/CACHEDIR.TAG").path, tag)
    assert found(top, exclude=("*.jpg",)) == ["/a.png", "/note.txt"]
    assert "/deep/er/d.jpg" not in found(top)
    assert found(f"{top}/deep/er") == ["/deep/er/CACHEDIR.TAG", "/deep/er/d.jpg"]


def test_an_item_that_is_named_is_explicit_and_comes_once(top: str, tmp_path: Path) -> None:
    lines = tmp_path / "list"
    lines.write_text(f"{top}/b.jpg\n{top}/deep\n")
    items = list(sources([f"@{lines}", f"{top}/b.jpg"]).items())
    told = [(item.source.rpartition("/")[2], item.explicit) for item in items]
    assert told == [("b.jpg", True), ("c.jpg", False), ("d.jpg", False)]


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"x")
    items = list(sources([f"file://{tmp_path}"]).items())
    assert [item.path for item in items if isinstance(item, MediaItem)] == [f"{tmp_path}/a.jpg"]


def test_an_object_is_read_up_to_the_limit(top: str) -> None:
    item = MediaItem(f"{top}/b.jpg")
    assert read_item(item, max_bytes=100) == b"photos/b.jpg"
    assert read_if(item, lambda _head: None) is None
    assert read_if(item, lambda head: 100 if head == b"photos/b.jpg" else None) == b"photos/b.jpg"
    with pytest.raises(ReadError, match="more than the limit") as large:
        read_item(item, max_bytes=5)
    assert large.value.item_kind == "too_large"
    with pytest.raises(ReadError) as missing:
        read_item(MediaItem(f"{top}/x.jpg"), max_bytes=5)
    assert missing.value.item_kind == "not_found"
    with open_source(item, max_bytes=100) as clip:
        assert clip.file.read() == b"photos/b.jpg"


def test_the_head_of_a_large_object_comes_first(top: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no picture is not fetched whole."""
    asked: list[int] = []
    read = Bucket.read

    def counting(bucket: Bucket, path: str, end: int, *, start: int = 0) -> bytes:
        asked.append(end)
        return read(bucket, path, end, start=start)

    monkeypatch.setattr(Bucket, "read", counting)
    monkeypatch.setattr(objects, "AT_ONCE_BYTES", 4)
    item = next(iter(sources([f"{top}/b.jpg"]).items()))
    assert isinstance(item, MediaItem)
    assert read_if(item, lambda _head: None) is None
    assert asked == [64]
    assert read_item(item, max_bytes=100) == b"photos/b.jpg"
    assert asked == [64, 64, 13]


def test_an_object_that_grew_is_told(top: str) -> None:
    item = next(iter(sources([f"{top}/b.jpg"]).items()))
    place = Place("memory", item.path.removeprefix("memory://"))
    open_bucket(place).write(place.path, b"longer than it was")
    assert isinstance(item, MediaItem)
    with pytest.raises(ReadError) as changed:
        read_item(item, max_bytes=100)
    assert changed.value.item_kind == "changed"
    again = next(iter(sources([f"{top}/b.jpg"]).items()))
    assert isinstance(again, MediaItem)
    assert again.stat != item.stat


def test_a_bucket_without_permission_ends_the_search(
    top: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(bucket: Bucket, path: str) -> None:
        raise ReadError("permission denied", kind="permission", hint="ask")

    monkeypatch.setattr(Bucket, "facts", refused)
    with pytest.raises(AccessError, match=r"memory://.*: permission denied"):
        found(top)


def test_a_folder_that_cannot_be_listed_is_a_failed_item(
    top: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = Bucket.pages

    def some(bucket: Bucket, folder: str) -> object:
        if folder.endswith("/deep"):
            raise ReadError("denied", kind="permission", hint="ask")
        return pages(bucket, folder)

    monkeypatch.setattr(Bucket, "pages", some)
    items = [item for item in sources([top]).items() if isinstance(item, MediaItem)]
    assert items[-1].source.endswith("photos/deep")
    assert items[-1].trouble is not None
    assert items[-1].trouble.kind == "permission"


@pytest.mark.parametrize("end", ["jpg", "tar", "jsonl"])
def test_a_name_that_reads_as_a_signed_url_costs_one_item(top: str, end: str) -> None:
    place = parse_place(top)
    name = f"photo.jpg?X-Amz-Signature=abc.{end}"
    open_bucket(place).write(place.below(name).path, b"data")
    items = sources([top], exclude=()).items()
    odd = {each.source: each.trouble for each in items if isinstance(each, MediaItem)}
    ((source, trouble),) = ((name, each) for name, each in odd.items() if each)
    assert (trouble.kind, "abc" in source) == ("odd_name", False)
    assert len(found(top)) == 7
