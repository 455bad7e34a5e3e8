"""A filesystem of fsspec, seen as objects with names. Any thread; each process has its own."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from vcache_cli.buckets.failures import TRIES, failures, read_error
from vcache_cli.buckets.local import file_bytes
from vcache_cli.errors import ModelError, ReadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vcache_cli.buckets.place import Place

__all__ = ["Bucket", "Found", "Moved", "open_bucket"]

T = TypeVar("T")

_FIRST_PAUSE_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 8.0
_PAGE: Final = 1000
_VERSIONS: Final = ("ETag", "etag", "generation", "md5Hash", "blob_id", "oid")
_TIMES: Final = ("LastModified", "last_modified", "updated", "mtime", "created")
_PACKAGES: Final = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "hf": "huggingface_hub"}
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "file": {"auto_mkdir": True},
    "memory": {},
    # s3fs tries five times, and we after it: three on top of each other would take minutes.
    "s3": {"use_listings_cache": False, "config_kwargs": {"retries": {"total_max_attempts": 1}}},
}
_NO_CACHE: Final[Mapping[str, Any]] = {"use_listings_cache": False}


class Found(NamedTuple):
    """One name of a listing."""

    path: str
    """Bucket and key."""
    size_bytes: int
    is_folder: bool
    version: str
    """What the service calls this content, such as an etag; empty where it has no name for it."""
    mtime_ns: int
    """0 where it is not known."""


class Moved:
    """What has gone through a bucket, to be shown while it goes on. Any thread."""

    def __init__(self) -> None:
        self.objects = 0
        self.size_bytes = 0
        self._lock = threading.Lock()

    def add(self, size_bytes: int) -> None:
        """One more object, or a part of one."""
        with self._lock:
            self.objects += 1
            self.size_bytes += size_bytes


def open_bucket(place: Place) -> Bucket:
    """The filesystem of `place`. Nothing is asked of it yet.

    Raises:
        ModelError: the extra `remote`, or the provider's package, is not installed.
    """
    return Bucket(place.scheme, _filesystem(place.scheme, os.getpid()))


@cache
def _filesystem(scheme: str, _process: int) -> Any:  # noqa: ANN401  fsspec has no types
    """One for each process: the loop of an asynchronous one does not survive a fork."""
    try:
        import fsspec

        return fsspec.filesystem(scheme, **_OPTIONS.get(scheme, _NO_CACHE))
    except ImportError as error:
        package = _PACKAGES.get(scheme, "fsspec")
        more = "" if scheme in {"s3", "file", "memory"} else f"; then `pip install {package}`"
        raise ModelError(
            f"`{scheme}://` needs the package {package}, which is not installed",
            hint=f"pip install 'vcache-cli[remote]'{more}",
        ) from error
    except failures() as error:
        raise read_error(error) from error


class Bucket:
    """Objects by path. Every failure is a `ReadError`, after a few tries where these may help.

    Its kinds are ``not_found``, ``permission``, ``no_credentials``, ``throttled``, ``unavailable``,
    ``timeout``, ``connection`` and ``io_error``.
    """

    def __init__(self, scheme: str, filesystem: Any) -> None:  # noqa: ANN401  as above
        self.scheme = scheme
        self._fs = filesystem
        self.pause: Callable[[float], None] = time.sleep
        """Waits so many seconds before another try."""
        self.moved = Moved()
        """Objects read and written so far."""

    def pages(self, folder: str) -> Iterator[list[Found]]:
        """What lies directly in `folder`, some at a time, in the service's order.

        Raises:
            ReadError: it cannot be listed.
        """
        if self.scheme == "s3":
            yield from self._streamed(folder, "/")
            return
        listed = self._tried(lambda: self._fs.ls(folder, detail=True))
        found = sorted(self._found(each) for each in listed)
        yield from _chunks([each for each in found if each.path != folder])

    def everything(self, folder: str) -> Iterator[list[Found]]:
        """All objects below `folder`, however deep, some at a time.

        Raises:
            ReadError: it cannot be listed.
        """
        if self.scheme == "s3":
            yield from self._streamed(folder, "")
            return
        listed = self._tried(lambda: self._fs.find(folder, detail=True))
        yield from _chunks(sorted(self._found(each) for each in listed.values()))

    def facts(self, path: str) -> Found | None:
        """What is at `path`; None where nothing is.

        Raises:
            ReadError: it cannot be told.
        """
        try:
            return self._found(self._tried(lambda: self._fs.info(path)))
        except ReadError as error:
            if error.item_kind == "not_found":
                return None
            raise

    def read(self, path: str, end: int, *, start: int = 0) -> bytes:
        """Bytes `start` to `end` of an object, fewer where it ends before.

        Raises:
            ReadError: it cannot be read.
        """
        if self.scheme == "file":
            data = self._caught(lambda: file_bytes(path, start, end))
        else:
            data = self._tried(lambda: self._fs.cat_file(path, start=start, end=end))
        self.moved.add(len(data))
        return data

    def read_version(self, path: str, end: int, *, start: int = 0) -> tuple[bytes, str]:
        """As `read`, with `Found.version` of what was read; empty where the service tells none.

        Raises:
            ReadError: it cannot be read.
        """
        if self.scheme != "s3":
            return self.read(path, end, start=start), ""
        from fsspec.asyn import sync

        data, etag = self._tried(lambda: sync(self._fs.loop, _ranged, self._fs, path, (start, end)))
        self.moved.add(len(data))
        return data, _version(etag)

    def write(self, path: str, data: bytes) -> None:
        """Put an object there, whole or not at all.

        Raises:
            ReadError: it cannot be written.
        """
        if self.scheme != "file":
            self._tried(lambda: self._fs.pipe_file(path, data))
            self.moved.add(len(data))
            return
        temp = f"{path}.{os.urandom(4).hex()}.part"
        try:
            self._tried(lambda: self._fs.pipe_file(temp, data))
            self._tried(lambda: self._fs.mv(temp, path))
        except ReadError:  # no listing tells of it: nobody else would ever remove it
            with suppress(OSError):
                os.unlink(temp)
            raise
        self.moved.add(len(data))

    def remove(self, path: str) -> None:
        """Remove an object; one that is gone already is no failure.

        Raises:
            ReadError: it cannot be removed.
        """
        try:
            self._tried(lambda: self._fs.rm_file(path))
        except ReadError as error:
            if error.item_kind != "not_found":
                raise

    def _streamed(self, folder: str, delimiter: str) -> Iterator[list[Found]]:
        """As an S3 service gives it: a page at a time, however many objects there are."""
        from fsspec.asyn import sync

        root, below, key = folder.partition("/")
        prefix = f"{key}/" if below else ""
        listing = self._fs._iterdir(root, delimiter=delimiter, prefix=prefix)  # noqa: SLF001  a page at a time
        while page := self._caught(lambda: sync(self._fs.loop, _page, listing)):
            # `a/` may be an object itself: what some tools put there for a folder. As a folder it
            # is one without a name, of what is called `a//b`.
            found = map(self._found, page)
            yield [each for each in found if each.is_folder or not each.path.endswith("/")]

    def _tried(self, ask: Callable[[], T]) -> T:
        for number in count():
            try:
                return self._caught(ask)
            except ReadError as error:
                if number + 1 >= TRIES.get(error.item_kind, 1):
                    raise
                longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**number)
                spread = os.urandom(1)[0] / 255  # so that many machines do not come back as one
                self.pause(longest * (0.5 + spread / 2))
        raise AssertionError

    def _caught(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except failures() as error:
            raise read_error(error) from error

    def _found(self, info: Mapping[str, Any]) -> Found:
        version = next((_version(str(info[name])) for name in _VERSIONS if info.get(name)), "")
        mtime = next((info[name] for name in _TIMES if info.get(name)), None)
        path = str(info["name"])
        return Found(
            path.strip("/") if self.scheme == "memory" else path,
            int(info.get("size") or 0),
            info.get("type") == "directory",
            version,
            _nanoseconds(mtime),
        )


async def _page(listing: Any) -> list[Any]:  # noqa: ANN401  as above
    """The next thousand of what an asynchronous generator gives."""
    page: list[Any] = []
    async for each in listing:
        page.append(each)
        if len(page) == _PAGE:
            break
    return page


async def _ranged(filesystem: Any, path: str, span: tuple[int, int]) -> tuple[bytes, str]:  # noqa: ANN401  as above
    """Bytes of an object of S3, and its etag: the filesystem's own reading leaves that out."""
    bucket, key, _ = filesystem.split_path(path)
    bounds = f"bytes={span[0]}-{span[1] - 1}"
    answer = await filesystem._call_s3("get_object", Bucket=bucket, Key=key, Range=bounds)  # noqa: SLF001
    try:
        return await answer["Body"].read(), answer.get("ETag", "")
    finally:
        answer["Body"].close()


def _version(etag: str) -> str:
    """An etag in one spelling: services put it in quotes, or not."""
    return etag.removeprefix("W/").strip('"')


def _chunks(found: list[Found]) -> Iterator[list[Found]]:
    for start in range(0, len(found), _PAGE):
        yield found[start : start + _PAGE]


def _nanoseconds(moment: object) -> int:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return 0
    if isinstance(moment, datetime):
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return int(moment * 1e9) if isinstance(moment, int | float) else 0
