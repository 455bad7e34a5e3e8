"""A put leaves the old entry or the new one, whatever fails, and nothing else."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import deserialize

from tests.examples import ON_DISK
from tests.store.care import entry, make_store
from tests.store.faults import FaultyFiles, ShortFiles
from vcache_cli.entry import Entry
from vcache_cli.errors import AccessError, InvalidEntryError, StoreFullError
from vcache_cli.items import Stage
from vcache_cli.store import DiskStore, OsFiles, StoreRoot, adopt_meta, create_meta
from vcache_cli.store.writer import Publisher, pack_entry
from vcache_cli.targets import NativeLayout
from vcache_cli.targets.omlx_layout import OmlxLayout
from vcache_cli.targets.omlx_names import omlx_key
from vcache_cli.tensor import ITEMSIZE_BYTES, Tensor

LAYOUT = NativeLayout()
TENSORS = st.dictionaries(
    st.from_regex(r"[a-z0-9_.]{1,8}", fullmatch=True),
    st.tuples(
        st.sampled_from(sorted(LAYOUT.limits.dtypes)), st.lists(st.integers(0, 4), max_size=3)
    ),
    max_size=5,
)


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """A store without entries."""
    return make_store(tmp_path / "store")


def bytes_of(made: Entry) -> bytes:
    """The file of an entry."""
    return b"".join(bytes(part) for part in pack_entry(made, LAYOUT).parts)


def temps(root: StoreRoot) -> list[str]:
    """What lies in the folder of temps."""
    return os.listdir(root.path / ".vcache/tmp")


def a_tensor(dtype: str, shape: list[int], seed: int) -> Tensor:
    """Elements that differ."""
    size_bytes = ITEMSIZE_BYTES[dtype]
    for side in shape:
        size_bytes *= side
    return Tensor(dtype, tuple(shape), bytes((seed + at) % 251 for at in range(size_bytes)))


@given(TENSORS, st.integers(0, 250))
def test_the_bytes_do_not_depend_on_the_order_of_tensors(
    shapes: dict[str, tuple[str, list[int]]], seed: int
) -> None:
    tensors = {name: a_tensor(*spec, seed) for name, spec in shapes.items()}
    made = replace(entry(1), tensors=tensors)
    backwards = replace(made, tensors=dict(reversed(tensors.items())))
    assert bytes_of(made) == bytes_of(backwards)


@given(TENSORS, st.integers(0, 250))
def test_the_reference_reader_sees_the_same_tensors_aligned(
    shapes: dict[str, tuple[str, list[int]]], seed: int
) -> None:
    tensors = {name: a_tensor(*spec, seed) for name, spec in shapes.items()}
    raw = bytes_of(replace(entry(1), tensors=tensors))
    found = {
        name: (value["dtype"], tuple(value["shape"]), bytes(value["data"]))
        for name, value in deserialize(raw)  # type: ignore[no-untyped-call]
    }
    wanted = {name: (made.dtype, made.shape, made.data) for name, made in tensors.items()}
    assert found == wanted
    assert (8 + int.from_bytes(raw[:8], "little")) % 64 == 0


@pytest.mark.parametrize("name", ["Features", "", "a b", "x" * 65])
def test_what_a_get_would_refuse_is_not_written(root: StoreRoot, name: str) -> None:
    bad = replace(entry(1), tensors={name: Tensor("U8", (1,), b"a")})
    with DiskStore(root, mode="w") as store, pytest.raises(InvalidEntryError):
        store.put(bad)
    assert not list(root.path.glob("??"))


def test_an_entry_under_the_key_of_another_is_not_written(root: StoreRoot) -> None:
    with DiskStore(root, mode="w") as store, pytest.raises(InvalidEntryError) as caught:
        store.put(replace(entry(1), key=entry(2).key))
    assert caught.value.finding == "key_mismatch"


def test_a_recipe_too_large_for_a_header_is_not_written(root: StoreRoot) -> None:
    made = entry(1, model="x" * 70_000)
    with DiskStore(root, mode="w") as store, pytest.raises(InvalidEntryError) as caught:
        store.put(made)
    assert caught.value.finding == "size"


# --- the order of steps ----------------------------------------------------------------------


def test_data_is_synced_before_the_name_and_the_name_before_the_return(root: StoreRoot) -> None:
    """The order that a power cut at any point leaves whole."""
    files = FaultyFiles()
    with DiskStore(root, mode="w", files=files) as store:
        store.put(entry(1))
    shard = str(root.path / entry(1).key[:2])
    steps = [
        (name, "temp" if "/.vcache/tmp/" in subject else subject)
        for name, subject in files.log
        if name in {"mkdir", "write", "fsync", "replace"}
    ]
    assert steps == [
        ("mkdir", shard),
        ("write", "temp"),
        ("write", "temp"),
        ("fsync", "temp"),
        ("replace", "temp"),
        ("fsync", shard),
        ("fsync", str(root.path)),
    ]


def test_the_root_is_synced_only_for_a_new_shard(root: StoreRoot) -> None:
    files = FaultyFiles()
    with DiskStore(root, mode="w", files=files) as store:
        store.put(entry(1))
        before = len(files.log)
        store.put(entry(1))
    assert ("fsync", str(root.path)) not in files.log[before:]


# --- faults ----------------------------------------------------------------------------------

ERRORS: dict[int, type[Exception]] = {
    errno.ENOSPC: StoreFullError,
    errno.EDQUOT: StoreFullError,
    errno.EROFS: AccessError,
    errno.EACCES: AccessError,
    errno.EPERM: AccessError,
    errno.EIO: OSError,
    errno.EMFILE: OSError,
    errno.ESTALE: OSError,
}
STEPS_OF_A_PUT = 18


def test_the_number_of_steps_is_known(root: StoreRoot) -> None:
    """So that the test below fails in every one of them."""
    files = FaultyFiles()
    with DiskStore(root, mode="w", files=files) as store:
        store.put(entry(1))
    assert len(files.log) == STEPS_OF_A_PUT


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("step", range(STEPS_OF_A_PUT))
def test_a_put_that_fails_anywhere_leaves_nothing_torn(
    root: StoreRoot, step: int, error: int
) -> None:
    made = entry(1)
    with DiskStore(root, mode="w", files=FaultyFiles(step, error)) as store:
        try:
            store.put(made)
        except ERRORS[error]:
            pass
        else:  # only the close of a descriptor through which nothing was written
            assert store.get(made.key) is not None
    after = DiskStore(root)
    found = after.get(made.key)
    assert found is None or found.tensors["features"].data == made.tensors["features"].data
    assert not after.findings
    assert temps(root) == []


@pytest.mark.parametrize("step", range(3, 14))  # opening a store with shards takes three
def test_a_put_that_fails_keeps_the_entry_that_was_there(root: StoreRoot, step: int) -> None:
    made = entry(1)
    with DiskStore(root, mode="w") as store:
        store.put(made)
    with (
        DiskStore(root, mode="w", files=FaultyFiles(step, errno.EIO)) as store,
        contextmanager(raising_or_not)(),
    ):
        store.put(made)
    after = DiskStore(root)
    assert after.get(made.key) is not None
    assert temps(root) == []


def raising_or_not() -> Iterator[None]:
    """Whether the put fails is not what is asked."""
    try:
        yield
    except OSError:
        return


def test_a_full_disk_says_what_was_needed_and_what_is_free(root: StoreRoot) -> None:
    with (
        DiskStore(root, mode="w", files=FaultyFiles(5, errno.ENOSPC)) as store,
        pytest.raises(StoreFullError, match=r"B needed, .*B free") as caught,
    ):
        store.put(entry(1))
    assert caught.value.exit_code == 13
    assert caught.value.hint


def test_an_interrupt_leaves_no_temp(root: StoreRoot) -> None:
    class Interrupted(OsFiles):
        def __init__(self) -> None:
            self.fsync = self._fsync  # type: ignore[assignment]

        def _fsync(self, fd: int) -> None:
            raise KeyboardInterrupt

    with (
        DiskStore(root, mode="w", files=Interrupted()) as store,
        pytest.raises(KeyboardInterrupt),
    ):
        store.put(entry(1))
    assert temps(root) == []


@ON_DISK
@given(most=st.integers(1, 2000))
def test_writes_and_reads_that_do_less_than_asked_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, most: int
) -> None:
    root = make_store(tmp_path_factory.mktemp("short") / "store")
    made = entry(1, tokens=100)
    with DiskStore(root, mode="w", files=ShortFiles(most)) as store:
        store.put(made)
        found = store.get(made.key)
    assert found is not None
    assert found.tensors["features"].data == made.tensors["features"].data
    assert (root.path / LAYOUT.path_of(made.key)).read_bytes() == bytes_of(made)


def test_a_system_that_loses_bytes_is_noticed(root: StoreRoot) -> None:
    """Some network filesystems claim to have written what they have not."""

    class Liar(OsFiles):
        def __init__(self) -> None:
            self.write = self._write  # type: ignore[assignment]

        def _write(self, fd: int, data: bytes | memoryview) -> int:
            os.write(fd, memoryview(data)[:-1])
            return len(data)

    with (
        DiskStore(root, mode="w", files=Liar()) as store,
        pytest.raises(OSError, match="bytes written"),
    ):
        store.put(entry(1))
    assert DiskStore(root).get(entry(1).key) is None
    assert temps(root) == []


# --- modes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize(
    ("shared", "directory", "file"), [("private", 0o700, 0o444), ("group", 0o2770, 0o440)]
)
def test_modes_come_from_the_policy_not_from_the_umask(
    tmp_path: Path, umask: int, shared: str, directory: int, file: int
) -> None:
    before = os.umask(umask)
    try:
        path = tmp_path / "store"
        root = StoreRoot(path, LAYOUT, create_meta(path, target="native", shared=shared))
        with DiskStore(root, mode="w") as store:
            store.put(entry(1))
    finally:
        os.umask(before)
    for found in [path, *path.rglob("*")]:
        mode = stat.S_IMODE(found.stat().st_mode)
        if found.is_dir():
            assert mode == directory, found
        elif found.suffix == ".safetensors":
            assert mode == file, found
        elif found.parent.name == "locks":
            assert mode == (0o660 if shared == "group" else 0o600)


@pytest.mark.parametrize(("mode", "made"), [(0o755, 0o755), (0o750, 0o750), (0o711, 0o711)])
def test_who_may_look_into_a_server_s_folder_may_look_into_what_we_make_there(
    tmp_path: Path, mode: int, made: int
) -> None:
    path, layout = tmp_path / "vision_features", OmlxLayout()
    path.mkdir()
    path.chmod(mode)
    root = StoreRoot(path, layout, adopt_meta(path, target="omlx"))
    name, picture = "/models/m", "ab" * 32
    tensors = {"feature": Tensor.from_numpy(np.ones((2, 4), np.float32))}
    metadata = {"model_name": name, "image_hash": picture}
    written = Entry(omlx_key(name, picture), Stage.FEATURES, tensors, metadata=metadata)
    with DiskStore(root, mode="w") as store:
        store.put(written)
    (shard,) = path.glob("[0-9a-f]")
    assert stat.S_IMODE(shard.stat().st_mode) == made
    assert stat.S_IMODE((path / ".vcache").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_gives_what_it_makes_to_the_owner_of_the_store(root: StoreRoot) -> None:
    os.chown(root.path, 12345, 12346)
    with DiskStore(root, mode="w") as store:
        store.put(entry(1))
    file = root.path / LAYOUT.path_of(entry(1).key)
    for made in (file, file.parent):
        assert (made.stat().st_uid, made.stat().st_gid) == (12345, 12346)


def test_a_shard_that_is_a_link_is_not_written_through(root: StoreRoot, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root.path / entry(1).key[:2]).symlink_to(tmp_path / "elsewhere")
    with DiskStore(root, mode="w") as store, pytest.raises(NotADirectoryError):
        store.put(entry(1))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_store_s_own_folder_is_made_again_when_someone_deletes_it(root: StoreRoot) -> None:
    publisher = Publisher(OsFiles(), root)
    for folder in sorted((root.path / ".vcache").rglob("*"), reverse=True):
        folder.rmdir() if folder.is_dir() else folder.unlink()
    (root.path / ".vcache").rmdir()
    publisher.sync(publisher.publish(pack_entry(entry(1), LAYOUT)))
    assert DiskStore(root).get(entry(1).key) is not None
    assert create_meta(root.path, target="native") == root.meta
