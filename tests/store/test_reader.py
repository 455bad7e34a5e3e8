"""A get answers with what was put, or not at all."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.store.care import add, entry, make_store
from vcache_cli.entry import Entry
from vcache_cli.errors import InvalidEntryError
from vcache_cli.header import HeaderLimits
from vcache_cli.store import DiskStore, OsFiles, StoreRoot, read_file, read_header
from vcache_cli.store.reader import _SMALL_BYTES, EntryReader
from vcache_cli.targets import NativeLayout
from vcache_cli.tensor import Tensor

LARGE = entry(3, tokens=_SMALL_BYTES // 16 + 7)
"""Beyond what is read at once."""


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """A store without entries."""
    return make_store(tmp_path / "store")


def put(root: StoreRoot, made: Entry) -> Path:
    """Put it; its file."""
    with DiskStore(root, mode="w") as store:
        store.put(made)
    return root.path / root.layout.path_of(made.key)


class Flipping(OsFiles):
    """Reads a file with one bit, counted from its start, turned over."""

    def __init__(self) -> None:
        self.bit = -1
        self.read = self._read

    def _read(self, fd: int, count: int) -> bytes:
        data = bytearray(os.read(fd, count))
        if self.bit >= 0:
            data[self.bit // 8] ^= 1 << self.bit % 8
        return bytes(data)


@pytest.mark.parametrize("made", [entry(1), entry(2, tokens=0), LARGE], ids=["small", "0", "large"])
def test_what_was_put_is_got(root: StoreRoot, made: Entry) -> None:
    put(root, made)
    found = DiskStore(root).get(made.key)
    assert found is not None
    assert (found.key, found.stage, found.provenance) == (made.key, made.stage, made.provenance)
    assert found.tensors["features"].shape == made.tensors["features"].shape
    assert found.tensors["features"].data == made.tensors["features"].data
    assert np.array_equal(found.numpy("features"), made.numpy("features"), equal_nan=True)


@pytest.mark.parametrize("made", [entry(1), LARGE], ids=["small", "large"])
def test_the_tensors_of_a_get_cannot_be_written_to(root: StoreRoot, made: Entry) -> None:
    put(root, made)
    found = DiskStore(root).get(made.key)
    assert found is not None
    data = found.tensors["features"].data
    assert isinstance(data, memoryview)
    assert data.readonly
    assert not found.tensors["features"].bits().flags.writeable


def test_one_flipped_bit_anywhere_is_a_miss(root: StoreRoot) -> None:
    """Every bit of a whole file: length, JSON, padding, checksum and data."""
    made = entry(1)
    bits = 8 * put(root, made).stat().st_size
    files = Flipping()
    store = DiskStore(root, files=files)
    for files.bit in range(bits):
        assert store.get(made.key) is None, f"bit {files.bit}"
        assert store.findings.pop().kind in {"header", "checksum"}
        assert not store.findings
    files.bit = -1
    assert store.get(made.key) is not None


@pytest.mark.parametrize("at", [-1, 200_000, _SMALL_BYTES, 12])
def test_a_flipped_bit_in_a_large_entry_is_a_miss(root: StoreRoot, at: int) -> None:
    path = put(root, LARGE)
    bad = bytearray(path.read_bytes())
    bad[at] ^= 16
    path.chmod(0o600)
    path.write_bytes(bad)
    assert DiskStore(root).get(LARGE.key) is None


def test_a_file_that_shrinks_while_it_is_read_is_refused(root: StoreRoot) -> None:
    path = put(root, LARGE)

    class Shrinking(OsFiles):
        def __init__(self) -> None:
            self.fstat = self._fstat

        def _fstat(self, fd: int) -> os.stat_result:
            facts = os.fstat(fd)
            path.chmod(0o600)
            os.truncate(path, facts.st_size - 100_000)
            return facts

    relative = root.layout.path_of(LARGE.key)
    with pytest.raises(InvalidEntryError) as caught:
        read_file(Shrinking(), str(path), relative, root.layout)
    assert caught.value.finding == "size"


def test_reading_opens_once_and_writes_nothing(root: StoreRoot) -> None:
    path = put(root, entry(1))
    opened: list[str] = []

    class Watching(OsFiles):
        def __init__(self) -> None:
            self.open = self._open  # type: ignore[assignment]

        def _open(self, path: str, flags: int, mode: int = 0) -> int:
            assert not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            opened.append(path)
            return os.open(path, flags, mode)

    assert DiskStore(root, files=Watching()).get(entry(1).key) is not None
    assert opened == [str(path)]


@pytest.mark.parametrize("made", [entry(1), entry(2, model="m" * 5000)], ids=["short", "long"])
def test_a_header_says_what_the_whole_file_says(root: StoreRoot, made: Entry) -> None:
    path = put(root, made)
    facts = read_header(path, root.layout.path_of(made.key), root.layout)
    whole = DiskStore(root).get(made.key)
    assert whole is not None
    assert facts.entry.provenance == whole.provenance
    assert facts.entry.metadata == whole.metadata
    assert facts.entry.tensors == {}
    assert [(spec.name, spec.dtype, spec.shape) for spec in facts.header.tensors] == [
        ("features", "BF16", (4, 8))
    ]
    assert facts.stat.st_size == path.stat().st_size


def test_a_header_of_a_cut_file_is_refused(root: StoreRoot) -> None:
    path = put(root, entry(1))
    path.chmod(0o600)
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(InvalidEntryError):
        read_header(path, root.layout.path_of(entry(1).key), root.layout)


class _PlainLayout(NativeLayout):
    """Such as a server's own store: no checksum, no alignment."""

    __slots__ = ()

    @property
    def checksum_field(self) -> str | None:
        return None

    @property
    def limits(self) -> HeaderLimits:
        return HeaderLimits(alignment_bytes=1, max_header_bytes=1_000_000)


@pytest.mark.parametrize("made", [entry(1), LARGE], ids=["small", "large"])
def test_a_layout_without_checksum_is_read_by_its_structure(root: StoreRoot, made: Entry) -> None:
    path = put(root, made)
    bad = bytearray(path.read_bytes())
    bad[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(bad)
    found = DiskStore(replace(root, layout=_PlainLayout())).get(made.key)
    assert found is not None
    assert found.tensors["features"].data == bytes(bad[-made.size_bytes :])


def test_a_layout_without_checksum_is_written_without(tmp_path: Path) -> None:
    root = replace(make_store(tmp_path / "store"), layout=_PlainLayout())
    made = replace(entry(1), tensors={"a": Tensor("U8", (3,), b"abc")})
    path = put(root, made)
    assert b"xxh3" not in path.read_bytes()
    assert DiskStore(root).get(made.key) is not None


def test_a_long_header_is_read_in_a_second_step(tmp_path: Path) -> None:
    """Longer than the first step of a large file."""
    root = replace(make_store(tmp_path / "store"), layout=_PlainLayout())
    made = replace(LARGE, provenance=replace(LARGE.provenance, model="m" * 400_000))
    put(root, made)
    found = DiskStore(root).get(made.key)
    assert found is not None
    assert found.tensors["features"].data == made.tensors["features"].data


def test_scratch_memory_is_used_again_and_says_the_same(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    plain, scratch = (EntryReader(OsFiles(), root.layout, scratch=each) for each in (False, True))
    for tokens in (4, 40_000, 0, 7):  # of 640 KB and of nothing, too
        path = add(root, entry(tokens, tokens=tokens))
        relative = str(path.relative_to(root.path))
        wanted, found = plain.read(str(path), relative), scratch.read(str(path), relative)
        assert (found.key, found.metadata) == (wanted.key, wanted.metadata)
        assert bytes(found.tensors["features"].data) == bytes(wanted.tensors["features"].data)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InvalidEntryError):
        scratch.read(str(path), relative)
