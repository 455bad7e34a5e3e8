"""What is asked of a filesystem, and what its failures become."""

from __future__ import annotations

import errno
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.asyn import get_loop

from vcache_cli.buckets import Bucket, Place, as_run_error, open_bucket
from vcache_cli.buckets.bucket import _filesystem
from vcache_cli.errors import AccessError, ModelError, NotAStoreError, ReadError, StoreFullError


class Failing:
    """A filesystem that fails so often, and then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return b"data"


class NoCredentialsError(ValueError):
    """As of a provider's library."""


class ClientError(Exception):
    """As of a provider's library."""

    def __init__(self, status: int) -> None:
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


def answered(status: int) -> OSError:
    """What a filesystem makes of an answer that it does not know."""
    error = OSError(errno.EIO, "no sig=abc")
    error.__cause__ = ClientError(status)
    return error


def bucket_of(filesystem: Any) -> tuple[Bucket, list[float]]:  # noqa: ANN401  fsspec has no types
    pauses: list[float] = []
    bucket = Bucket("s3", filesystem)
    bucket.pause = pauses.append
    return bucket, pauses


def test_a_service_that_is_busy_is_asked_again_ever_later() -> None:
    filesystem = Failing(*(OSError(errno.EBUSY, "SlowDown") for _ in range(3)))
    bucket, pauses = bucket_of(filesystem)
    assert bucket.read("a/b", 4) == b"data"
    assert filesystem.asked == 4
    assert 0 < pauses[0] < 0.26
    assert pauses[0] < pauses[2] < 1.01


@pytest.mark.parametrize(
    ("make", "kind", "asked"),
    [
        (lambda: OSError(errno.EBUSY, "SlowDown"), "throttled", 6),
        (lambda: TimeoutError("late"), "timeout", 2),
        (lambda: ConnectionResetError("gone"), "connection", 2),
        (lambda: FileNotFoundError("a"), "not_found", 1),
        (lambda: PermissionError("AccessDenied"), "permission", 1),
        (lambda: NoCredentialsError("none"), "no_credentials", 1),
        (lambda: OSError(errno.EIO, "odd sig=abc"), "io_error", 1),
        (lambda: OSError(errno.EROFS, "no"), "permission", 1),
        (lambda: OSError(errno.ENOSPC, "full"), "store_full", 1),
        (lambda: ValueError("odd"), "io_error", 1),
        (lambda: answered(500), "unavailable", 4),
        (lambda: answered(502), "unavailable", 4),
        (lambda: answered(416), "io_error", 1),
    ],
    ids=range(13),
)
def test_a_failure_has_a_kind_and_a_hint(
    make: Callable[[], Exception], kind: str, asked: int
) -> None:
    filesystem = Failing(*(make() for _ in range(9)))
    bucket, _ = bucket_of(filesystem)
    with pytest.raises(ReadError) as failed:
        bucket.read("a/b", 4)
    assert (failed.value.item_kind, filesystem.asked) == (kind, asked)
    assert failed.value.hint
    assert "abc" not in failed.value.message


def test_a_disk_that_is_full_keeps_no_part_of_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = open_bucket(Place("file", str(tmp_path)))

    def half(path: str, data: bytes) -> None:
        Path(path).write_bytes(data[:2])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(bucket._fs, "pipe_file", half)
    with pytest.raises(ReadError) as failed:
        bucket.write(str(tmp_path / "object"), b"data")
    assert failed.value.item_kind == "store_full"
    assert list(tmp_path.iterdir()) == []


def test_what_ends_a_run_names_the_place() -> None:
    place = Place("s3", "bucket/a")
    for kind, error in (
        ("permission", AccessError),
        ("no_credentials", AccessError),
        ("not_found", NotAStoreError),
        ("store_full", StoreFullError),
    ):
        found = as_run_error(ReadError("no", kind=kind, hint="do"), place)
        assert type(found) is error
        assert (found.message, found.hint) == ("s3://bucket/a: no", "do")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _filesystem.cache_clear()
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for scheme, extra in (("s3", ""), ("gs", "gcsfs")):
        with pytest.raises(ModelError) as missing:
            open_bucket(Place(scheme, "bucket/a"))
        assert "pip install 'vcache-cli[remote]'" in missing.value.hint
        assert extra in missing.value.hint


def test_objects_of_a_folder_are_written_whole_listed_and_removed(tmp_path: Path) -> None:
    for place in (Place("file", str(tmp_path)), Place("memory", secrets.token_hex(8))):
        bucket = open_bucket(place)
        for name in ("b.jpg", "deep/c.jpg", "a.jpg"):
            bucket.write(place.below(name).path, name.encode())
        found = [each for page in bucket.pages(place.path) for each in page]
        assert [each.path.removeprefix(f"{place.path}/") for each in found] == [
            *("a.jpg", "b.jpg", "deep")
        ]
        assert [each.is_folder for each in found] == [False, False, True]
        assert all(each.mtime_ns for each in found[:2])
        everything = [each.size_bytes for page in bucket.everything(place.path) for each in page]
        assert sorted(everything) == [5, 5, 10]
        assert bucket.read(place.below("b.jpg").path, 3) == b"b.j"
        facts = bucket.facts(place.below("deep").path)
        assert facts is not None
        assert facts.is_folder
        bucket.remove(place.below("b.jpg").path)
        bucket.remove(place.below("b.jpg").path)
        assert bucket.facts(place.below("b.jpg").path) is None


class Body:
    """What is left to read of an answer."""

    closed = False

    async def read(self) -> bytes:
        return b"data"

    def close(self) -> None:
        self.closed = True


class Versioned:
    """A filesystem of S3 that is busy once, and then answers with an etag."""

    def __init__(self, etag: str) -> None:
        self.loop = get_loop()
        self.etag, self.body = etag, Body()
        self.asked: list[dict[str, str]] = []

    def split_path(self, path: str) -> tuple[str, str, None]:
        return *path.split("/", 1), None  # type: ignore[return-value]

    async def _call_s3(self, method: str, **what: str) -> dict[str, Any]:
        self.asked.append(what)
        if len(self.asked) == 1:
            raise OSError(errno.EBUSY, "SlowDown")
        return {"Body": self.body, "ETag": self.etag}


@pytest.mark.parametrize("etag", ['"abc"', "abc", 'W/"abc"'])
def test_bytes_of_s3_come_with_their_version(etag: str) -> None:
    filesystem = Versioned(etag)
    bucket, pauses = bucket_of(filesystem)
    assert bucket.read_version("a/b/c", 9, start=5) == (b"data", "abc")
    assert filesystem.asked[-1] == {"Bucket": "a", "Key": "b/c", "Range": "bytes=5-8"}
    assert (filesystem.body.closed, len(pauses)) == (True, 1)
    assert (bucket.moved.objects, bucket.moved.size_bytes) == (1, 4)


def test_other_services_tell_no_version_with_bytes() -> None:
    place = Place("memory", f"{secrets.token_hex(8)}/a")
    bucket = open_bucket(place)
    bucket.write(place.path, b"data")
    assert bucket.read_version(place.path, 3, start=1) == (b"at", "")
    bucket.remove(place.path)
