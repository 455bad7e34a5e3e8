"""Publishing an entry: canonical bytes, temp file, fsync, replace, fsync of the directory."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from vcache_cli.entry import Entry
from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import (
    LENGTH_BYTES,
    Header,
    HeaderLimits,
    HeaderReader,
    build_header,
    canonical_order,
)
from vcache_cli.protocols import Layout
from vcache_cli.store.checksum import BLANK, DIGITS, digits_at, start_checksum
from vcache_cli.store.create import write_meta
from vcache_cli.store.files import (
    TEMP_FLAGS,
    FileOps,
    explained,
    make_directory,
    sync_directory,
    write_all,
)
from vcache_cli.store.meta import StoreRoot, vcache_dir
from vcache_cli.store.owners import directory_mode, heir_of

__all__ = ["Packed", "Publisher", "pack_entry"]


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """The bytes of an entry's file."""

    relative: str
    """Path below the root."""
    parts: Sequence[bytes | memoryview]
    """Header first, then each tensor in file order."""
    size_bytes: int


def pack_entry(entry: Entry, layout: Layout, headers: HeaderReader | None = None) -> Packed:
    """The canonical file of `entry`, its header read back by the strict reader.

    Where many entries are packed, `headers`, of the layout's limits, makes that faster.

    Raises:
        InvalidEntryError: the layout has no file for such an entry.
    """
    relative = _path_of(entry.key, layout)
    metadata, tensors = layout.pack(entry)
    field = layout.checksum_field
    if field:
        metadata = {**metadata, field: BLANK.decode("ascii")}
    names = canonical_order({name: tensor.dtype for name, tensor in tensors.items()})
    header = build_header(
        metadata, {name: (tensors[name].dtype, tensors[name].shape) for name in names}
    )
    data = [memoryview(tensors[name].data).cast("B") for name in names if tensors[name].size_bytes]
    size_bytes = len(header) + sum(map(len, data))
    read = _read_back(header, size_bytes, headers or HeaderReader(layout.limits), layout.limits)
    layout.unpack(relative, read.metadata, {})
    if field:
        header = _with_checksum(header, data, field)
    return Packed(relative, [header, *data], size_bytes)


def _path_of(key: str, layout: Layout) -> str:
    try:
        return layout.path_of(key)
    except ValueError as error:
        raise InvalidEntryError(str(error), finding="key_mismatch") from error


def _read_back(
    header: bytes, size_bytes: int, headers: HeaderReader, limits: HeaderLimits
) -> Header:
    """Nothing is written that a get would refuse."""
    if size_bytes > limits.max_file_bytes or len(header) > LENGTH_BYTES + limits.max_header_bytes:
        raise InvalidEntryError(
            f"{size_bytes} bytes with a header of {len(header)}, at most "
            f"{limits.max_file_bytes} and {limits.max_header_bytes} are allowed",
            finding="size",
        )
    return headers.read(header[LENGTH_BYTES:], size_bytes - len(header))


def _with_checksum(header: bytes, data: Sequence[memoryview], field: str) -> bytes:
    at = digits_at(header, field)
    checksum = start_checksum(header, at)
    for view in data:
        checksum.update(view)
    return header[:at] + checksum.hexdigest().encode("ascii") + header[at + DIGITS :]


def _check_size(found_bytes: int, written_bytes: int) -> None:
    if found_bytes != written_bytes:
        raise OSError(errno.EIO, f"{written_bytes} bytes written, the file has {found_bytes}")


_MANY_SHARDS: Final = 16
"""New shards after which a run is taken for one that will need them all."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """Writes packed entries below a root. Any thread."""

    files: FileOps
    root: StoreRoot
    durable: set[str] = field(default_factory=set, repr=False)
    """Shards whose own names are known to be durable; others were perhaps made a moment ago."""
    made: set[str] = field(default_factory=set, repr=False)
    """Shards that this publisher made since it last made them all."""
    headers: HeaderReader = field(init=False, repr=False)
    """Of what `pack` wrote before."""
    temps: str = field(init=False, repr=False)
    """Directory of the temps."""
    mode: int = field(init=False, repr=False)
    """Of the shards."""
    heir: tuple[int, int] | None = field(init=False, repr=False)
    """Who is given shards and entries."""

    def __post_init__(self) -> None:
        """Make what needs the root's layout, and look at the root."""
        object.__setattr__(self, "headers", HeaderReader(self.root.layout.limits))
        object.__setattr__(self, "temps", str(vcache_dir(self.root.path) / "tmp"))
        object.__setattr__(self, "mode", directory_mode(self.root))
        object.__setattr__(self, "heir", heir_of(self.root.path))

    def pack(self, entry: Entry) -> Packed:
        """`pack_entry` in the root's layout.

        Raises:
            InvalidEntryError: as there.
        """
        return pack_entry(entry, self.root.layout, self.headers)

    def learn_shards(self) -> None:
        """Make the names of the shards that are there durable, with one sync for all.

        Raises:
            StoreFullError, AccessError, OSError: as `publish`.
        """
        root = str(self.root.path)
        with explained(self.files, root):
            names = set(os.listdir(root)).intersection(self.root.layout.shards or ())
            if names:
                sync_directory(self.files, root)
        self.durable.update(f"{root}/{name}" for name in names)

    def publish(self, packed: Packed) -> tuple[str, ...]:
        """Put the file in its place, replacing what was there.

        The file's data is durable; its name is, once the returned directories are synced.

        Raises:
            StoreFullError: no space, or beyond a quota.
            AccessError: not permitted, or a read-only filesystem.
            OSError: the disk failed in another way. No temp is left behind in any case.
        """
        root = str(self.root.path)
        shard = f"{root}/{packed.relative.rpartition('/')[0]}"
        temp = f"{self.temps}/{secrets.token_hex(16)}"
        with explained(self.files, root, needed_bytes=packed.size_bytes):
            self._make_shard(shard)
            try:
                self._write(temp, packed)
                self.files.replace(temp, f"{root}/{packed.relative}")
            except BaseException:
                with contextlib.suppress(OSError):  # what was never made, or is swept, is gone
                    self.files.unlink(temp)
                raise
        return (shard,) if shard in self.durable else (shard, root)

    def present_bytes(self, packed: Packed) -> int:
        """Bytes of the file that `publish` would replace; 0 where there is none."""
        try:
            return self.files.lstat(f"{self.root.path}/{packed.relative}").st_size
        except OSError:
            return 0

    def sync_one(self, directory: str) -> None:
        """Make the names in one directory durable.

        Raises:
            StoreFullError, AccessError, OSError: as `publish`.
        """
        with explained(self.files, str(self.root.path)):
            sync_directory(self.files, directory)

    def confirm(self, directories: Sequence[str]) -> None:
        """Note that all that `publish` returned were synced, the root after its shard was made."""
        self.durable.add(directories[0])

    def sync(self, directories: Sequence[str]) -> None:
        """Make the names in `directories` durable; all that `publish` returned.

        Raises:
            StoreFullError, AccessError, OSError: as `publish`.
        """
        for directory in directories:
            self.sync_one(directory)
        self.confirm(directories)

    def _make_shard(self, shard: str) -> None:
        try:
            found = self.files.lstat(shard)
        except FileNotFoundError:
            make_directory(self.files, shard, self.mode, owner=self.heir)
            self.made.add(shard)
            if len(self.made) >= _MANY_SHARDS:
                self._make_all_shards()
            return
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), shard)

    def _make_all_shards(self) -> None:
        """One sync of the root for all shards that are still to come, instead of one for each."""
        self.made.clear()  # so that this is done once
        root = str(self.root.path)
        shards = [f"{root}/{name}" for name in self.root.layout.shards or ()]
        for shard in shards:
            make_directory(self.files, shard, self.mode, owner=self.heir)
        if shards:
            sync_directory(self.files, root)
            self.durable.update(shards)

    def _write(self, temp: str, packed: Packed) -> None:
        fd = self._open_temp(temp)
        try:
            for part in packed.parts:
                write_all(self.files, fd, part)
            _check_size(self.files.fstat(fd).st_size, packed.size_bytes)
            if self.heir:
                self.files.fchown(fd, *self.heir)
            self.files.fchmod(fd, self.root.meta.modes.entry)
            self.files.fsync(fd)
        except BaseException:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                self.files.close(fd)
            raise
        self.files.close(fd)

    def _open_temp(self, temp: str) -> int:
        try:
            return self.files.open(temp, TEMP_FLAGS, 0o600)
        except FileNotFoundError:  # someone deleted `.vcache`; it can be made again
            write_meta(self.root.path, self.root.meta, files=self.files)
            return self.files.open(temp, TEMP_FLAGS, 0o600)
